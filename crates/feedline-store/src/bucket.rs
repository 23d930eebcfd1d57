//! A bucket: what is asked of it, how much at a time, and what is kept of it.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use object_store::path::Path as KeyPath;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use twox_hash::XxHash3_64;

use crate::address::Address;
use crate::attempts::Attempts;
use crate::client;
use crate::disk_cache::{DiskCache, EntryName, Keeping};
use crate::error::{Kind, StoreError};
use crate::flight::{Ahead, Fetched, Flight, Wanted};
use crate::hedge::Hedging;
use crate::options::StoreOptions;
use crate::runtime;

/// How often an answer that breaks off is asked for again, where the client cannot go on where it was.
const ANSWERS: u32 = 4;
/// How often requests that nobody wants any more are looked for.
const SWEEP: Duration = Duration::from_secs(15);

/// What is wanted of a bucket: an object, or a range of one.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The object's name in the bucket.
    pub key: Arc<str>,
    /// The bytes of it; all, if not set.
    pub range: Option<Range<u64>>,
    /// Its ETag, if it must be that one.
    pub etag: Option<Arc<str>>,
    /// Its version as [`Entry::version`](crate::Entry::version) tells it; 0 for whichever there is, which is not kept.
    pub version: u64,
    /// About how many bytes the answer has.
    pub bytes: u64,
    /// Whether it is not kept on disk, as somebody else sees to that.
    pub passing: bool,
}

impl Request {
    fn wanted(&self) -> Wanted {
        let range = self.range.as_ref().map(|range| (range.start, range.end));
        Wanted { key: Arc::clone(&self.key), range, version: self.version }
    }
}

/// What is known of an object without reading it.
#[derive(Clone, Debug)]
pub struct Head {
    /// Bytes.
    pub size: u64,
    /// What tells this content from any other.
    pub etag: Option<Arc<str>>,
    /// The same in 64 bits; where there is no ETag, of time and size. Where there is no time either it is even, as
    /// then it tells one size from another and no more.
    pub version: u64,
    /// When it was written, since 1970.
    pub modified: Duration,
}

impl Head {
    pub(crate) fn of(meta: &ObjectMeta) -> Head {
        let modified = u64::try_from(meta.last_modified.timestamp()).unwrap_or(0);
        let etag = meta.e_tag.as_deref();
        let name = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        let hash = |text: &str| XxHash3_64::oneshot(text.as_bytes());
        let version = match name.filter(|name| !name.is_empty()) {
            Some(name) => hash(name) | 1,
            None if modified == 0 => (hash(&meta.size.to_string()) & !1).max(2),
            None => hash(&format!("{} {modified}", meta.size)) | 1,
        };
        Head {
            size: meta.size,
            etag: etag.map(Arc::from),
            version,
            modified: Duration::from_secs(modified),
        }
    }
}

/// What a bucket was asked so far, by this process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Requests for objects and ranges.
    pub requests: u64,
    /// Of those, the ones that were asked twice.
    pub hedged: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Attempts that got no answer, a server's error or "later": the client makes them again.
    pub retried: u64,
    /// What was found on disk instead.
    pub cached: u64,
    /// What was looked for on disk and was not there.
    pub missed: u64,
    /// Answers that broke off and were asked for again by us (beside what the client does).
    pub broken: u64,
    /// Requests that are under way now.
    pub in_flight: u64,
    /// Bytes that were begun ahead and that nobody has taken yet.
    pub ahead: u64,
}

/// A bucket that something in this process has open.
#[derive(Clone, Debug)]
pub struct BucketInUse {
    /// The URL up to bucket or host.
    pub root: String,
    /// What it was asked so far.
    pub counts: StoreCounts,
    /// Why what is read is not kept on disk any more, though it should be.
    pub not_kept: Option<String>,
}

/// A bucket, or a web server.
#[derive(Debug)]
pub struct Bucket {
    address: Address,
    options: StoreOptions,
    cache: Option<DiskCache>,
    cached: AtomicU64,
    missed: AtomicU64,
    first: OnceLock<Box<Link>>,
}

/// Where on disk something is, if it is kept: by itself, or within the whole object.
struct Kept<'a> {
    cache: &'a DiskCache,
    name: EntryName,
    whole: Option<(EntryName, (u64, u64))>,
}

