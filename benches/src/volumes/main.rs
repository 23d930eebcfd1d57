//! The volume kernel's benchmark tables: one thread, voxels in memory, nothing but what is done to them. The last table
//! is about gzip files and their restart points.
//!
//! ```text
//! cargo run --release -p feedline-benches --bin volumes                       about a minute
//! cargo run --release -p feedline-benches --bin volumes -- --only patches     one table
//! cargo run --release -p feedline-benches --bin volumes -- --quick            roughly
//! cargo run --release -p feedline-benches --bin volumes -- --spin rotated     one side alone, for a profiler
//! ```

#[path = "../engine/bench.rs"]
mod bench;
mod restart;
mod scan;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use bench::Bench;

/// Measures the volume kernel and prints the tables.
#[derive(Debug, Parser)]
#[command(name = "volumes")]
struct Arguments {
    /// Fewer rounds of less work: whether everything runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Only the table of this name; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = TABLES.map(|(name, _)| name))]
    only: Vec<String>,
    /// The folder that gets a record file for each table.
    #[arg(long, value_name = "DIR", default_value = "results/volumes")]
    out: PathBuf,
    /// Runs one side for some rounds and prints nothing: for `perf` and `valgrind`.
    #[arg(long, value_name = "SIDE", value_parser = work::names())]
    spin: Option<String>,
}

type Table = fn(&mut Bench) -> anyhow::Result<()>;

/// The tables in the order they are printed.
const TABLES: [(&str, Table); 3] =
    [("patches", work::patches), ("spacing", work::spacing), ("restart_points", restart::points)];

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(side) = arguments.spin {
        work::spin(&side, if arguments.quick { 1 } else { 50 })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut bench = Bench::new(arguments.quick, arguments.out)?;
    for (name, table) in TABLES {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == name) {
            bench.open(name)?;
            table(&mut bench)?;
        }
    }
    bench.close()
}
