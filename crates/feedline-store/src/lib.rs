//! Objects of S3, Google Cloud Storage, Azure and web servers, for many threads that read many of them.
//!
//! * [`Address`]: what a URL says; [`address`] and [`local`] tell URLs from paths.
//! * [`StoreOptions`]: credentials, endpoint, what is kept on disk; [`Bucket::configure`] gives them to a bucket.
//! * [`Object`]: one that is open, read at any place, or by [`Front`] from front to back; [`Bucket::read`] fetches whole ones.
//! * [`Bucket::begin`], [`Object::begin`]: begin to fetch what a loader's plan will need.
//! * [`list`]: what objects there are.
//!
//! ```no_run
//! use feedline_store::{Address, Bucket, Object, StoreOptions};
//!
//! let address = Address::parse("s3://bucket/train/shard-000.tar")?;
//! let options = [("region", "eu-central-1"), ("cache_dir", "/nvme/cache"), ("cache_size", "200GiB")];
//! let options = options.map(|(name, value)| (name.to_string(), value.to_string()));
//! Bucket::configure(&address, StoreOptions::parse(&address.root, options)?)?;
//! let shard = Object::open(&address)?;
//! shard.begin(512, 100_000);
//! shard.begin(200_000, 100_000);
//! let mut bytes = Vec::new();
//! shard.append_at(&mut bytes, 512, 100_000)?;
//! # Ok::<(), feedline_store::StoreError>(())
//! ```
//!
//! # How many requests are in flight
//!
//! All requests of a process are under way on one thread, with an event loop; who wants an answer waits for it on a
//! thread of its own. What makes many of them at a time is that they are *begun* before they are wanted: a loader knows
//! which samples come next, and tells. At most [`StoreOptions::max_requests`] of a bucket are in flight, and
//! [`StoreOptions::read_ahead`] bytes wait to be taken.
//!
//! # What can go wrong, and what is done about it
//!
//! | what | what happens |
//! | --- | --- |
//! | no answer, 5xx, "slow down" | the `object_store` crate asks again, with pauses that grow, of random length |
//! | an answer that breaks off | it goes on from there, if the object has an ETag; otherwise it is asked for anew |
//! | an answer that takes unusually long | it is asked for a second time, see `hedge.rs` |
//! | an object that was replaced or removed | an error of the samples that are in it |
//! | a cache that is full, damaged, or on a disk that is full | what is not there is fetched |

mod address;
mod attempts;
mod bucket;
mod client;
mod disk_cache;
mod error;
mod flight;
mod front;
mod hedge;
mod listing;
mod object;
mod options;
mod profile;
mod runtime;

pub use address::{Address, Scheme, address, is_url, local};
pub use bucket::{Bucket, BucketInUse, Head, Request, StoreCounts};
pub use error::{Kind, StoreError};
pub use front::Front;
pub use listing::{Entry, Watch, list};
pub use object::Object;
pub use options::{OWN, StoreOptions};
