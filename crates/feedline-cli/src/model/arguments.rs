//! What can be asked on the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use feedline_model::units::quantity;

/// Ask the theory of queues, lines and scaling about a loader.
///
/// Rates are per second. Times and bytes may have units: 80ms, 2.5s, 600KB, 2GiB, 500MB/s.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples: feedline model mmc --arrival 8 --service 1 --servers 10\n          \
    feedline model loading --workers 4 --cost 10ms --step 80ms --page out.html\n          \
    feedline model usl --fit rates.csv\n          \
    feedline model simulate cluster.toml --json"
)]
pub(crate) struct ModelArguments {
    #[command(subcommand)]
    pub(crate) question: Question,

    /// Print a JSON object instead of the table.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Write a page with the table, the chart, and sliders to try other settings.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,

    /// Write the chart as SVG.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) chart: Option<PathBuf>,
}

/// What is asked. (Negative numbers are let through by the parser, so that the theory refuses them with its reason.)
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// One server, random arrivals and service times: utilisation, waits, queue.
    Mm1 {
        #[command(flatten)]
        rates: Rates,
    },
    /// The same with several servers.
    Mmc {
        #[command(flatten)]
        rates: Rates,
        /// How many serve.
        #[arg(long, value_name = "N")]
        servers: u32,
    },
    /// One server, service times of any distribution.
    Mg1 {
        #[command(flatten)]
        rates: Rates,
        /// Standard deviation of the service times over their mean: 0 if all are the same, 1 if exponential.
        #[arg(long, value_name = "X", value_parser = quantity, allow_hyphen_values = true)]
        spread: f64,
    },
    /// Several servers, service times of any distribution; approximate.
    Mgc {
        #[command(flatten)]
        rates: Rates,
        /// How many serve.
        #[arg(long, value_name = "N")]
        servers: u32,
        /// Standard deviation of the service times over their mean.
        #[arg(long, value_name = "X", value_parser = quantity, allow_hyphen_values = true)]
        spread: f64,
    },
    /// Little's law: number inside = rate x time. Give two of the three.
    Little {
        /// Mean number inside.
        #[arg(long, value_name = "N", value_parser = quantity, allow_hyphen_values = true)]
        number: Option<f64>,
        /// How many come per second.
        #[arg(long, value_name = "RATE", value_parser = quantity, allow_hyphen_values = true)]
        rate: Option<f64>,
        /// Mean time inside.
        #[arg(long, value_name = "TIME", value_parser = quantity, allow_hyphen_values = true)]
        time: Option<f64>,
    },
    /// The number of workers that costs least: workers x their cost + waiting x its cost.
    Workers {
        #[command(flatten)]
        rates: Rates,
        /// Standard deviation of the service times over their mean.
        #[arg(long, value_name = "X", value_parser = quantity, default_value = "1", allow_hyphen_values = true)]
        spread: f64,
        /// What a worker costs per second.
        #[arg(long, value_name = "COST", value_parser = quantity, default_value = "1", allow_hyphen_values = true)]
        worker_cost: f64,
        /// What a second costs for which a request waits.
        #[arg(long, value_name = "COST", value_parser = quantity, allow_hyphen_values = true)]
        waiting_cost: f64,
    },
    /// A loader and its training loop: throughput, wait, finished batches, the knee, one more worker.
    Loading(LoadingArguments),
    /// Stages one behind the other with finite buffers: throughput, bottleneck, blocking, latency.
    Tandem {
        /// A stage: its time, spread and workers, e.g. 4ms:1:2. Repeat it in order.
        #[arg(long, value_name = "TIME[:SPREAD[:WORKERS]]", required = true)]
        stage: Vec<StageText>,
        /// Samples that fit between neighbouring stages, e.g. 2,2.
        #[arg(long, value_name = "LIST", value_delimiter = ',')]
        buffers: Vec<u32>,
    },
    /// Amdahl's law: speed-up of fixed work of which a share is serial.
    Amdahl {
        #[command(flatten)]
        scaling: Scaling,
    },
    /// Gustafson's law: speed-up of work that grows with the workers.
    Gustafson {
        #[command(flatten)]
        scaling: Scaling,
    },
    /// The universal scalability law, from its numbers or fitted to measured rates.
    Usl {
        /// Share of the work that is done by one at a time.
        #[arg(long, value_name = "SHARE", value_parser = quantity, required_unless_present = "fit", allow_hyphen_values = true)]
        contention: Option<f64>,
        /// Cost of each pair of workers, as a share of the work.
        #[arg(long, value_name = "SHARE", value_parser = quantity, default_value = "0", allow_hyphen_values = true)]
        coherence: f64,
        /// Fit the law to a CSV file of workers,throughput.
        #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["contention", "coherence"])]
        fit: Option<PathBuf>,
        /// How many workers.
        #[arg(long, value_name = "N", default_value_t = 8)]
        workers: u32,
    },
    /// How evenly work is shared: of measured times, or to expect of work dealt out in advance.
    Imbalance {
        /// The workers' busy times, e.g. 9s,10s,14s.
        #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = quantity, required_unless_present = "workers")]
        times: Vec<f64>,
        /// Workers that are given samples in advance.
        #[arg(long, value_name = "N", conflicts_with = "times", requires = "samples")]
        workers: Option<u32>,
        /// Samples of each.
        #[arg(long, value_name = "N")]
        samples: Option<u32>,
        /// Standard deviation of the samples' times over their mean.
        #[arg(long, value_name = "X", value_parser = quantity, default_value = "1", allow_hyphen_values = true)]
        spread: f64,
    },
    /// Memory of batches x stages x depth, and of worker processes.
    Memory {
        /// Samples of a batch.
        #[arg(long, value_name = "N")]
        batch_size: u32,
        /// What a sample takes.
        #[arg(long, value_name = "BYTES", value_parser = quantity, allow_hyphen_values = true)]
        sample_bytes: f64,
        /// In how many forms a batch exists: raw, decoded, finished.
        #[arg(long, value_name = "N", default_value_t = 1)]
        stages: u32,
        /// Batches read ahead (by each worker, with --workers).
        #[arg(long, value_name = "N", default_value_t = 2)]
        depth: u32,
        /// Worker processes that make whole batches.
        #[arg(long, value_name = "N")]
        workers: Option<u32>,
        /// What a worker process has for itself.
        #[arg(long, value_name = "BYTES", value_parser = quantity, default_value = "200MB", allow_hyphen_values = true)]
        private: f64,
        /// Also say the largest batch size that fits into this.
        #[arg(long, value_name = "BYTES", value_parser = quantity, allow_hyphen_values = true)]
        limit: Option<f64>,
    },
    /// Moving a message: time, share of the bandwidth used, messages needed under way.
    Transfer {
        /// Size of a message.
        #[arg(long, value_name = "BYTES", value_parser = quantity, allow_hyphen_values = true)]
        bytes: f64,
        /// Time before its first byte.
        #[arg(long, value_name = "TIME", value_parser = quantity, default_value = "0", allow_hyphen_values = true)]
        latency: f64,
        /// Bytes per second from then on.
        #[arg(long, value_name = "BYTES/s", value_parser = quantity, allow_hyphen_values = true)]
        bandwidth: f64,
    },
    /// A bandwidth that several share.
    Bandwidth {
        /// All of it, in bytes per second.
        #[arg(long, value_name = "BYTES/s", value_parser = quantity, allow_hyphen_values = true)]
        total: f64,
        /// What each further user takes from all: 0 for memory and flash, some hundredths for a spinning disk.
        #[arg(long, value_name = "SHARE", value_parser = quantity, default_value = "0", allow_hyphen_values = true)]
        contention: f64,
        /// How many use it.
        #[arg(long, value_name = "N")]
        users: u32,
        /// What one would use alone.
        #[arg(long, value_name = "BYTES/s", value_parser = quantity, allow_hyphen_values = true)]
        demand: Option<f64>,
    },
    /// What page-locked memory gains and takes.
    Pinning {
        /// Size of a batch.
        #[arg(long, value_name = "BYTES", value_parser = quantity, allow_hyphen_values = true)]
        batch_bytes: f64,
        /// Batches that are locked at a time.
        #[arg(long, value_name = "N", default_value_t = 2)]
        depth: u32,
        /// Bandwidth to the device from page-locked memory.
        #[arg(long, value_name = "BYTES/s", value_parser = quantity, default_value = "24GB/s", allow_hyphen_values = true)]
        pinned: f64,
        /// Bandwidth to the device from ordinary memory.
        #[arg(long, value_name = "BYTES/s", value_parser = quantity, default_value = "8GB/s", allow_hyphen_values = true)]
        pageable: f64,
        /// The training step beside which the copy runs, if it does.
        #[arg(long, value_name = "TIME", value_parser = quantity, allow_hyphen_values = true)]
        step: Option<f64>,
        /// Memory of the machine.
        #[arg(long, value_name = "BYTES", value_parser = quantity, allow_hyphen_values = true)]
        memory: f64,
    },
    /// What loaders that `feedline bench` measured would do at another setting.
    Predict(PredictArguments),
    /// Run a loader on a virtual clock: hundreds of workers, ranks, slow storage.
    Simulate {
        /// Settings of the simulation; docs/model.md tells them.
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
    },
}