impl Kept<'_> {
    /// Whether it seems to be there.
    fn is_there(&self) -> bool {
        self.cache.has(self.name) || self.whole.is_some_and(|(name, _)| self.cache.has(name))
    }

    fn get(&self, out: &mut Vec<u8>) -> bool {
        self.cache.get(self.name, out)
            || self.whole.is_some_and(|(name, range)| self.cache.get_part(name, range, out))
    }
}

/// What is under way, in each process that a chain of forks has made: a child has none of its parent's threads.
#[derive(Debug)]
struct Link {
    process: u32,
    live: Arc<Live>,
    next: OnceLock<Box<Link>>,
}

#[derive(Debug)]
struct Live {
    root: String,
    client: Arc<dyn ObjectStore>,
    /// Where that is, if it is not where the URL says by itself.
    server: String,
    attempts: Arc<Attempts>,
    hedge: bool,
    permits: Semaphore,
    ahead: Mutex<Ahead>,
    hedging: Hedging,
    requests: AtomicU64,
    bytes: AtomicU64,
    broken: AtomicU64,
}

/// Options by root, and the buckets that are in use.
static KNOWN: Mutex<Option<HashMap<String, Known>>> = Mutex::new(None);

#[derive(Default)]
struct Known {
    options: Option<StoreOptions>,
    bucket: Weak<Bucket>,
}

fn known<R>(root: &str, work: impl FnOnce(&mut Known) -> R) -> R {
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    work(all.get_or_insert_default().entry(root.to_string()).or_default())
}

impl Bucket {
    /// Says how the bucket that an address is in is spoken to from now on, by whatever opens something in it. What
    /// is open goes on as it was.
    pub fn configure(address: &Address, options: StoreOptions) -> Result<(), StoreError> {
        let same = known(&address.root, |known| known.options.as_ref() == Some(&options));
        if same {
            return Ok(());
        }
        let bucket = Arc::new(Bucket::new(address, options.clone())?);
        known(&address.root, |known| {
            *known = Known { options: Some(options), bucket: Arc::downgrade(&bucket) };
        });
        Ok(())
    }

    /// The bucket that an address is in.
    pub fn of(address: &Address) -> Result<Arc<Bucket>, StoreError> {
        let (open, options) = known(&address.root, |known| {
            (known.bucket.upgrade(), known.options.clone().unwrap_or_default())
        });
        if let Some(bucket) = open {
            return Ok(bucket);
        }
        let bucket = Arc::new(Bucket::new(address, options)?);
        // Another thread may have been first; its bucket is as good.
        Ok(known(&address.root, |known| match known.bucket.upgrade() {
            Some(other) => other,
            None => {
                known.bucket = Arc::downgrade(&bucket);
                bucket
            }
        }))
    }

    fn new(address: &Address, options: StoreOptions) -> Result<Bucket, StoreError> {
        let cache = options.cache_dir.as_deref();
        let cache = cache.map(|folder| DiskCache::open(folder, options.cache_size)).transpose()?;
        let address = Address { key: String::new(), ..address.clone() };
        let (cached, missed) = (AtomicU64::new(0), AtomicU64::new(0));
        let bucket = Bucket { address, options, cache, cached, missed, first: OnceLock::new() };
        // What is wrong with the options is said now.
        bucket.live()?;
        Ok(bucket)
    }

    /// How it is spoken to.
    #[must_use]
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// The URL of an object.
    #[must_use]
    pub fn url(&self, key: &str) -> String {
        format!("{}/{key}", self.address.root)
    }

    /// What a listing of a URL is known by: two servers may have a bucket of one name.
    pub(crate) fn said_of(&self, url: &str) -> Result<String, StoreError> {
        let server = &self.live()?.server;
        Ok(if server.is_empty() { url.to_string() } else { format!("{url} at {server}") })
    }

    /// How many samples ahead a loader should tell: enough for all requests that may be in flight.
    #[must_use]
    pub fn looks_ahead(&self) -> usize {
        2 * self.options.max_requests
    }

