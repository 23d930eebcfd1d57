//! An S3 server on loopback: the folders in a folder are buckets, the files below them objects.
//!
//! What S3 is, the [`s3s`] crate knows: requests, signatures, errors, XML. Here are the files ([`buckets`]) and
//! what servers and networks do now and then ([`faults`]).

mod buckets;
mod faults;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::{io, thread};

use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::S3ServiceBuilder;
use s3s::{S3Result, s3_error};

pub use faults::{Faults, State};

/// Who may read.
pub const ACCESS_KEY: &str = "reader";
/// What signs the reader's requests.
pub const SECRET_KEY: &str = "secret";

/// The one who may read.
struct OneReader;

#[async_trait::async_trait]
impl S3Auth for OneReader {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == ACCESS_KEY {
            return Ok(SECRET_KEY.into());
        }
        Err(s3_error!(InvalidAccessKeyId))
    }
}

/// Whoever wants may read, as from a public bucket.
struct Anyone;

#[async_trait::async_trait]
impl S3Access for Anyone {
    async fn check(&self, _: &mut S3AccessContext<'_>) -> S3Result<()> {
        Ok(())
    }
}

/// A server that runs as long as the process.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub port: u16,
    /// What it has seen and does.
    pub state: Arc<State>,
}

impl Server {
    /// Starts one on a free port, all of it on one thread. Without `is_public` requests must be signed.
    pub fn start(folder: &Path, is_public: bool) -> io::Result<Server> {
        let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let mut service = S3ServiceBuilder::new(buckets::Folders::new(folder));
        service.set_auth(OneReader);
        if is_public {
            service.set_access(Anyone);
        }
        let service = faults::Faulty { s3: service.build(), state: Arc::clone(&state) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || runtime.block_on(serve(listener, service)));
        Ok(Server { port, state })
    }

    /// Its URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

async fn serve(listener: std::net::TcpListener, service: faults::Faulty) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
    loop {
        // What cannot be accepted is the client's to try again.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(async move {
            // A connection that was broken off on purpose is an error here.
            let _ = connection.await;
        });
    }
}