/// Arrivals and what one server does.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Rates {
    /// How many come per second.
    #[arg(long, value_name = "RATE", value_parser = quantity, allow_hyphen_values = true)]
    pub(crate) arrival: f64,
    /// How many one server does per second.
    #[arg(long, value_name = "RATE", value_parser = quantity, allow_hyphen_values = true)]
    pub(crate) service: f64,
}

/// A share of serial work.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Scaling {
    /// Share that cannot be shared out.
    #[arg(long, value_name = "SHARE", value_parser = quantity, allow_hyphen_values = true)]
    pub(crate) serial: f64,
    /// How many workers.
    #[arg(long, value_name = "N")]
    pub(crate) workers: u32,
}

/// A loader and its loop.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LoadingArguments {
    /// How many workers.
    #[arg(long, value_name = "N")]
    pub(crate) workers: u32,
    /// Samples of a batch.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) batch_size: u32,
    /// Batches read ahead.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) prefetch: u32,
    /// What a sample costs a worker.
    #[arg(long, value_name = "TIME", value_parser = quantity, allow_hyphen_values = true)]
    pub(crate) cost: f64,
    /// Standard deviation of that over its mean.
    #[arg(long, value_name = "X", value_parser = quantity, default_value = "0.5", allow_hyphen_values = true)]
    pub(crate) spread: f64,
    /// The training step.
    #[arg(long, value_name = "TIME", value_parser = quantity, default_value = "0", allow_hyphen_values = true)]
    pub(crate) step: f64,
}

