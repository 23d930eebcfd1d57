//! Folders as buckets, files as objects.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    listed: Mutex<HashMap<String, Arc<Vec<String>>>>,
}

impl Folders {
    pub(crate) fn new(root: &Path) -> Folders {
        Folders { root: root.to_path_buf(), listed: Mutex::default() }
    }

    fn bucket(&self, name: &str) -> S3Result<PathBuf> {
        let folder = self.root.join(name);
        if folder.is_dir() { Ok(folder) } else { Err(s3_error!(NoSuchBucket)) }
    }

    fn object(&self, bucket: &str, key: &str) -> S3Result<(File, fs::Metadata)> {
        let path = self.bucket(bucket)?.join(key);
        let file = File::open(path).and_then(|file| file.metadata().map(|meta| (file, meta)));
        file.ok().filter(|(_, meta)| meta.is_file()).ok_or_else(|| s3_error!(NoSuchKey))
    }

    /// All keys, which the first page of a listing reads anew.
    fn keys(&self, bucket: &str, is_first: bool) -> S3Result<Arc<Vec<String>>> {
        let folder = self.bucket(bucket)?;
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if is_first {
            listed.remove(bucket);
        }
        let keys = listed.entry(bucket.to_string()).or_insert_with(|| Arc::new(keys(&folder)));
        Ok(Arc::clone(keys))
    }
}

/// The keys of a bucket, sorted.
fn keys(folder: &Path) -> Vec<String> {
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
        let mut content =
            vec![0; usize::try_from(end - start).map_err(|_| s3_error!(EntityTooLarge))?];
        file.read_exact_at(&mut content, start).map_err(|_| s3_error!(InternalError))?;
        let range = request.input.range.map(|_| format!("bytes {start}-{}/{size}", end - 1));
        Ok(S3Response::new(GetObjectOutput {
            accept_ranges: Some("bytes".to_string()),
            body: Some(Body::from(content).into()),
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
        let most = max_keys.and_then(|most| usize::try_from(most).ok()).unwrap_or(1000).min(1000);
        let after = continuation_token.as_ref().or(start_after.as_ref());
        let from = after.map_or(0, |after| all.partition_point(|key| key <= after));
        let from = from.max(all.partition_point(|key| key.as_str() < start));
        let below = all[from..].iter().take_while(|key| key.starts_with(start));
        let page: Vec<&String> = below.take(most + 1).collect();
        let is_truncated = page.len() > most;
        let folder = self.bucket(&bucket)?;
        let contents: Vec<Object> = page
            .iter()
            .take(most)
            .filter_map(|key| {
                let meta = fs::metadata(folder.join(key)).ok()?;
                Some(Object {
                    key: Some((*key).clone()),
                    e_tag: Some(etag_of(&meta)),
                    size: length(meta.len()),
                    last_modified: modified(&meta),
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
            next_continuation_token: is_truncated.then(|| page[most - 1].clone()),
            is_truncated: Some(is_truncated),
            contents: Some(contents),
            ..ListObjectsV2Output::default()
        }))
    }
}
