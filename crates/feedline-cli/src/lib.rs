//! The `feedline` command, as a function.
//!
//! [`run`] takes the arguments and gives back the exit code. It reads no global state of the process
//! besides the environment variables listed below and never ends the process, so that the binary of
//! this crate and the Python package share it.
//!
//! ```
//! assert_eq!(feedline_cli::run(["feedline", "--version"].map(Into::into)), 0);
//! ```
//!
//! | exit code | meaning |
//! | ---: | --- |
//! | 0 | all is well |
//! | 1 | outputs differ, or `--strict` and a requirement was not reached |
//! | 2 | the command was not understood, or a file could not be read or written |
//! | 3 | a side failed |
//! | 130 | Ctrl-C during an experiment; what was measured is kept |
//!
//! | environment variable | effect |
//! | --- | --- |
//! | `NO_COLOR` | no colours, unless `--color always` |
//! | `FEEDLINE_PYTHON` | the interpreter for loaders in Python, unless `--python` names one |
//! | `XDG_CACHE_HOME`, `HOME` | generated data is kept below `feedline/data` there |
//! | `CLICOLOR_FORCE` | colours even without a terminal, unless `--color never` |
//!
//! Standard output is data, standard error is talk. A reader that closes standard output early is no
//! error.

use std::ffi::OsString;

use clap::Parser;

mod arguments;
mod bench;
mod exit;
mod generate;
mod measure;
mod model;
mod printer;
mod progress;
mod report;
mod show;

use arguments::{Arguments, Subcommand};
use exit::{Exit, Trouble};
use printer::Printer;

/// Runs the command with the given arguments, the program's name first, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(answer) => return Printer::default().answer(&answer).code(),
    };
    let printer = Printer::new(arguments.color, arguments.quiet);
    let result = match arguments.subcommand {
        Subcommand::Bench(arguments) => bench::bench(arguments, &printer),
        Subcommand::Generate(arguments) => generate::generate(arguments, &printer),
        Subcommand::Measure(arguments) => measure::measure(arguments, &printer),
        Subcommand::Model(arguments) => model::model(arguments, &printer),
        Subcommand::Report(arguments) => report::report(arguments, &printer),
        Subcommand::Show(arguments) => show::show(arguments, &printer),
    };
    let exit = result.unwrap_or_else(|trouble| {
        printer.trouble(&trouble);
        trouble.exit
    });
    exit.code()
}