    /// What it was asked so far.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        // A process that has asked nothing is not connected for that.
        let mut link = self.first.get();
        let live = loop {
            match link {
                Some(here) if here.process == std::process::id() => break &here.live,
                Some(here) => link = here.next.get(),
                None => return StoreCounts::default(),
            }
        };
        StoreCounts {
            requests: live.requests.load(Ordering::Relaxed),
            hedged: live.hedging.twice(),
            bytes: live.bytes.load(Ordering::Relaxed),
            retried: live.attempts.failed(),
            cached: self.cached.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
            broken: live.broken.load(Ordering::Relaxed),
            in_flight: (self.options.max_requests - live.permits.available_permits()) as u64,
            ahead: live.ahead().bytes(),
        }
    }

    /// The buckets that are in use in this process, by their roots.
    #[must_use]
    pub fn in_use() -> Vec<BucketInUse> {
        let open: Vec<Arc<Bucket>> = {
            let all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().flatten().filter_map(|(_, known)| known.bucket.upgrade()).collect()
        };
        let mut told: Vec<BucketInUse> = open
            .iter()
            .map(|bucket| BucketInUse {
                root: bucket.address.root.clone(),
                counts: bucket.counts(),
                not_kept: bucket.cache.as_ref().and_then(DiskCache::refused).map(str::to_string),
            })
            .collect();
        told.sort_unstable_by(|a, b| a.root.cmp(&b.root));
        told
    }

    fn live(&self) -> Result<&Arc<Live>, StoreError> {
        let process = std::process::id();
        let mut link = &self.first;
        loop {
            let here = match link.get() {
                Some(here) => here,
                None => {
                    let live = Live::start(&self.address, &self.options)?;
                    link.get_or_init(|| Box::new(Link { process, live, next: OnceLock::new() }))
                }
            };
            if here.process == process {
                return Ok(&here.live);
            }
            link = &here.next;
        }
    }

    pub(crate) fn client(&self) -> Result<Arc<dyn ObjectStore>, StoreError> {
        Ok(Arc::clone(&self.live()?.client))
    }

    fn entry(&self, wanted: &Wanted) -> Option<Kept<'_>> {
        // What cannot be told from another is not kept: see `Head::version`.
        let cache = self.cache.as_ref().filter(|_| wanted.version & 1 == 1)?;
        let Wanted { key, range, version } = wanted;
        let name = |range| EntryName::of(&self.address.root, key, *version, range);
        let whole = range.map(|range| (name(None), range));
        Some(Kept { cache, name: name(*range), whole })
    }

    /// Whether it seems to be kept on disk.
    pub(crate) fn is_kept(&self, request: &Request) -> bool {
        self.entry(&request.wanted()).is_some_and(|kept| kept.is_there())
    }

    /// Begins to keep a whole object of so many bytes; `None` where nothing is kept, or there is no room.
    pub(crate) fn keep(&self, request: &Request) -> Option<Keeping<'_>> {
        let kept = self.entry(&request.wanted())?;
        kept.cache.begin(kept.name, request.bytes)
    }

    /// Asks what an object is.
    pub fn head(&self, key: &str) -> Result<Head, StoreError> {
        let path = key_path(self.url(key), key)?;
        let client = self.client()?;
        let head = runtime::wait(async move { client.head(&path).await });
        match head {
            Some(Ok(meta)) => Ok(Head::of(&meta)),
            Some(Err(error)) => Err(StoreError::of("open", self.url(key), &error)),
            None => Err(given_up(self.url(key))),
        }
    }

    /// Begins to fetch what somebody will [`read`](Bucket::read), unless it is there already. Returns at once: whether
    /// it is under way or there, which it is not where as much as may be is under way.
    pub fn begin(&self, request: &Request) -> bool {
        let Ok(live) = self.live() else { return false };
        if self.is_at_hand(request) {
            return true;
        }
        let wanted = request.wanted();
        let flight = live.ahead().begin(&wanted, request.bytes, self.options.read_ahead);
        let Some(flight) = flight else { return false };
        live.fly(flight, wanted, request);
        true
    }

    /// Whether it was begun and not read yet, or seems to be kept on disk.
    #[must_use]
    pub fn is_at_hand(&self, request: &Request) -> bool {
        let wanted = request.wanted();
        self.live().is_ok_and(|live| live.ahead().has(&wanted)) || self.is_kept(request)
    }

    /// Appends what is wanted to `out`: from disk where it is kept, or when it comes.
    pub fn read(&self, request: &Request, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let wanted = request.wanted();
        let kept = self.entry(&wanted);
        if kept.as_ref().is_some_and(|kept| self.had(kept, out)) {
            return Ok(());
        }
        let fetched = self.landed(wanted, request)?;
        let start = out.len();
        self.append(&fetched, request, out)?;
        if let Some(kept) = kept.filter(|_| !request.passing) {
            kept.cache.put(kept.name, &out[start..]);
        }
        Ok(())
    }

    /// The same as it came, without a copy of what is not kept on disk.
    pub(crate) fn fetch(&self, request: &Request) -> Result<Vec<Bytes>, StoreError> {
        let wanted = request.wanted();
        let Some(kept) = self.entry(&wanted) else {
            return Ok(self.landed(wanted, request)?.pieces);
        };
        let mut whole = Vec::new();
        if !self.had(&kept, &mut whole) {
            let fetched = self.landed(wanted, request)?;
            self.append(&fetched, request, &mut whole)?;
            kept.cache.put(kept.name, &whole);
        }
        Ok(vec![whole.into()])
    }

    /// Whether it was on disk, and is now in `out`.
    fn had(&self, kept: &Kept<'_>, out: &mut Vec<u8>) -> bool {
        let had = kept.get(out);
        if had { &self.cached } else { &self.missed }.fetch_add(1, Ordering::Relaxed);
        had
    }

    /// Waits for what was begun before, or is begun now.
    fn landed(&self, wanted: Wanted, request: &Request) -> Result<Fetched, StoreError> {
        let live = self.live()?;
        let begun = live.ahead().take(&wanted);
        let flight = begun.unwrap_or_else(|| {
            let flight = Arc::new(Flight::default());
            live.fly(Arc::clone(&flight), wanted, request);
            flight
        });
        flight.wait()
    }

    fn append(
        &self,
        fetched: &Fetched,
        request: &Request,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let bytes = fetched.bytes();
        if out.try_reserve(bytes).is_err() {
            let what = format!("there is no memory for its {bytes} bytes");
            let advice = "read smaller objects, or fewer at a time";
            let url = self.url(&request.key);
            return Err(StoreError::new(Kind::Unreachable, "read", url, what, advice));
        }
        fetched.pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        Ok(())
    }
}

