//! Objects by URL: what is said about a store, and what is in it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use feedline::sources::Watch;
use feedline::sources::store::{
    Address, Bucket, Kind, Object, Scheme, StoreCounts, StoreError, StoreOptions, list,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::encoded::watched;
use crate::errors;

/// Says how the bucket that a URL is in is spoken to from now on.
#[pyfunction]
#[pyo3(signature = (url, options: "dict[str, str]"))]
pub(crate) fn configure_store(
    py: Python<'_>,
    url: &str,
    options: BTreeMap<String, String>,
) -> PyResult<()> {
    let configure = || {
        let address = Address::parse(url)?;
        Bucket::configure(&address, StoreOptions::parse(&address.root, options)?)
    };
    py.detach(configure).map_err(refused)
}

/// The keys below a URL, from there on, in the order of their bytes.
#[pyfunction]
pub(crate) fn object_names(py: Python<'_>, url: &str) -> PyResult<Vec<String>> {
    let mut names = Vec::new();
    let visit = |watch: Watch<'_>| {
        list(&Address::parse(url)?, watch, |entry| names.push(entry.name)).map_err(Told)
    };
    watched(py, None, visit)?;
    names.sort_unstable();
    Ok(names)
}

/// Whether there are folders below a URL: keys with another slash. Looks no further than to the first.
#[pyfunction]
pub(crate) fn has_folders(py: Python<'_>, url: &str) -> PyResult<bool> {
    any(py, url, |name| {
        let is_hidden = name.split('/').any(|part| part.starts_with('.'));
        name.contains('/') && !is_hidden
    })
}

/// Whether there are objects below a URL. Of a web server, which does not tell what it has, there are none.
#[pyfunction]
pub(crate) fn has_objects(py: Python<'_>, url: &str) -> PyResult<bool> {
    let scheme = Address::parse(url).map_err(refused)?.scheme;
    Ok(scheme != Scheme::Http && any(py, url, |_| true)?)
}

/// Whether any name below a URL is such a one. Looks no further than to the first.
fn any(py: Python<'_>, url: &str, is_one: impl Fn(&str) -> bool + Sync) -> PyResult<bool> {
    let found = std::sync::atomic::AtomicBool::new(false);
    let visit = |watch: Watch<'_>| {
        let mut enough = |count| match found.load(std::sync::atomic::Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => watch(count),
        };
        let listed = list(&Address::parse(url)?, &mut enough, |entry| {
            found.fetch_or(is_one(&entry.name), std::sync::atomic::Ordering::Relaxed);
        });
        match listed {
            Err(error) if error.kind() != Kind::Interrupted => Err(Told(error)),
            _ => Ok(()),
        }
    };
    watched(py, None, visit)?;
    Ok(found.into_inner())
}

/// The bytes of a small object.
#[pyfunction]
#[pyo3(signature = (url) -> "bytes")]
pub(crate) fn read_object<'py>(py: Python<'py>, url: &str) -> PyResult<Bound<'py, PyBytes>> {
    let mut bytes = Vec::new();
    let read = || Object::open(&Address::parse(url)?)?.append_whole(&mut bytes);
    py.detach(read).map_err(refused)?;
    Ok(PyBytes::new(py, &bytes))
}

/// What the bucket that a URL is in was asked so far: requests, those asked twice, bytes, and what was found on disk.
#[pyfunction]
#[pyo3(signature = (url) -> "dict[str, int]")]
pub(crate) fn store_counts(url: &str) -> PyResult<BTreeMap<&'static str, u64>> {
    let bucket = Address::parse(url).and_then(|address| Bucket::of(&address)).map_err(refused)?;
    Ok(named(&bucket.counts()))
}

/// The buckets that are in use in this process: their URLs, the same counts of each, and why nothing more of it is kept on disk.
#[pyfunction]
#[pyo3(signature = () -> "list[tuple[str, dict[str, int], str | None]]")]
pub(crate) fn stores_in_use() -> Vec<(String, BTreeMap<&'static str, u64>, Option<String>)> {
    let all = Bucket::in_use().into_iter();
    all.map(|bucket| (bucket.root, named(&bucket.counts), bucket.not_kept)).collect()
}

fn named(counts: &StoreCounts) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("requests", counts.requests),
        ("hedged", counts.hedged),
        ("bytes", counts.bytes),
        ("retried", counts.retried),
        ("cached", counts.cached),
        ("missed", counts.missed),
        ("broken", counts.broken),
        ("in_flight", counts.in_flight),
        ("ahead", counts.ahead),
    ])
}

/// A store's error where errors are told by their causes.
#[derive(Debug)]
struct Told(StoreError);

impl From<StoreError> for Told {
    fn from(error: StoreError) -> Told {
        Told(error)
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Told {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn refused(error: StoreError) -> PyErr {
    errors::source_error(&error)
}
