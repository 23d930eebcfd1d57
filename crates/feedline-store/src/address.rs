//! What a URL says: which store, which bucket, which object.
//!
//! ```text
//! s3://bucket/train/0001.jpg
//! ───────────                  the root: what one client is made for
//!             ──────────────── the key, taken letter by letter: a `%`, a space or a `#` in it is one
//! http://host:8000/data/a.tar  the root is `http://host:8000`; here `%20` in the rest is a space
//! ```

use std::path::{Path, PathBuf};

use crate::error::{Kind, StoreError};

/// Which stores there are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Amazon's S3, and servers that speak as it does.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure's Blob Storage.
    Azure,
    /// A web server.
    Http,
}

/// How URLs begin.
const SCHEMES: [(&str, Scheme); 9] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("gs", Scheme::Google),
    ("gcs", Scheme::Google),
    ("az", Scheme::Azure),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("http", Scheme::Http),
    ("https", Scheme::Http),
];

/// An object, or all whose keys begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which kind of store it is.
    pub scheme: Scheme,
    /// The URL up to bucket or host, without a slash at its end.
    pub root: String,
    /// The rest, without a slash at its beginning.
    pub key: String,
}

impl Address {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Address, StoreError> {
        let refuse = |what: &str, advice: &'static str| {
            StoreError::new(Kind::Address, "read", url.to_string(), what.to_string(), advice)
        };
        let unknown = || {
            refuse(
                "it is no URL of a store that is known",
                "URLs begin with s3://, gs://, az://, http:// or https://",
            )
        };
        let (name, rest) = url.split_once("://").ok_or_else(unknown)?;
        let known = SCHEMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        let (name, scheme) = *known.ok_or_else(unknown)?;
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() {
            return Err(refuse("it names no bucket", "write it as s3://bucket/key"));
        }
        let key = match scheme {
            Scheme::Http => {
                if key.contains(['?', '#']) {
                    return Err(refuse(
                        "what follows a `?` or `#` would not be sent",
                        "copy the object to where it can be read without, or give the store's own URL \
                         and credentials",
                    ));
                }
                unescaped(key).ok_or_else(|| {
                    refuse("what its `%` stand for is no text", "write it in UTF-8")
                })?
            }
            _ => key.to_string(),
        };
        Ok(Address { scheme, root: format!("{name}://{host}"), key })
    }

    /// The URL, for messages.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/{}", self.root, self.key)
    }
}

/// A URL as the address it is; `None` for what is a path, and for `file://`.
pub fn address(path: &Path) -> Result<Option<Address>, StoreError> {
    match path.to_str().filter(|text| is_url(text)) {
        Some(url) => Address::parse(url).map(Some),
        None => Ok(None),
    }
}

/// Whether it is the URL of an object, or of several.
#[must_use]
pub fn is_url(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(name, _)| SCHEMES.iter().any(|(known, _)| name.eq_ignore_ascii_case(known)))
}

/// The path that a URL `file://…` stands for; any other path as it is.
pub fn local(path: &Path) -> Result<PathBuf, StoreError> {
    let Some(rest) = path.to_str().and_then(|text| text.strip_prefix("file://")) else {
        return Ok(path.to_path_buf());
    };
    let refuse = |what: &str| {
        let url = path.display().to_string();
        let advice = "write it as file:///folder/file, or give the path alone";
        StoreError::new(Kind::Address, "read", url, what.to_string(), advice)
    };
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    if !rest.starts_with('/') {
        return Err(refuse("it names another machine, or no absolute path"));
    }
    unescaped(rest).map(PathBuf::from).ok_or_else(|| refuse("what its `%` stand for is no text"))
}

/// What a text with `%20` and the like stands for.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_root_and_a_key() {
        for (url, root, key) in [
            ("s3://b/a/b.jpg", "s3://b", "a/b.jpg"),
            ("S3://b", "s3://b", ""),
            ("s3://b/a%20b#c", "s3://b", "a%20b#c"),
            ("gs://b/x", "gs://b", "x"),
            ("http://host:80/a%20b", "http://host:80", "a b"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.root.as_str(), address.key.as_str()), (root, key), "{url}");
        }
        for wrong in ["ftp://a/b", "/a/b", "s3:///a", "https://host/a?sign=1", "https://host/%ff"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn urls_of_files_are_paths() {
        let of = |url: &str| local(Path::new(url)).map(|path| path.display().to_string());
        assert_eq!(of("file:///a/b%20c").unwrap(), "/a/b c");
        assert_eq!(of("file://localhost/a").unwrap(), "/a");
        assert_eq!(of("a/b%20c").unwrap(), "a/b%20c");
        assert!(of("file://elsewhere/a").is_err());
    }
}