/// Measurements, and what is to be other.
#[derive(Clone, Debug, Args)]
pub(crate) struct PredictArguments {
    /// Folder that `feedline bench workers` or `grid` wrote.
    #[arg(value_name = "DIR")]
    pub(crate) results: PathBuf,
    /// How many workers. Default: one for each core.
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u32>,
    /// Samples of a batch. Default: as measured.
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<u32>,
    /// Batches ahead for each worker. Default: as measured.
    #[arg(long, value_name = "N")]
    pub(crate) prefetch: Option<u32>,
    /// The training step. Default: as measured.
    #[arg(long, value_name = "TIME", value_parser = quantity, allow_hyphen_values = true)]
    pub(crate) step: Option<f64>,
}

/// `TIME[:SPREAD[:WORKERS]]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageText {
    pub(crate) time: f64,
    pub(crate) spread: f64,
    pub(crate) workers: u32,
}

impl std::str::FromStr for StageText {
    type Err = String;

    fn from_str(text: &str) -> Result<StageText, String> {
        let mut parts = text.split(':');
        let time = quantity(parts.next().unwrap_or_default()).map_err(|error| error.to_string())?;
        let spread = parts.next().map_or(Ok(1.0), quantity).map_err(|error| error.to_string())?;
        let workers = match parts.next() {
            None => 1,
            Some(part) => part.parse().map_err(|_| format!("`{part}` is no number of workers"))?,
        };
        match parts.next() {
            None => Ok(StageText { time, spread, workers }),
            Some(_) => Err("write it as TIME, TIME:SPREAD or TIME:SPREAD:WORKERS".into()),
        }
    }
}
