//! What objects there are, page by page; and a listing kept on disk, for those who say how old it may be.
//!
//! ```text
//! magic "FLLIST01"   what was listed; objects: length of the key, key, size, version; a length of u32::MAX, the
//!                    number of objects, and a checksum of it all
//! ```

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::SystemTime;

use futures_util::StreamExt;
use twox_hash::XxHash3_64;

use crate::address::Address;
use crate::bucket::{Bucket, Head, given_up, key_path};
use crate::error::{Kind, StoreError};
use crate::runtime;

/// Objects that come at a time.
const PAGE: usize = 1000;
const MAGIC: &[u8; 8] = b"FLLIST01";
const END: u32 = u32::MAX;

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key, from the listed prefix and a slash on.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What tells this content from any other, in 64 bits.
    pub version: u64,
}

/// Told how many objects were found so far; it may break off.
pub type Watch<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Shows all objects below an address to `visit`, in the store's order: that of the keys' bytes, mostly. Takes
/// memory for some pages only. Returns how many there are.
pub fn list(
    address: &Address,
    watch: Watch<'_>,
    mut visit: impl FnMut(Entry),
) -> Result<u64, StoreError> {
    let bucket = Bucket::of(address)?;
    let prefix = address.key.trim_end_matches('/');
    let options = bucket.options();
    let url = bucket.url(prefix);
    let kept = options.cache_dir.as_deref().filter(|_| !options.listing_max_age.is_zero());
    let kept = kept.map(|folder| Ok(KeptListing::of(folder, &bucket.said_of(&url)?)));
    let kept = kept.transpose()?;
    if let Some(kept) = &kept
        && kept.age().is_some_and(|age| age <= options.listing_max_age)
        // Read twice: nothing of one that is damaged is shown.
        && kept.read(|_| ()).is_some()
        && let Some(count) = kept.read(&mut visit)
    {
        return Ok(count);
    }
    let mut keeping = kept.as_ref().and_then(|kept| kept.begin().ok());
    let count = fresh(&bucket, prefix, watch, |entry| {
        if keeping.as_mut().is_some_and(|keeping| keeping.add(&entry).is_err()) {
            keeping = None;
        }
        visit(entry);
    })?;
    // Failing to keep it costs time at the next start and nothing else.
    if let (Some(kept), Some(keeping)) = (&kept, keeping) {
        let _ = keeping.finish(count, &kept.path);
    }
    Ok(count)
}

