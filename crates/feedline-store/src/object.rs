//! An object as a file that is open: read at any place, by any number of threads, as long as it is the same.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::address::Address;
use crate::bucket::{Bucket, Request};
use crate::error::{Kind, StoreError};
use crate::front::Front;

/// What is read at the beginning of an object at least: headers are read in small pieces.
const BEGINNING: u64 = 64 << 10;
/// What is read ahead at most where somebody reads on where he was; a piece of those who read all of it.
const FARTHEST: u64 = 8 << 20;
/// Pieces that are under way while a whole object is read.
const UNDER_WAY: u64 = 4;

/// An object that is open.
///
/// Each read is a request for just those bytes, unless they were [begun](Object::begin) before, or are kept. Who
/// reads on where he was gets more and more at a time, as from a file: up to 8 MiB, the next 8 MiB being
/// under way. Who wants all of it takes one *piece* of 8 MiB [after the other](Front). Every request names the ETag that
/// the object had when it was opened, so bytes of two versions are never mixed: once it is replaced, reading it is an
/// error.
#[derive(Debug)]
pub struct Object {
    bucket: Arc<Bucket>,
    key: Arc<str>,
    etag: Option<Arc<str>>,
    version: u64,
    size: u64,
    modified: Duration,
    window: Mutex<Window>,
}

/// What was read last, beyond what was asked for.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    /// Where the last read ended.
    next: u64,
    /// How much is read ahead.
    ahead: u64,
}

impl Object {
    /// Opens an object: asks the store what it is.
    pub fn open(address: &Address) -> Result<Object, StoreError> {
        let bucket = Bucket::of(address)?;
        let head = bucket.head(&address.key)?;
        Ok(Object {
            bucket,
            key: address.key.as_str().into(),
            etag: head.etag,
            version: head.version,
            size: head.size,
            modified: head.modified,
            window: Mutex::default(),
        })
    }

