//! Serves the folders in a folder as buckets of S3, until standard input ends; then it says how much processor time a request took.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use feedline_s3_server::Server;
use rustix::time::{ClockId, clock_gettime};

/// Serves the folders in a folder as buckets of S3, on loopback, to the access key "reader" with the secret "secret".
#[derive(Parser)]
struct Arguments {
    /// The folder with the buckets.
    folder: PathBuf,
    /// Milliseconds before each answer.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Whether requests need no signature.
    #[arg(long)]
    public: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let server = Server::start(&arguments.folder, arguments.public)?;
    server.state.faults.latency_ms.store(arguments.latency_ms, Ordering::Relaxed);
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.endpoint())?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let requests = server.state.requests.load(Ordering::Relaxed);
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec)?);
    writeln!(
        out,
        "{requests} requests, {} µs of CPU each",
        used.as_micros() / u128::from(requests.max(1))
    )?;
    Ok(())
}
