//! Folders as buckets, files as objects. A file that holds a number, in the place of a folder, is a bucket of so many
//! objects that are made up: for listings that no disk should hold.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use s3s::dto::{
    ContentLength, ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadObjectInput,
    HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, Object, Timestamp,
};
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};

/// The folders in a folder.
#[derive(Debug)]
pub(crate) struct Folders {
    root: PathBuf,
    /// The sorted keys of buckets whose listing is under way.
    listed: Mutex<HashMap<String, Arc<Keys>>>,
}

/// The keys of a bucket, sorted.
#[derive(Debug)]
enum Keys {
    Files(Vec<String>),
    MadeUp(u64),
}

/// When what is made up was written.
const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;
/// Bytes of an object that is made up.
const MADE_UP_BYTES: u64 = 1000;
/// Answers of that many bytes are read in pieces: memory of some megabytes would be new each time.
const LONG: u64 = 256 << 10;

impl Keys {
    fn of(bucket: &Path) -> Keys {
        match made_up(bucket) {
            Some(count) => Keys::MadeUp(count),
            None => Keys::Files(files(bucket)),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Keys::Files(keys) => keys.len() as u64,
            Keys::MadeUp(count) => *count,
        }
    }

    fn get(&self, number: u64) -> String {
        match self {
            Keys::Files(keys) => keys[number as usize].clone(),
            Keys::MadeUp(_) => format!("{:04}/{number:09}.jpg", number / 10_000),
        }
    }

    /// How many, from the first on, are such keys.
    fn before(&self, is_before: impl Fn(&str) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match is_before(&self.get(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// How many objects of a bucket are made up, if it is such a bucket.
fn made_up(bucket: &Path) -> Option<u64> {
    fs::read_to_string(bucket).ok()?.trim().parse().ok()
}

impl Folders {
    pub(crate) fn new(root: &Path) -> Folders {
        Folders { root: root.to_path_buf(), listed: Mutex::default() }
    }

    fn bucket(&self, name: &str) -> S3Result<PathBuf> {
        let bucket = self.root.join(name);
        if bucket.exists() { Ok(bucket) } else { Err(s3_error!(NoSuchBucket)) }
    }

    fn object(&self, bucket: &str, key: &str) -> S3Result<(File, fs::Metadata)> {
        let path = self.bucket(bucket)?.join(key);
        let file = File::open(path).and_then(|file| file.metadata().map(|meta| (file, meta)));
        file.ok().filter(|(_, meta)| meta.is_file()).ok_or_else(|| s3_error!(NoSuchKey))
    }

    /// All keys, which the first page of a listing reads anew.
    fn keys(&self, bucket: &str, is_first: bool) -> S3Result<Arc<Keys>> {
        let folder = self.bucket(bucket)?;
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if is_first {
            listed.remove(bucket);
        }
        let keys = listed.entry(bucket.to_string()).or_insert_with(|| Arc::new(Keys::of(&folder)));
        Ok(Arc::clone(keys))
    }
}

/// The files below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let (mut keys, mut ahead) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = ahead.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ahead.push(entry.path());
            } else if let Ok(key) = entry.path().strip_prefix(folder) {
                keys.push(key.to_string_lossy().into_owned());
            }
        }
    }
    keys.sort_unstable();
    keys
}

/// Bytes of a file, into memory that is not zeroed first.
fn read(file: &File, range: Range<u64>) -> S3Result<Vec<u8>> {
    let most = usize::try_from(range.end - range.start).map_err(|_| s3_error!(EntityTooLarge))?;
    let mut content = Vec::with_capacity(most);
    while content.len() < most {
        let at = range.start + content.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut content), at) {
            Ok(0) => return Err(s3_error!(InternalError)),
            Ok(_) => content.truncate(most),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(s3_error!(InternalError)),
        }
    }
    Ok(content)
}

/// Bytes of a file as an answer that is read as it goes.
fn in_pieces(file: File, range: Range<u64>) -> Body {
    let pieces = stream::unfold((file, range), |(file, range)| async move {
        let end = range.end.min(range.start + LONG);
        let piece = (!range.is_empty()).then(|| read(&file, range.start..end))?;
        let piece = piece.map(|piece| Frame::data(Bytes::from(piece)));
        Some((piece.map_err(std::io::Error::other), (file, end..range.end)))
    });
    Body::http_body_unsync(StreamBody::new(pieces))
}

