//! The engine's benchmark tables: what it must reach, and what it reaches here.
//!
//! ```text
//! cargo run --release -p feedline-benches --bin engine                    all tables, about 5 minutes
//! cargo run --release -p feedline-benches --bin engine -- --only shuffle  one of them
//! cargo run --release -p feedline-benches --bin engine -- --quick         all of them, roughly
//! ```
//!
//! Every table compares sides of one run with each other, most of them with bare threads that do the
//! same work without an engine. Tables go to stdout, every single run to a record file that
//! `feedline report` draws again.

mod arithmetic;
mod bench;
mod epoch_gap;
mod first_batch;
mod lognormal;
mod measuring_cost;
mod rows;
mod shuffle;
mod simulator;
mod sleep;
mod stragglers;
mod task;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use bench::Bench;

/// Measures the engine and prints the tables.
#[derive(Debug, Parser)]
#[command(name = "engine")]
struct Arguments {
    /// Fewer rounds of less work: whether everything runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Only the table of this name; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = TABLES.map(|(name, _)| name))]
    only: Vec<String>,
    /// The folder that gets a record file for each table.
    #[arg(long, value_name = "DIR", default_value = "results/engine")]
    out: PathBuf,
}

type Table = fn(&mut Bench) -> anyhow::Result<()>;

/// The tables in the order they are printed.
const TABLES: [(&str, Table); 9] = [
    ("rows", rows::table),
    ("sleep", sleep::table),
    ("first_batch", first_batch::table),
    ("lognormal", lognormal::table),
    ("stragglers", stragglers::table),
    ("epoch_gap", epoch_gap::table),
    ("shuffle", shuffle::table),
    ("simulator", simulator::table),
    ("measuring_cost", measuring_cost::table),
];

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut bench = Bench::new(arguments.quick, arguments.out)?;
    for (name, table) in TABLES {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == name) {
            bench.open(name)?;
            table(&mut bench)?;
        }
    }
    bench.close()
}
