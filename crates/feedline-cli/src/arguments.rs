//! What can be written on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, ValueEnum};
use feedline_bench::generate::PhantomFormat;
use feedline_bench::{CommandSide, Requirement};

use crate::model::arguments::ModelArguments;

/// Feeds accelerators: measures data loaders and shows what they do.
#[derive(Debug, Parser)]
#[command(name = "feedline", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(crate) color: ColorOption,

    /// Show no progress.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum ColorOption {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Bench(Bench),
    Generate(Generate),
    Measure(Measure),
    Model(ModelArguments),
    Report(ReportArguments),
    Show(Show),
}

/// Run one of the published experiments on data loading, with a report.
///
/// Results are written as they come; an interrupted run goes on when the same command is given again.
/// The table goes to standard output, the report with charts to the folder of results.
#[derive(Debug, Args)]
#[command(after_help = "Examples: feedline bench workers --quick\n          \
    feedline bench workers --workers 0,1,2,4 --set delay_ms=5\n          \
    feedline bench my-study.toml --out results/mine\n\n\
    Exit codes: 0 all is well, 1 outputs differ, 2 usage or files, 3 a loader failed, 130 interrupted.")]
pub(crate) struct Bench {
    /// The experiment, or a file of settings: `experiment = "workers"` and what differs from its defaults.
    #[arg(value_name = "NAME|FILE.toml", required_unless_present = "list")]
    pub(crate) what: Option<String>,

    /// List the experiments.
    #[arg(long)]
    pub(crate) list: bool,

    /// Smaller sizes, to finish in about a minute on two cores.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Folder of the results. Default: results/NAME.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Forget what is in the folder of results and start over.
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Print a JSON object instead of the table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Folder of data to use instead of generated data.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The interpreter that runs loaders written in Python.
    #[arg(long, value_name = "PATH", env = "FEEDLINE_PYTHON", default_value = "python3")]
    pub(crate) python: String,

    /// Numbers of workers, e.g. 0,1,2,4.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub(crate) workers: Option<String>,

    /// Loaders that take part, e.g. torch,feedline.
    #[arg(long, value_name = "LIST")]
    pub(crate) contestants: Option<String>,

    /// How often every point is measured.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) rounds: Option<String>,

    /// Any setting of the experiment, e.g. batch_size=32 or shape=[3,64,64]. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
}

/// Make data to measure with, the same for the same seed.
#[derive(Debug, Args)]
#[command(after_help = "Examples: feedline generate images --count 512 --classes 4\n          \
    feedline generate volumes --size 512x512x200 --format nii.gz --count 8\n          \
    feedline generate volumes --layout nnunet --format nii.gz --out Dataset001_Bodies")]
pub(crate) struct Generate {
    /// What to make.
    #[arg(value_enum)]
    pub(crate) kind: DataKind,

    /// Folder to make it in. Default: named after what is made.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// How many samples. Default: 2048, or 32 volumes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// What every pixel and every word depends on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Images: folders that pictures are spread over. Default: 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) classes: Option<u64>,

    /// Volumes: voxels along x, y and z. Default: 128x128x64.
    #[arg(long, value_name = "XxYxZ")]
    pub(crate) size: Option<Three<u32>>,

    /// Volumes: millimetres from voxel to voxel along x, y and z. Default: 0.8x0.8x2.5.
    #[arg(long, value_name = "XxYxZ")]
    pub(crate) spacing: Option<Three<f64>>,

    /// Volumes: nrrd (by gzip), nrrd-raw, nii.gz or nii. Default: nrrd.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<PhantomFormat>,

    /// Volumes: two folders, or those of nnU-Net with its dataset.json. Default: folders.
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutOption>,

    /// Reviews: how they are laid out. Default: folders.
    #[arg(long, value_enum)]
    pub(crate) form: Option<ReviewForm>,
}

/// How `reviews` are laid out; the first half is for training, the second for testing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewForm {
    /// A file each in train/pos, train/neg, test/pos and test/neg, as IMDB's.
    Folders,
    /// A line each in train.txt and test.txt, with train-labels.npy and test-labels.npy.
    Lines,
    /// train.csv and test.csv, with the columns text, label and stars.
    Csv,
    /// train.jsonl and test.jsonl, with text, label, meta.stars and meta.words.
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataKind {
    /// JPEG files like photographs, about 500 x 375 pixels and 117 KB, in class folders.
    Images,
    /// One .npy file of float32 (3, 224, 224) for each sample.
    Preprocessed,
    /// Film reviews of about 230 words, positive or negative, as IMDB's.
    Reviews,
    /// Bodies as computed tomography shows them (int16, Hounsfield units), each with a mask of its organs.
    Volumes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutOption {
    /// images/case_0000.nrrd and masks/case_0000.nrrd.
    Folders,
    /// imagesTr/case_0000_0000.nrrd, labelsTr/case_0000.nrrd and dataset.json.
    Nnunet,
}

/// Three numbers with an x between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Three<T>(pub(crate) [T; 3]);

impl<T: FromStr + Copy> FromStr for Three<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<T>> = text.split('x').map(|it| it.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some([x, y, z]) => Ok(Self([*x, *y, *z])),
            _ => Err("write it as three numbers, along x, y and z, e.g. 128x128x64".into()),
        }
    }
}

