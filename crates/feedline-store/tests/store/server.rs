//! An S3 server on loopback: the folders in a folder are buckets, the files below them objects. It speaks GET, HEAD, ranges,
//! If-Match, ETags, ListObjectsV2 and the errors of S3, and does on request what servers and networks do now and then.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What goes wrong, and how slow it is.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Milliseconds before each answer.
    pub(crate) latency_ms: AtomicU64,
    /// So many first attempts at an object get 503.
    pub(crate) errors: AtomicU64,
    /// So many first attempts at an object get "slow down".
    pub(crate) throttles: AtomicU64,
    /// At so many first attempts at an object the connection is closed without an answer.
    pub(crate) resets: AtomicU64,
    /// So many first answers break off in the middle.
    pub(crate) truncations: AtomicU64,
    /// Each request whose number can be divided by it waits for ever.
    pub(crate) stuck: AtomicU64,
}

/// What a server has seen and does.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What goes wrong.
    pub(crate) faults: Faults,
    /// Requests so far.
    pub(crate) requests: AtomicU64,
    /// Those in flight, and the most there were.
    pub(crate) in_flight: AtomicU64,
    /// The most that there were at a time.
    pub(crate) most: AtomicU64,
    folder: PathBuf,
    /// The key that requests must name, if any.
    access_key: Option<String>,
    attempts: Mutex<HashMap<String, u64>>,
    listed: Mutex<HashMap<String, Arc<Vec<String>>>>,
}

/// A server that runs as long as the process.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) port: u16,
    /// What it has seen and does.
    pub(crate) state: Arc<State>,
}

impl Server {
    /// Starts one, with a thread for each connection.
    pub(crate) fn start(folder: &Path, access_key: Option<&str>, port: u16) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let access_key = access_key.map(str::to_string);
        let folder = folder.to_path_buf();
        let state = Arc::new(State { folder, access_key, ..State::default() });
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&served);
                thread::spawn(move || serve(&state, stream));
            }
        });
        Server { port, state }
    }

    /// Its URL.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// What is asked: GET or HEAD, a path, and headers by their names in lower case.
struct Asked {
    is_head: bool,
    path: String,
    query: String,
    headers: HashMap<String, String>,
}

/// What is answered. An answer that breaks off has less content than it says.
struct Answer {
    status: u16,
    headers: String,
    length: u64,
    content: Vec<u8>,
    breaks_off: bool,
}

/// Answers one request after the other, until the connection ends.
fn serve(state: &State, stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut out = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream);
    loop {
        let asked = read_request(&mut lines).ok()??;
        let Some(answer) = answer(state, &asked) else {
            return out.shutdown(Shutdown::Both).ok();
        };
        let Answer { status, headers, length, content, breaks_off } = answer;
        let mut sent = format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\n{headers}\r\n")
            .into_bytes();
        sent.extend_from_slice(&content);
        out.write_all(&sent).ok()?;
        if breaks_off {
            return out.shutdown(Shutdown::Both).ok();
        }
    }
}

fn read_request(lines: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if lines.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (is_head, path, query) = (method == "HEAD", unescaped(path), query.to_string());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
    }
    Ok(Some(Asked { is_head, path, query, headers }))
}

fn full(status: u16, text: String) -> Answer {
    let length = text.len() as u64;
    let content = text.into_bytes();
    Answer { status, headers: String::new(), length, content, breaks_off: false }
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    full(status, text)
}

/// Counts a request as long as it lives.
struct Counted<'a>(&'a State);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answer; `None` where there is none and the connection is closed.
fn answer(state: &State, asked: &Asked) -> Option<Answer> {
    let number = state.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let now = state.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
    state.most.fetch_max(now, Ordering::Relaxed);
    let _counted = Counted(state);
    let said = |fault: &AtomicU64| fault.load(Ordering::Relaxed);
    thread::sleep(Duration::from_millis(said(&state.faults.latency_ms)));
    let stuck = said(&state.faults.stuck);
    while stuck > 0 && number.is_multiple_of(stuck) {
        thread::park();
    }
    let answer = answer_to(state, asked)?;
    Some(if asked.is_head {
        Answer { content: Vec::new(), breaks_off: false, ..answer }
    } else {
        answer
    })
}