/// The same, asked of the store.
fn fresh(
    bucket: &Bucket,
    prefix: &str,
    watch: Watch<'_>,
    mut visit: impl FnMut(Entry),
) -> Result<u64, StoreError> {
    let url = || bucket.url(prefix);
    let path = if prefix.is_empty() { None } else { Some(key_path(url(), prefix)?) };
    let client = bucket.client()?;
    let (tell, told) = sync_channel(4);
    let pages = client.list(path.as_ref()).chunks(PAGE);
    runtime::handle().spawn(async move {
        let mut pages = pages;
        while let Some(page) = pages.next().await {
            // A page that nobody has taken yet: others want the thread meanwhile.
            let mut page = Some(page);
            while let Some(waiting) = page.take() {
                match tell.try_send(Some(waiting)) {
                    Ok(()) => {}
                    Err(std::sync::mpsc::TrySendError::Full(back)) => {
                        page = back;
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    }
                    Err(std::sync::mpsc::TrySendError::Disconnected(_)) => return,
                }
            }
        }
        while let Err(std::sync::mpsc::TrySendError::Full(_)) = tell.try_send(None) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    let mut count = 0;
    let mut circle = Circle::default();
    let skip = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
    while let Some(page) = told.recv().map_err(|_| given_up(url()))? {
        for found in page {
            let meta = found.map_err(|error| unlisted(bucket, url(), &error))?;
            let key: &str = meta.location.as_ref();
            // The prefix itself, if there is an object of that name.
            let Some(name) = key.get(skip..).filter(|name| !name.is_empty()) else { continue };
            if circle.is_closed_by(name) {
                let what = format!("the store tells of {name:?} again and again");
                let advice = "look at what is between here and the store: pages come twice";
                return Err(StoreError::new(Kind::Unreachable, "list", url(), what, advice));
            }
            visit(Entry {
                name: name.to_string(),
                size: meta.size,
                version: Head::of(&meta).version,
            });
            count += 1;
        }
        if watch(count).is_break() {
            let what = "it was broken off".to_string();
            return Err(StoreError::new(Kind::Interrupted, "list", url(), what, "begin again"));
        }
    }
    Ok(count)
}

/// Whether names, of which each should come once, come again for ever (Brent's way, with one name kept).
#[derive(Default)]
struct Circle {
    mark: String,
    seen: u64,
}

impl Circle {
    fn is_closed_by(&mut self, name: &str) -> bool {
        if self.mark == name {
            return true;
        }
        self.seen += 1;
        if self.seen.is_power_of_two() {
            self.mark = name.to_string();
        }
        false
    }
}

fn unlisted(bucket: &Bucket, url: String, error: &object_store::Error) -> StoreError {
    if url.starts_with("http") && !bucket.url("").contains("amazonaws.com") {
        let what = "a web server does not tell what it has".to_string();
        let advice = "give the objects one by one, or as a pattern such as part-{000..015}.tar";
        return StoreError::new(Kind::Address, "list", url, what, advice);
    }
    StoreError::of("list", url, error)
}

/// A listing on disk.
struct KeptListing {
    path: PathBuf,
    /// Of what it is.
    url: String,
}

impl KeptListing {
    fn of(folder: &Path, url: &str) -> KeptListing {
        let name = format!("{:016x}.list", XxHash3_64::oneshot(url.as_bytes()));
        KeptListing { path: folder.join("listings").join(name), url: url.to_string() }
    }

    fn age(&self) -> Option<std::time::Duration> {
        let written = fs::metadata(&self.path).ok()?.modified().ok()?;
        SystemTime::now().duration_since(written).ok()
    }

    /// Shows what is kept, if it is whole; otherwise a part, and says `None`.
    fn read(&self, mut visit: impl FnMut(Entry)) -> Option<u64> {
        let file = BufReader::new(File::open(&self.path).ok()?);
        let mut from = Hashed { of: file, hash: XxHash3_64::new() };
        let mut magic = [0; 8];
        from.read_exact(&mut magic).ok()?;
        let length = from.number()?;
        if magic != *MAGIC || from.text(length)? != self.url {
            return None;
        }
        let mut count = 0;
        loop {
            let length = from.number()?;
            if length == END {
                break;
            }
            let name = from.text(length)?;
            let (size, version) = (from.wide()?, from.wide()?);
            visit(Entry { name, size, version });
            count += 1;
        }
        let said = from.wide()?;
        let hash = from.hash.finish();
        (from.wide()? == hash && said == count).then_some(count)
    }

    fn begin(&self) -> io::Result<Keeping> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let file = BufWriter::new(tempfile::NamedTempFile::new_in(folder)?);
        let mut keeping = Keeping { to: Hashed { of: file, hash: XxHash3_64::new() } };
        keeping.to.put(MAGIC)?;
        keeping.text(&self.url)?;
        Ok(keeping)
    }
}

/// A listing that is being written.
struct Keeping {
    to: Hashed<BufWriter<tempfile::NamedTempFile>>,
}

impl Keeping {
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.to.put(&(text.len() as u32).to_le_bytes())?;
        self.to.put(text.as_bytes())
    }

    fn add(&mut self, entry: &Entry) -> io::Result<()> {
        self.text(&entry.name)?;
        self.to.put(&entry.size.to_le_bytes())?;
        self.to.put(&entry.version.to_le_bytes())
    }

    fn finish(mut self, count: u64, path: &Path) -> io::Result<()> {
        self.to.put(&END.to_le_bytes())?;
        self.to.put(&count.to_le_bytes())?;
        let hash = self.to.hash.finish();
        self.to.put(&hash.to_le_bytes())?;
        self.to.of.into_inner()?.persist(path)?;
        Ok(())
    }
}

/// What is read or written, and its checksum so far.
struct Hashed<T> {
    of: T,
    hash: XxHash3_64,
}

impl<W: Write> Hashed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.write(bytes);
        self.of.write_all(bytes)
    }
}

impl<R: Read> Hashed<R> {
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.of.read_exact(bytes)?;
        self.hash.write(bytes);
        Ok(())
    }

    fn number(&mut self) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read_exact(&mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    fn wide(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read_exact(&mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// A text; keys have at most some kilobytes.
    fn text(&mut self, length: u32) -> Option<String> {
        let mut bytes = vec![0; Some(length as usize).filter(|length| *length <= 1 << 16)?];
        self.read_exact(&mut bytes).ok()?;
        String::from_utf8(bytes).ok()
    }
}