/// Another one for each content, by what the file system knows: reading files for it would take longer than serving them.
fn etag_of(meta: &fs::Metadata) -> ETag {
    let (len, seconds, nanos) = (meta.len(), meta.mtime(), meta.mtime_nsec());
    ETag::Strong(format!("{len:x}-{seconds:x}-{nanos:x}-{:x}", meta.ino()))
}

fn length(bytes: u64) -> Option<ContentLength> {
    ContentLength::try_from(bytes).ok()
}

fn modified(meta: &fs::Metadata) -> Option<Timestamp> {
    meta.modified().ok().map(Timestamp::from)
}

#[async_trait::async_trait]
impl S3 for Folders {
    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let (_, meta) = self.object(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            accept_ranges: Some("bytes".to_string()),
            content_length: length(meta.len()),
            e_tag: Some(etag_of(&meta)),
            last_modified: modified(&meta),
            ..HeadObjectOutput::default()
        }))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let (file, meta) = self.object(&request.input.bucket, &request.input.key)?;
        let etag = etag_of(&meta);
        if let Some(ETagCondition::ETag(wanted)) = &request.input.if_match
            && !wanted.strong_cmp(&etag)
        {
            return Err(s3_error!(PreconditionFailed));
        }
        let size = meta.len();
        let Range { start, end } = match request.input.range {
            Some(range) => range.check(size)?,
            None => 0..size,
        };
        let body = match end - start {
            ..LONG => Body::from(read(&file, start..end)?),
            _ => in_pieces(file, start..end),
        };
        let range = request.input.range.map(|_| format!("bytes {start}-{}/{size}", end - 1));
        Ok(S3Response::new(GetObjectOutput {
            accept_ranges: Some("bytes".to_string()),
            body: Some(body.into()),
            content_length: length(end - start),
            content_range: range,
            e_tag: Some(etag),
            last_modified: modified(&meta),
            ..GetObjectOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let ListObjectsV2Input {
            bucket,
            continuation_token,
            start_after,
            prefix,
            max_keys,
            delimiter,
            ..
        } = request.input;
        if delimiter.is_some() {
            return Err(s3_error!(NotImplemented, "listings with a delimiter"));
        }
        let all = self.keys(&bucket, continuation_token.is_none())?;
        let start = prefix.as_deref().unwrap_or_default();
        let most = max_keys.and_then(|most| u64::try_from(most).ok()).unwrap_or(1000).min(1000);
        let after = continuation_token.as_deref().or(start_after.as_deref());
        let from = all.before(|key| key < start || after.is_some_and(|after| key <= after));
        let below = all.before(|key| key < start || key.starts_with(start)).saturating_sub(from);
        let is_truncated = below > most;
        let page: Vec<String> = (from..from + below.min(most)).map(|at| all.get(at)).collect();
        let last = page.last().cloned();
        let folder = self.bucket(&bucket)?;
        let contents: Vec<Object> = page
            .into_iter()
            .filter_map(|key| {
                let (etag, size, modified) = match &*all {
                    Keys::Files(_) => {
                        let meta = fs::metadata(folder.join(&key)).ok()?;
                        (etag_of(&meta), length(meta.len()), modified(&meta))
                    }
                    Keys::MadeUp(_) => {
                        (ETag::Strong(key.clone()), length(MADE_UP_BYTES), Some(EPOCH.into()))
                    }
                };
                Some(Object {
                    key: Some(key),
                    e_tag: Some(etag),
                    size,
                    last_modified: modified,
                    ..Object::default()
                })
            })
            .collect();
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(bucket),
            prefix,
            max_keys,
            continuation_token,
            key_count: i32::try_from(contents.len()).ok(),
            next_continuation_token: last.filter(|_| is_truncated),
            is_truncated: Some(is_truncated),
            contents: Some(contents),
            ..ListObjectsV2Output::default()
        }))
    }
}
