//! How many attempts fail. The client tries again by itself, and tells nobody.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{Certificate, ClientOptions, Result};

/// What rustls says of a certificate that is not trusted, not valid any more, or somebody else's.
pub(crate) const STRANGER: &str = "invalid peer certificate";

/// Attempts of a client, as far as they matter.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: AtomicU64,
}

impl Attempts {
    /// Those that got no answer, or one that says "later" or that something is wrong over there.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Makes the usual HTTP clients, which trust some certificates more, and note what fails.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) trusted: Vec<Certificate>,
}

impl HttpConnector for Counting {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let trusting = ClientOptions::with_root_certificate;
        let options = self.trusted.iter().cloned().fold(options.clone(), trusting);
        let client = ReqwestConnector::default().connect(&options)?;
        Ok(HttpClient::new(Counted { client, attempts: Arc::clone(&self.attempts) }))
    }
}

#[derive(Debug)]
struct Counted {
    client: HttpClient,
    attempts: Arc<Attempts>,
}

#[async_trait::async_trait]
impl HttpService for Counted {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let answer = self.client.execute(request).await;
        // 429: too many requests.
        let status = answer.as_ref().map(|answer| answer.status());
        if status.map_or(true, |status| status.is_server_error() || status.as_u16() == 429) {
            self.attempts.failed.fetch_add(1, Ordering::Relaxed);
        }
        answer.map_err(|error| match is_stranger(&error) {
            // It would be one the next time, too.
            true => HttpError::new(HttpErrorKind::Unknown, error),
            false => error,
        })
    }
}

/// Whether the other side has a certificate that is not trusted.
fn is_stranger(error: &HttpError) -> bool {
    let mut cause = error.source();
    while let Some(here) = cause {
        if here.to_string().contains(STRANGER) {
            return true;
        }
        cause = here.source();
    }
    false
}
