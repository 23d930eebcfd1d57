//! What servers and networks do now and then, before and after the request is S3's.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use s3s::service::S3Service;
use s3s::{Body, HttpError};

/// What goes wrong, and how slow it is.
#[derive(Debug, Default)]
pub struct Faults {
    /// Milliseconds before each answer.
    pub latency_ms: AtomicU64,
    /// So many first attempts at an object get 503.
    pub errors: AtomicU64,
    /// So many first attempts at an object get "slow down".
    pub throttles: AtomicU64,
    /// At so many first attempts at an object the connection is closed without an answer.
    pub resets: AtomicU64,
    /// So many first answers break off in the middle.
    pub truncations: AtomicU64,
    /// Each request whose number can be divided by it waits for ever.
    pub stuck: AtomicU64,
}

/// What a server has seen and does.
#[derive(Debug, Default)]
pub struct State {
    /// What goes wrong.
    pub faults: Faults,
    /// Requests so far.
    pub requests: AtomicU64,
    /// Those that are not answered yet.
    pub in_flight: AtomicU64,
    /// The most that there were at a time.
    pub most: AtomicU64,
    attempts: Mutex<HashMap<String, u64>>,
}

/// What happens to an attempt at an object.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Error,
    SlowDown,
    Reset,
    BrokenOff,
}

impl State {
    /// Each fault has the attempts at an object that come after those of the faults before it.
    fn fate(&self, path: &str) -> Fate {
        if !path.trim_start_matches('/').contains('/') {
            return Fate::Answered;
        }
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = attempts.entry(path.to_string()).or_default();
        *attempt += 1;
        let order = [
            (&self.faults.errors, Fate::Error),
            (&self.faults.throttles, Fate::SlowDown),
            (&self.faults.resets, Fate::Reset),
            (&self.faults.truncations, Fate::BrokenOff),
        ];
        let mut until = 0;
        for (fault, fate) in order {
            until += fault.load(Ordering::Relaxed);
            if *attempt <= until {
                return fate;
            }
        }
        Fate::Answered
    }
}

/// Counts a request as long as it lives.
struct Counted(Arc<State>);

impl Counted {
    fn new(state: &Arc<State>) -> Counted {
        let now = state.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        state.most.fetch_max(now, Ordering::Relaxed);
        Counted(Arc::clone(state))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// S3 behind a network that is not perfect.
#[derive(Clone)]
pub(crate) struct Faulty {
    pub(crate) s3: S3Service,
    pub(crate) state: Arc<State>,
}

impl hyper::service::Service<Request<Incoming>> for Faulty {
    type Response = Response<Body>;
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, HttpError>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let Faulty { s3, state } = self.clone();
        Box::pin(async move {
            let number = state.requests.fetch_add(1, Ordering::Relaxed) + 1;
            let _counted = Counted::new(&state);
            let latency = state.faults.latency_ms.load(Ordering::Relaxed);
            if latency > 0 {
                tokio::time::sleep(Duration::from_millis(latency)).await;
            }
            let stuck = state.faults.stuck.load(Ordering::Relaxed);
            if stuck > 0 && number.is_multiple_of(stuck) {
                std::future::pending::<()>().await;
            }
            let fate = state.fate(request.uri().path());
            let is_get = request.method() == Method::GET;
            match fate {
                Fate::Error => {
                    return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "InternalError"));
                }
                Fate::SlowDown => return Ok(refusal(StatusCode::TOO_MANY_REQUESTS, "SlowDown")),
                Fate::Reset => return Err(HttpError::new("the connection is closed".into())),
                Fate::Answered | Fate::BrokenOff => {}
            }
            let answer = s3.call(request.map(Body::from)).await?;
            if fate == Fate::BrokenOff && is_get { broken_off(answer).await } else { Ok(answer) }
        })
    }
}

fn refusal(status: StatusCode, code: &str) -> Response<Body> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>Try again.</Message></Error>"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

/// The same answer, whose connection breaks after half of its content.
async fn broken_off(answer: Response<Body>) -> Result<Response<Body>, HttpError> {
    let (mut head, body) = answer.into_parts();
    let whole = body.collect().await.map_err(HttpError::new)?.to_bytes();
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    if whole.len() < 2 {
        return Ok(Response::from_parts(head, Body::http_body(Full::new(whole))));
    }
    let half: Result<Frame<Bytes>, std::io::Error> =
        Ok(Frame::data(whole.slice(..whole.len() / 2)));
    let end = Err(std::io::Error::other("broken off"));
    let pieces = StreamBody::new(futures_util::stream::iter([half, end]));
    Ok(Response::from_parts(head, Body::http_body_unsync(pieces)))
}
