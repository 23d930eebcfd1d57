//! The client of a bucket: what the environment says, a profile of the `aws` command, then the options that
//! were given, each over the one before.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, Certificate, ClientConfigKey, ObjectStore, RetryConfig};

use crate::address::{Address, Scheme};
use crate::attempts::{Attempts, Counting};
use crate::error::{Kind, StoreError};
use crate::options::{OWN, StoreOptions};
use crate::profile;

/// What fails is tried again for so long, and so often: with pauses that grow, of random length.
const RETRY: Duration = Duration::from_secs(60);
const RETRIES: usize = 10;

/// Makes the client of the bucket that an address is in; says where that is, if the URL alone does not.
pub(crate) fn connect(
    address: &Address,
    options: &StoreOptions,
    attempts: &Arc<Attempts>,
) -> Result<(Arc<dyn ObjectStore>, String), StoreError> {
    let root = address.root.as_str();
    let refused = |error: object_store::Error| {
        let advice = "look at storage_options and at the environment's variables for this store";
        StoreError::new(Kind::Option, "open", root.to_string(), error.to_string(), advice)
    };
    let trusted = trusted(address, options)?;
    let counting = Counting { attempts: Arc::clone(attempts), trusted };
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(10),
            base: 2.0,
        },
        max_retries: RETRIES,
        retry_timeout: RETRY,
    };
    match address.scheme {
        Scheme::S3 => {
            let mut builder = AmazonS3Builder::from_env();
            let given = |key: &str| {
                options.client.keys().any(|name| name.strip_prefix("aws_").unwrap_or(name) == key)
            };
            let keys_given = given("access_key_id") || given("skip_signature");
            let has_keys = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some();
            if options.profile.is_some() || !(keys_given || has_keys) {
                for (name, value) in profile::settings(root, options.profile.as_deref())? {
                    let key = key(root, name)?;
                    // What says where things are comes from the environment first, as the `aws` command has it.
                    let is_place = matches!(name, "region" | "endpoint_url");
                    if !is_place || builder.get_config_value(&key).is_none() {
                        builder = builder.with_config(key, value);
                    }
                }
            }
            for (name, value) in &options.client {
                builder = builder.with_config(key(root, name)?, value);
            }
            let plain =
                |key| builder.get_config_value(&key).is_some_and(|url| url.starts_with("http://"));
            if plain(AmazonS3ConfigKey::Endpoint) || plain(AmazonS3ConfigKey::S3Endpoint) {
                builder = builder.with_allow_http(true);
            }
            let server = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
                .iter()
                .find_map(|key| builder.get_config_value(key));
            let store = builder
                .with_url(root)
                .with_retry(retry)
                .with_http_connector(counting)
                .build()
                .map_err(refused)?;
            Ok((Arc::new(store), server.unwrap_or_default()))
        }
        Scheme::Google => {
            let root_url = root.replacen("gcs://", "gs://", 1);
            let mut builder = GoogleCloudStorageBuilder::from_env();
            for (name, value) in &options.client {
                builder = builder.with_config(key(root, name)?, value);
            }
            let server = builder.get_config_value(&GoogleConfigKey::BaseUrl);
            if server.as_ref().is_some_and(|url| url.starts_with("http://")) {
                let allow_http = GoogleConfigKey::Client(ClientConfigKey::AllowHttp);
                builder = builder.with_config(allow_http, "true");
            }
            let store = builder
                .with_url(root_url)
                .with_retry(retry)
                .with_http_connector(counting)
                .build()
                .map_err(refused)?;
            Ok((Arc::new(store), server.unwrap_or_default()))
        }
        Scheme::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env();
            for (name, value) in &options.client {
                builder = builder.with_config(key(root, name)?, value);
            }
            let server = builder.get_config_value(&AzureConfigKey::Endpoint);
            if server.as_ref().is_some_and(|url| url.starts_with("http://")) {
                builder = builder.with_allow_http(true);
            }
            let account = builder.get_config_value(&AzureConfigKey::AccountName);
            let server = server.or(account);
            let store = builder
                .with_url(root)
                .with_retry(retry)
                .with_http_connector(counting)
                .build()
                .map_err(refused)?;
            Ok((Arc::new(store), server.unwrap_or_default()))
        }
        Scheme::Http => {
            let mut builder = HttpBuilder::new();
            if root.starts_with("http://") {
                builder = builder.with_config(ClientConfigKey::AllowHttp, "true");
            }
            for (name, value) in &options.client {
                builder = builder.with_config(key(root, name)?, value);
            }
            let store = builder
                .with_url(root)
                .with_retry(retry)
                .with_http_connector(counting)
                .build()
                .map_err(refused)?;
            Ok((Arc::new(store), String::new()))
        }
    }
}

/// The certificates that are trusted beside the system's.
fn trusted(address: &Address, options: &StoreOptions) -> Result<Vec<Certificate>, StoreError> {
    let of_aws = || std::env::var_os("AWS_CA_BUNDLE").filter(|_| address.scheme == Scheme::S3);
    let given = options.ca_bundle.clone().or_else(|| of_aws().map(PathBuf::from));
    let Some(path) = given.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(Vec::new());
    };
    let refused = |why: String| {
        let what = format!("the certificates in `{}` cannot be read ({why})", path.display());
        let advice = "name a file of certificates in PEM as ca_bundle, or in AWS_CA_BUNDLE";
        StoreError::new(Kind::Option, "open", address.root.clone(), what, advice)
    };
    let text = fs::read(&path).map_err(|error| refused(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&text).map_err(|error| refused(error.to_string()))?;
    if found.is_empty() { Err(refused("there is none".to_string())) } else { Ok(found) }
}

/// An option of the client by its name.
fn key<K: std::str::FromStr>(root: &str, name: &str) -> Result<K, StoreError> {
    name.parse().map_err(|_| {
        let own: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
        let what = format!(
            "there is no option {name:?} for this store (beside its own, which are those of the object_store \
             crate, there are {})",
            own.join(", ")
        );
        let advice = "leave it out, or look at its spelling";
        StoreError::new(Kind::Option, "open", root.to_string(), what, advice)
    })
}