fn answer_to(state: &State, asked: &Asked) -> Option<Answer> {
    let path = asked.path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    if let Some(access_key) = &state.access_key {
        let given = asked.headers.get("authorization");
        if !given.is_some_and(|given| given.contains(&format!("Credential={access_key}/"))) {
            let message = "The AWS Access Key Id you provided does not exist in our records.";
            return Some(error(403, "InvalidAccessKeyId", message));
        }
    }
    let folder = state.folder.join(bucket);
    if !folder.is_dir() {
        return Some(error(404, "NoSuchBucket", "The specified bucket does not exist"));
    }
    if key.is_empty() {
        return Some(listing(state, bucket, &asked.query));
    }
    let attempt = {
        let mut attempts = state.attempts.lock().expect("not poisoned");
        let attempt = attempts.entry(path.to_string()).or_default();
        *attempt += 1;
        *attempt
    };
    let mut fails = 0;
    let mut now_fails = |fault: &AtomicU64| {
        let before = fails;
        fails += fault.load(Ordering::Relaxed);
        attempt > before && attempt <= fails
    };
    if now_fails(&state.faults.errors) {
        return Some(error(503, "ServiceUnavailable", "Try again."));
    }
    if now_fails(&state.faults.throttles) {
        return Some(error(429, "SlowDown", "Reduce your request rate."));
    }
    if now_fails(&state.faults.resets) {
        return None;
    }
    let breaks_off = now_fails(&state.faults.truncations) && !asked.is_head;
    Some(object(&folder.join(key), asked, breaks_off))
}

fn object(path: &Path, asked: &Asked, breaks_off: bool) -> Answer {
    let file = File::open(path).and_then(|file| file.metadata().map(|meta| (file, meta)));
    let Some((file, meta)) = file.ok().filter(|(_, meta)| meta.is_file()) else {
        return error(404, "NoSuchKey", "The specified key does not exist.");
    };
    let etag = etag_of(&meta);
    if asked.headers.get("if-match").is_some_and(|wanted| *wanted != etag) {
        let message = "At least one of the pre-conditions you specified did not hold";
        return error(412, "PreconditionFailed", message);
    }
    let size = meta.len();
    let range = asked.headers.get("range").and_then(|range| {
        let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
        let end = end.parse().map_or(size, |last: u64| last + 1);
        Some((start.parse().ok()?, end.min(size)))
    });
    if range.is_some_and(|(start, end): (u64, u64)| start >= end) {
        return error(416, "InvalidRange", "The requested range is not satisfiable");
    }
    let (start, end) = range.unwrap_or((0, size));
    let mut headers = format!(
        "etag: {etag}\r\nlast-modified: Wed, 01 Jan 2025 00:00:00 GMT\r\naccept-ranges: bytes\r\n"
    );
    if range.is_some() {
        headers += &format!("content-range: bytes {start}-{}/{size}\r\n", end - 1);
    }
    let length = end - start;
    let sent = if breaks_off { length / 2 } else { length };
    let mut content = vec![0; if asked.is_head { 0 } else { sent as usize }];
    if file.read_exact_at(&mut content, start).is_err() {
        return error(500, "InternalError", "cannot read it");
    }
    let status = if range.is_some() { 206 } else { 200 };
    Answer { status, headers, length, content, breaks_off }
}

fn etag_of(meta: &fs::Metadata) -> String {
    format!("\"{:x}-{:x}-{:x}-{:x}\"", meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino())
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

fn listing(state: &State, bucket: &str, query: &str) -> Answer {
    let given: HashMap<String, String> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (unescaped(name), unescaped(&value.replace('+', " "))))
        .collect();
    let after = given.get("continuation-token").or_else(|| given.get("start-after"));
    let all = {
        let mut listed = state.listed.lock().expect("not poisoned");
        if after.is_none() {
            listed.remove(bucket);
        }
        let folder = state.folder.join(bucket);
        Arc::clone(listed.entry(bucket.to_string()).or_insert_with(|| Arc::new(keys(&folder))))
    };
    let prefix = given.get("prefix").map(String::as_str).unwrap_or_default();
    let most = given.get("max-keys").and_then(|most| most.parse().ok()).unwrap_or(1000_usize);
    let from = after.map_or(0, |after| all.partition_point(|key| key <= after));
    let from = from.max(all.partition_point(|key| key.as_str() < prefix));
    let below = all[from..].iter().take_while(|key| key.starts_with(prefix));
    let page: Vec<&String> = below.take(most + 1).collect();
    let truncated = page.len() > most;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult><Name>{bucket}</Name><IsTruncated>{truncated}</IsTruncated>"
    );
    for key in page.iter().take(most) {
        let Ok(meta) = fs::metadata(state.folder.join(bucket).join(key)) else { continue };
        let etag = etag_of(&meta).replace('"', "&quot;");
        let key = key.replace('&', "&amp;").replace('<', "&lt;");
        text += &format!(
            "<Contents><Key>{key}</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>{etag}</ETag><Size>{}</Size></Contents>",
            meta.len()
        );
    }
    if truncated {
        let last = page[most - 1].replace('&', "&amp;").replace('<', "&lt;");
        text += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
    }
    text += "</ListBucketResult>";
    full(200, text)
}

fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