impl Live {
    fn start(address: &Address, options: &StoreOptions) -> Result<Arc<Live>, StoreError> {
        let attempts = Arc::default();
        let (client, server) = client::connect(address, options, &attempts)?;
        let live = Arc::new(Live {
            root: address.root.clone(),
            client,
            server,
            attempts,
            hedge: options.hedge,
            permits: Semaphore::new(options.max_requests),
            ahead: Mutex::default(),
            hedging: Hedging::default(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        });
        let swept = Arc::downgrade(&live);
        runtime::handle().spawn(async move {
            loop {
                sleep(SWEEP).await;
                let Some(live) = swept.upgrade() else { return };
                live.ahead().sweep();
            }
        });
        Ok(live)
    }

    fn ahead(&self) -> std::sync::MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a request whose answer lands in `flight`.
    fn fly(self: &Arc<Live>, flight: Arc<Flight>, wanted: Wanted, request: &Request) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let url = format!("{}/{}", self.root, wanted.key);
        let (live, etag, bytes) = (Arc::clone(self), request.etag.clone(), request.bytes);
        let mut landing = Landing { flight, url, landed: false };
        runtime::handle().spawn(async move {
            let result = live.fetch(&wanted, etag.as_deref(), bytes).await;
            landing.land(result);
        });
    }

    async fn fetch(
        &self,
        wanted: &Wanted,
        etag: Option<&str>,
        bytes: u64,
    ) -> Result<Fetched, StoreError> {
        let _permit = self.permits.acquire().await;
        let begun = Instant::now();
        let mut first = pin!(self.ask(wanted, etag));
        let limit = if self.hedge { self.hedging.limit(bytes) } else { None };
        let result = match limit {
            None => first.await,
            Some(limit) => match timeout(limit, &mut first).await {
                Ok(result) => result,
                Err(_) if !self.hedging.again() => first.await,
                Err(_) => {
                    let second = pin!(self.ask(wanted, etag));
                    return match select(first, second).await {
                        Either::Left((Ok(fetched), _)) | Either::Right((Ok(fetched), _)) => {
                            Ok(fetched)
                        }
                        Either::Left((Err(_), other)) => other.await,
                        Either::Right((Err(_), other)) => other.await,
                    };
                }
            },
        };
        if let Ok(fetched) = &result {
            self.hedging.took(fetched.bytes() as u64, begun.elapsed());
        }
        result
    }

