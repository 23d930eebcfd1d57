//! Why an object could not be read: the URL, what happened, what to do.

use std::io;

use crate::attempts::STRANGER;

/// What went wrong, for those who decide by it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No such object, bucket or container.
    Missing,
    /// The credentials are wrong, or may not do this.
    Denied,
    /// The object is not the one that was listed or opened.
    Changed,
    /// The store did not answer, or not in a way that makes sense, however often it was asked.
    Unreachable,
    /// What was given is no URL of a store.
    Address,
    /// An option that does not exist, or whose value makes no sense.
    Option,
    /// Somebody broke it off.
    Interrupted,
}

/// An object, or a listing, that could not be had.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {doing} {url}: {what}; {advice}")]
pub struct StoreError {
    kind: Kind,
    doing: &'static str,
    url: String,
    what: String,
    advice: &'static str,
}

impl StoreError {
    pub(crate) fn new(
        kind: Kind,
        doing: &'static str,
        url: String,
        what: String,
        advice: &'static str,
    ) -> StoreError {
        StoreError { kind, doing, url, what, advice }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the client says, in our words.
    pub(crate) fn of(doing: &'static str, url: String, error: &object_store::Error) -> StoreError {
        use object_store::Error;
        let said = told(error);
        let (kind, what, advice) = match error {
            // Of a listing the client tells the status in words only.
            _ if said.contains("NoSuchBucket") || said.contains("ContainerNotFound") => {
                (Kind::Missing, "there is no such bucket".to_string(), BUCKET)
            }
            Error::NotFound { .. } => (Kind::Missing, "there is no such object".to_string(), NAME),
            Error::Precondition { .. } => return StoreError::changed(doing, url),
            _ if matches!(
                error,
                Error::PermissionDenied { .. } | Error::Unauthenticated { .. }
            ) || ["status code: 401", "status code: 403"].iter().any(|s| said.contains(s)) =>
            {
                (Kind::Denied, format!("the store refuses it ({})", reason(&said)), CREDENTIALS)
            }
            _ if said.contains(STRANGER) => (Kind::Unreachable, reason(&said), TRUST),
            _ => (Kind::Unreachable, reason(&said), REACH),
        };
        StoreError { kind, doing, url, what, advice }
    }

    /// There is no object at all where there should be some.
    #[must_use]
    pub fn nothing_below(url: String) -> StoreError {
        let what = "there is nothing below it".to_string();
        StoreError { kind: Kind::Missing, doing: "list", url, what, advice: NAME }
    }

    /// A listing names an object more than once.
    #[must_use]
    pub fn told_twice(url: String) -> StoreError {
        let what = "the listing names it twice".to_string();
        let advice = "look at what is between here and the store: pages come twice";
        StoreError { kind: Kind::Unreachable, doing: "list", url, what, advice }
    }

    pub(crate) fn changed(doing: &'static str, url: String) -> StoreError {
        let what = "the object has changed since it was opened".to_string();
        let advice = "open the dataset again, and write new objects under new names";
        StoreError { kind: Kind::Changed, doing, url, what, advice }
    }
}

const BUCKET: &str = "look at its name, and at region and endpoint";
const NAME: &str = "look at its name; if it was there, open the dataset again";
const CREDENTIALS: &str = "give credentials that may read it: by storage_options, by the environment \
     (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE), or \"skip_signature\": \"true\" for \
     what anybody may read";
const REACH: &str =
    "look whether the store can be reached from here, and at endpoint, region and proxy";

const TRUST: &str = "if it is the right server, give its authority's certificate as ca_bundle (for S3 also by \
     AWS_CA_BUNDLE)";

/// The error and all its causes, as one text.
fn told(error: &object_store::Error) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let text = next.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = next.source();
    }
    told
}

/// What a server says in its answer, or else the whole text on one line.
fn reason(told: &str) -> String {
    let between = |tag: &str| {
        let (_, after) = told.split_once(&format!("<{tag}>"))?;
        Some(after.split_once(&format!("</{tag}>"))?.0.to_string())
    };
    let said = match (between("Code"), between("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => told.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    match said.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    }
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> io::Error {
        let kind = match error.kind {
            Kind::Missing => io::ErrorKind::NotFound,
            Kind::Denied => io::ErrorKind::PermissionDenied,
            Kind::Changed => io::ErrorKind::InvalidData,
            Kind::Unreachable => io::ErrorKind::HostUnreachable,
            Kind::Address | Kind::Option => io::ErrorKind::InvalidInput,
            Kind::Interrupted => io::ErrorKind::Interrupted,
        };
        io::Error::new(kind, error)
    }
}
