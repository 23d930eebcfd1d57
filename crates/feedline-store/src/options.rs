//! What may be said about a store: our own options here, those of the client in `client.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Kind, StoreError};

/// Our own options, and what each is.
pub const OWN: [(&str, &str); 8] = [
    ("ca_bundle", "a file of certificates in PEM that are trusted beside the system's"),
    ("cache_dir", "a folder on a local disk where what was read is kept"),
    ("cache_size", "bytes that may be kept there, such as 100GiB"),
    ("hedge", "whether slow requests are asked a second time: true or false"),
    ("listing_max_age", "seconds for which a listing that is kept in cache_dir is used again"),
    ("max_requests", "requests that are in flight at a time"),
    ("profile", "the section of ~/.aws/credentials and ~/.aws/config to take keys and region from"),
    ("read_ahead", "bytes that may wait in memory before a loader wants them, such as 256MiB"),
];

/// How a store is spoken to, and what is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Certificates that are trusted beside the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Where what was read is kept.
    pub cache_dir: Option<PathBuf>,
    /// Bytes that may be kept.
    pub cache_size: u64,
    /// Whether slow requests are asked twice.
    pub hedge: bool,
    /// How old a kept listing may be.
    pub listing_max_age: Duration,
    /// Requests in flight at a time.
    pub max_requests: usize,
    /// Whose keys are taken from the files of the `aws` command.
    pub profile: Option<String>,
    /// Bytes that may wait in memory.
    pub read_ahead: u64,
    /// Options of the client: `region`, `endpoint`, `access_key_id`…
    pub client: BTreeMap<String, String>,
}

impl Default for StoreOptions {
    /// Keeps nothing, unless `FEEDLINE_CACHE_DIR` and `FEEDLINE_CACHE_SIZE` say so.
    fn default() -> StoreOptions {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        StoreOptions {
            ca_bundle: None,
            cache_dir: set("FEEDLINE_CACHE_DIR").map(PathBuf::from),
            cache_size: set("FEEDLINE_CACHE_SIZE")
                .and_then(|size| bytes(&size))
                .unwrap_or(100 << 30),
            hedge: true,
            listing_max_age: Duration::ZERO,
            max_requests: 256,
            profile: None,
            read_ahead: 256 << 20,
            client: BTreeMap::new(),
        }
    }
}

impl StoreOptions {
    /// Takes options apart. What is not ours is the client's, which refuses what it does not know.
    pub fn parse(
        root: &str,
        given: impl IntoIterator<Item = (String, String)>,
    ) -> Result<StoreOptions, StoreError> {
        let mut options = StoreOptions::default();
        for (name, value) in given {
            let wrong = || {
                let (what, advice) = (format!("{name} is {value:?}"), of_option(&name));
                StoreError::new(Kind::Option, "open", root.to_string(), what, advice)
            };
            match name.as_str() {
                "ca_bundle" => options.ca_bundle = Some(PathBuf::from(value)),
                "cache_dir" => options.cache_dir = Some(PathBuf::from(value)),
                "cache_size" => options.cache_size = bytes(&value).ok_or_else(wrong)?,
                "hedge" => options.hedge = flag(&value).ok_or_else(wrong)?,
                "listing_max_age" => {
                    let seconds = value.parse().ok().map(Duration::try_from_secs_f64);
                    options.listing_max_age = seconds.and_then(Result::ok).ok_or_else(wrong)?;
                }
                "max_requests" => {
                    let number = value.parse().ok().filter(|number| (1..=4096).contains(number));
                    options.max_requests = number.ok_or_else(wrong)?;
                }
                "profile" => options.profile = Some(value),
                "read_ahead" => options.read_ahead = bytes(&value).ok_or_else(wrong)?,
                _ => {
                    options.client.insert(name.to_ascii_lowercase(), value);
                }
            }
        }
        Ok(options)
    }
}

fn of_option(name: &str) -> &'static str {
    OWN.iter().find(|(known, _)| *known == name).map_or("leave it out", |(_, is)| *is)
}

fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// `100GiB`, `2.5 GB`, `1000`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((number * factor as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_that_loaders_take() {
        assert_eq!(bytes("1000"), Some(1000));
        assert_eq!(bytes("2.5GB"), Some(2_500_000_000));
        assert_eq!(bytes("1 GiB"), Some(1 << 30));
        for wrong in ["", "GiB", "1 parsec", "-1", "1.2.3GB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_by_name() {
        for (name, value) in [
            ("cache_size", "much"),
            ("hedge", "perhaps"),
            ("max_requests", "0"),
            ("listing_max_age", "-1"),
        ] {
            let given = [(name.to_string(), value.to_string())];
            let error = StoreOptions::parse("s3://b", given).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
