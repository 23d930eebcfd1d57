//! The crate against an S3 server on loopback that does what servers and networks do (`tests/s3-server`).
//!
//! * `reading`: objects and ranges, faults, versions, credentials, requests in flight
//! * `listing`: many objects, pages, a listing that is kept
//! * `keeping`: the cache on disk
//! * `processes`: the same, used by several processes at a time

#[path = "store/keeping.rs"]
mod keeping;
#[path = "store/listing.rs"]
mod listing;
#[path = "store/processes.rs"]
mod processes;
#[path = "store/reading.rs"]
mod reading;

use std::fs;
use std::path::Path;

use feedline_s3_server::{ACCESS_KEY, SECRET_KEY, Server};
use feedline_store::{Address, Bucket, StoreOptions};
use tempfile::TempDir;

/// A server with one bucket, whose name no other test uses.
struct Store {
    dir: TempDir,
    server: Server,
    bucket: String,
}

impl Store {
    fn new(bucket: &str) -> Store {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(bucket)).unwrap();
        let server = Server::start(dir.path(), false).unwrap();
        let store = Store { dir, server, bucket: bucket.to_string() };
        store.configure(&[]).unwrap();
        store
    }

    fn configure(&self, more: &[(&str, &str)]) -> Result<(), feedline_store::StoreError> {
        let endpoint = self.server.endpoint();
        let usual = [
            ("endpoint", endpoint.as_str()),
            ("access_key_id", ACCESS_KEY),
            ("secret_access_key", SECRET_KEY),
            ("region", "us-east-1"),
        ];
        let given = usual.iter().chain(more).map(|(n, v)| ((*n).to_string(), (*v).to_string()));
        let address = self.at("");
        Bucket::configure(&address, StoreOptions::parse(&address.root, given)?)
    }

    fn at(&self, key: &str) -> Address {
        Address::parse(&format!("s3://{}/{key}", self.bucket)).unwrap()
    }

    fn put(&self, key: &str, content: &[u8]) {
        let path = self.dir.path().join(&self.bucket).join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As stores do it: whoever reads sees the old one or the new one.
        let aside = self.dir.path().join("aside");
        fs::write(&aside, content).unwrap();
        fs::rename(aside, path).unwrap();
    }

    fn folder(&self) -> &Path {
        self.dir.path()
    }
}

/// Bytes that differ from place to place.
fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}