    /// The same object for somebody else who reads it from front to back.
    #[must_use]
    pub fn again(&self) -> Object {
        Object {
            bucket: Arc::clone(&self.bucket),
            key: Arc::clone(&self.key),
            etag: self.etag.clone(),
            window: Mutex::default(),
            ..*self
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What tells this content from any other, in 64 bits.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// When it was written, since 1970.
    #[must_use]
    pub fn modified(&self) -> Duration {
        self.modified
    }

    /// Where it is.
    #[must_use]
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    fn request(&self, start: u64, end: u64) -> Request {
        let (key, etag) = (Arc::clone(&self.key), self.etag.clone());
        let whole = start == 0 && end == self.size;
        let range = (!whole).then_some(start..end);
        Request { key, range, etag, version: self.version, bytes: end - start, passing: false }
    }

    /// Begins to fetch bytes that will be [appended](Object::append_at) just so. Returns at once.
    pub fn begin(&self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        if len > 0 && end <= self.size {
            self.bucket.begin(&self.request(start, end));
        }
    }

    /// Appends `len` bytes from byte `start` on.
    pub fn append_at(&self, out: &mut Vec<u8>, start: u64, len: usize) -> Result<(), StoreError> {
        let end = start.saturating_add(len as u64);
        if end > self.size {
            let what = format!("it has {} bytes, and bytes {start} to {end} are wanted", self.size);
            let advice = "look whether it was written as a whole";
            let url = self.bucket.url(&self.key);
            return Err(StoreError::new(Kind::Changed, "read", url, what, advice));
        }
        if len == 0 {
            return Ok(());
        }
        let request = self.request(start, end);
        if self.bucket.is_at_hand(&request) {
            return self.bucket.read(&request, out);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = start == window.next && start > 0;
        window.next = end;
        if !is_next {
            window.ahead = if start == 0 { BEGINNING } else { 0 };
        }
        if let Some(there) = window.part(start, end) {
            out.extend_from_slice(there);
            return Ok(());
        }
        if is_next {
            window.ahead = (4 * window.ahead).clamp(BEGINNING, FARTHEST);
        }
        if window.ahead <= len as u64 {
            drop(window);
            return self.bucket.read(&request, out);
        }
        // In steps from the window's end on, so that what was begun is what is read.
        let from = if window.holds(start) { window.end() } else { start };
        let to = (from + window.ahead).max(end).min(self.size);
        let mut bytes = std::mem::take(&mut window.bytes);
        let keep = start.saturating_sub(window.start).min(bytes.len() as u64) as usize;
        if from == start {
            bytes.clear();
        } else {
            bytes.drain(..keep);
        }
        let (ahead, read) = (window.ahead, self.bucket.read(&self.request(from, to), &mut bytes));
        if read.is_err() {
            bytes.clear();
        }
        (window.start, window.bytes) = (start, bytes);
        read?;
        if ahead == FARTHEST && to < self.size {
            self.begin(to, FARTHEST.min(self.size - to));
        }
        let there = window.part(start, end);
        out.extend_from_slice(there.expect("read just now"));
        Ok(())
    }

    /// Begins to fetch the pieces that have something of these bytes, for whoever [reads it from front to
    /// back](Front). Returns at once, with the end of what is under way or there: there may be no room for more.
    pub fn begin_pieces(&self, range: Range<u64>) -> u64 {
        let mut at = range.start;
        while at < range.end.min(self.size) && self.bucket.begin(&self.piece(at)) {
            at = (at / FARTHEST + 1) * FARTHEST;
        }
        at.min(self.size)
    }

    /// The piece that has byte `at`. Pieces lie at the same places whoever reads, so what was begun is what is read.
    fn piece(&self, at: u64) -> Request {
        let start = at / FARTHEST * FARTHEST;
        self.request(start, (start + FARTHEST).min(self.size))
    }

    /// The piece that begins at byte `at`, the next ones being under way. `begun` is up to where they are: at first 0,
    /// and then what it was left at.
    pub(crate) fn next_piece(&self, at: u64, begun: &mut u64) -> Result<Vec<Bytes>, StoreError> {
        let piece = self.piece(at);
        // Where there is one piece, nothing is gained by beginning it.
        if self.size > FARTHEST {
            *begun = self.begin_pieces(at.max(*begun)..at + UNDER_WAY * FARTHEST);
        } else {
            let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(there) = window.part(at, at + piece.bytes) {
                return Ok(vec![Bytes::copy_from_slice(there)]);
            }
        }
        // Pieces of nothing would look like the end.
        let mut came = self.bucket.fetch(&piece)?;
        came.retain(|bytes| !bytes.is_empty());
        Ok(came)
    }

    /// Appends all of it: in pieces of 8 MiB, the next ones being under way.
    pub fn append_whole(&self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let mut front = Front::default();
        loop {
            let there = front.next(self)?;
            if there.is_empty() {
                return Ok(());
            }
            out.extend_from_slice(there);
            let passed = there.len();
            front.pass(passed);
        }
    }

    /// Fetches all of it into the cache on disk, from where any part of it is read then. Says whether it is there: it
    /// is not where nothing is kept, there is no room, or `stop` asks for an end.
    pub fn keep(&self, stop: impl Fn() -> bool) -> Result<bool, StoreError> {
        let whole = self.request(0, self.size);
        if self.bucket.is_kept(&whole) {
            return Ok(true);
        }
        let Some(mut keeping) = self.bucket.keep(&whole) else { return Ok(false) };
        let piece = |at: u64| Request { passing: true, ..self.piece(at) };
        let (mut begun, mut bytes) = (0, Vec::new());
        for at in (0..self.size).step_by(FARTHEST as usize) {
            if stop() {
                return Ok(false);
            }
            while begun < self.size && begun < at + UNDER_WAY * FARTHEST {
                self.bucket.begin(&piece(begun));
                begun += FARTHEST;
            }
            bytes.clear();
            self.bucket.read(&piece(at), &mut bytes)?;
            keeping.add(&bytes);
        }
        Ok(keeping.finish())
    }

    /// Fills `buffer` from byte `start` on.
    pub fn read_exact_at(&self, buffer: &mut [u8], start: u64) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(buffer.len());
        self.append_at(&mut bytes, start, buffer.len())?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn holds(&self, at: u64) -> bool {
        (self.start..self.end()).contains(&at)
    }

    fn part(&self, start: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from + (end - start) as usize)
    }
}