    /// One request, and again if its answer breaks off. (The client asks again by itself where it gets no
    /// answer or one that says "later", and goes on within one that breaks off where it knows an ETag.)
    async fn ask(&self, wanted: &Wanted, etag: Option<&str>) -> Result<Fetched, StoreError> {
        let url = || format!("{}/{}", self.root, wanted.key);
        let path = key_path(url(), &wanted.key)?;
        let mut answers = 0;
        loop {
            let options = GetOptions {
                range: wanted.range.map(|(start, end)| GetRange::Bounded(start..end)),
                // A weak one may not be asked for; what comes is compared below.
                if_match: etag.filter(|etag| !etag.starts_with("W/")).map(str::to_string),
                ..GetOptions::default()
            };
            let answer = self.client.get_opts(&path, options).await;
            let answer = answer.map_err(|error| StoreError::of("read", url(), &error))?;
            let version = Head::of(&answer.meta).version;
            if wanted.version != 0 && version != wanted.version {
                return Err(StoreError::changed("read", url()));
            }
            let whole = answer.range.end - answer.range.start;
            let (mut pieces, mut there) = (Vec::new(), 0);
            let mut stream = answer.into_stream();
            let failed = loop {
                match stream.next().await {
                    Some(Ok(piece)) => {
                        there += piece.len() as u64;
                        pieces.push(piece);
                    }
                    Some(Err(error)) => break StoreError::of("read", url(), &error),
                    None if there == whole => {
                        self.bytes.fetch_add(there, Ordering::Relaxed);
                        return Ok(Fetched { pieces });
                    }
                    None => {
                        let what = format!("its answer ended after {there} of {whole} bytes");
                        let advice =
                            "try again; if it stays so, look at what is between here and the store";
                        break StoreError::new(Kind::Unreachable, "read", url(), what, advice);
                    }
                }
            };
            answers += 1;
            if answers == ANSWERS {
                return Err(failed);
            }
            self.broken.fetch_add(1, Ordering::Relaxed);
            sleep(pause(answers, &wanted.key)).await;
        }
    }
}

/// A pause that grows, of a length that differs from request to request.
fn pause(answers: u32, key: &str) -> Duration {
    let most = 100_u64 << answers;
    let spread = XxHash3_64::oneshot_with_seed(u64::from(answers), key.as_bytes()) % most;
    Duration::from_millis(most / 2 + spread / 2)
}

/// Makes sure that whoever waits is told, whatever becomes of the request.
struct Landing {
    flight: Arc<Flight>,
    url: String,
    landed: bool,
}

impl Landing {
    fn land(&mut self, result: Result<Fetched, StoreError>) {
        self.landed = true;
        self.flight.land(result);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if !self.landed {
            let url = std::mem::take(&mut self.url);
            self.flight.land(Err(given_up(url)));
        }
    }
}

pub(crate) fn given_up(url: String) -> StoreError {
    let what = "the request was given up".to_string();
    StoreError::new(Kind::Unreachable, "read", url, what, "report it with what was read")
}

/// A key as the client wants it.
pub(crate) fn key_path(url: String, key: &str) -> Result<KeyPath, StoreError> {
    KeyPath::parse(key).map_err(|error| {
        let advice = "rename the object: its key has an empty part, or one of dots alone";
        StoreError::new(Kind::Address, "read", url, error.to_string(), advice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_object_with_neither_etag_nor_time_the_version_tells_the_size_alone() {
        let mut meta = ObjectMeta {
            location: KeyPath::from("key"),
            last_modified: Default::default(),
            size: 5,
            e_tag: None,
            version: None,
        };
        let of_size = Head::of(&meta).version;
        meta.size = 6;
        let of_another = Head::of(&meta).version;
        assert!(of_size != of_another && of_size != 0, "a change of the size is noticed");
        assert_eq!((of_size & 1, of_another & 1), (0, 0), "and nothing is kept");
        meta.e_tag = Some(r#""one""#.into());
        let one = Head::of(&meta).version;
        meta.e_tag = Some(r#""two""#.into());
        let two = Head::of(&meta).version;
        assert!(one != two && one & 1 == 1 && two & 1 == 1);
    }

    #[test]
    fn pauses_grow_and_differ_from_request_to_request() {
        for answers in 1..ANSWERS {
            let pauses: Vec<Duration> = (0..100).map(|i| pause(answers, &i.to_string())).collect();
            let most = Duration::from_millis(100 << answers);
            assert!(pauses.iter().all(|pause| *pause >= most / 2 && *pause <= most));
            let different: std::collections::HashSet<&Duration> = pauses.iter().collect();
            assert!(different.len() > 30, "{answers}: {}", different.len());
        }
    }
}