/// Redraw the report of a folder of results, or say what changed between two.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Folder that `feedline bench` wrote, or a folder of such folders.
    #[arg(value_name = "DIR")]
    pub(crate) first: PathBuf,

    /// A second one: says what changed from the first to it, beyond noise.
    #[arg(value_name = "DIR")]
    pub(crate) second: Option<PathBuf>,

    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw samples to look at: of volumes three planes with the mask over them.
///
/// Volumes (NRRD, NIfTI, MetaImage), folders of pictures, tar shards and .npy files. Nothing is opened: the command
/// says where the picture is.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples: feedline show images/ --mask masks/ --window=-160,240\n          \
    feedline show Dataset001_Bodies --count 4 --out bodies.html\n          \
    feedline show 'shards/train-{000..015}.tar' --count 20"
)]
pub(crate) struct Show {
    /// A folder, a volume, a table of volumes, a shard, or a pattern of shards in quotes.
    pub(crate) source: String,

    /// Folder of the masks, under the same names; of one volume its file.
    #[arg(long, value_name = "PATH")]
    pub(crate) mask: Option<PathBuf>,

    /// The file to write: a picture (.png) or a page (.html).
    #[arg(long, value_name = "FILE", default_value = "feedline-show.png")]
    pub(crate) out: PathBuf,

    /// How many samples, spread over all there are.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,

    /// The numbers of the samples, from 0, e.g. 3,17.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "count")]
    pub(crate) which: Option<Vec<u64>>,

    /// The longest side of a picture in pixels.
    #[arg(long, value_name = "N", default_value_t = 192, value_parser = clap::value_parser!(u32).range(16..=4096))]
    pub(crate) size: u32,

    /// Samples in a row.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) columns: Option<u32>,

    /// The numbers that are black and white in volumes, e.g. -160,240. Default: without the outermost 0.5 %.
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true)]
    pub(crate) window: Option<Window>,

    /// Print what was shown as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// The interpreter that has the feedline package.
    #[arg(long, value_name = "PATH", env = "FEEDLINE_PYTHON", default_value = "python3")]
    pub(crate) python: String,
}

/// `LOW,HIGH`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window(pub(crate) [f64; 2]);

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(',').and_then(|(low, high)| {
            Some((low.trim().parse::<f64>().ok()?, high.trim().parse::<f64>().ok()?))
        });
        match numbers {
            Some((low, high)) if low.is_finite() && high.is_finite() && low < high => {
                Ok(Self([low, high]))
            }
            _ => Err("write it as two numbers, the lower one first, e.g. -160,240".into()),
        }
    }
}

/// Run commands in interleaved rounds and compare them.
///
/// The first command is the baseline. Commands are split like a shell would, but run without one.
/// CPU time and memory cover the whole process tree. If the last line that a command prints is a JSON
/// object, its `items`, `bytes`, `digest`, `seconds` and `figures` are taken at their word; otherwise
/// all that it prints is compared. The table goes to standard output.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: feedline measure --rounds 9 old='./load --workers 2' new='./load --threads 2'\n\n\
    Exit codes: 0 all is well, 1 outputs differ or --strict was not satisfied,\n\
    2 usage or a file that cannot be read or written, 3 a command failed."
)]
pub(crate) struct Measure {
    /// Rounds that count; each runs every command once.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Rounds before those, left out of the figures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u32,

    /// Heading of the table.
    #[arg(long, value_name = "TEXT", default_value = "Measurement")]
    pub(crate) title: String,

    /// What the commands count, in the plural.
    #[arg(long, value_name = "NAME", default_value = "runs")]
    pub(crate) unit: String,

    /// Write every run to this file as a JSON line, as it comes.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Draw the tables of a file that `--out` wrote, without running anything.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rounds", "warmup", "title", "unit", "out", "unchecked", "sides"]
    )]
    pub(crate) from: Option<PathBuf>,

    /// Print a JSON object per measurement instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the table to this file, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Do not compare what the commands print.
    #[arg(long)]
    pub(crate) unchecked: bool,

    /// What must be reached, e.g. `new/old>=1.2`, `cpu:new/old<=0.9`, `first_batch_s:new<=0.25`.
    /// Quantities: rate (if none is named), seconds, seconds_per_item, cpu, cpu_per_item, pss, or any
    /// figure that a command reports. Can be repeated.
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) require: Vec<Requirement>,

    /// End with exit code 1 if a requirement is not reached.
    #[arg(long)]
    pub(crate) strict: bool,

    /// The commands to compare, each with a name for the table.
    #[arg(value_name = "NAME=COMMAND", required_unless_present = "from")]
    pub(crate) sides: Vec<Side>,
}

/// `NAME=COMMAND`.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) command: CommandSide,
}

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("write it as NAME=COMMAND")?;
        let name = name.trim();
        if name.is_empty() {
            return Err("the name before `=` is empty".into());
        }
        let mut words = shell_words::split(command)
            .map_err(|error| format!("cannot split the command: {error}"))?
            .into_iter();
        let program = words.next().ok_or("the command after `=` is empty")?;
        Ok(Self { name: name.into(), command: CommandSide::new(program).args(words) })
    }
}
