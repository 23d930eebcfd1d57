//! The picture kernel's benchmark table: one thread, files in memory, nothing but decoding and what follows it.
//!
//! ```text
//! cargo run --release -p feedline-benches --bin images                    about a minute
//! cargo run --release -p feedline-benches --bin images -- --quick         roughly
//! cargo run --release -p feedline-benches --bin images -- --spin fused    one side alone, for a profiler
//! ```
//!
//! Real photographs are taken from a folder of JPEG files (`--photos`) where there is one, else photograph-like
//! pictures of the same size are made.

#[path = "../engine/bench.rs"]
mod bench;
mod kernel;
mod photos;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use bench::Bench;

/// Measures the picture kernel and prints the table.
#[derive(Debug, Parser)]
#[command(name = "images")]
struct Arguments {
    /// Fewer rounds of less work: whether everything runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// The folder that gets a record file for each table.
    #[arg(long, value_name = "DIR", default_value = "results/images")]
    out: PathBuf,
    /// The folder of photographs.
    #[arg(long, value_name = "DIR", default_value = "../shared/data/photos")]
    photos: PathBuf,
    /// Runs one side of the kernel's table for some rounds and prints nothing: for `perf` and `valgrind`.
    #[arg(long, value_name = "SIDE", value_parser = kernel::SIDES)]
    spin: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let photos = photos::load(&arguments.photos)?;
    if let Some(side) = arguments.spin {
        kernel::spin(&side, &photos, if arguments.quick { 1 } else { 10 })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut bench = Bench::new(arguments.quick, arguments.out)?;
    bench.open("kernel")?;
    kernel::table(&mut bench, &photos)?;
    bench.close()
}
