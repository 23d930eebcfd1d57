//! The S3 server that stores are measured against: the folders in a folder are buckets. Says on which port it listens, and
//! serves until its standard input ends; then it says how much processor time a request took.

#[path = "../../../crates/feedline-store/tests/store/server.rs"]
mod server;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;
use clap::Parser;

/// Serves the folders in a folder as buckets of S3, on loopback.
#[derive(Parser)]
struct Arguments {
    /// The folder with the buckets.
    folder: PathBuf,
    /// Milliseconds before each answer.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let server = server::Server::start(&arguments.folder, None, 0);
    server.state.faults.latency_ms.store(arguments.latency_ms, Ordering::Relaxed);
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.endpoint())?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let requests = server.state.requests.load(Ordering::Relaxed);
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<u64> =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    // In hundredths of a second, on every Linux that is met.
    let microseconds = ticks.iter().sum::<u64>() * 10_000;
    writeln!(out, "{requests} requests, {} µs of CPU each", microseconds / requests.max(1))?;
    Ok(())
}
