//! The `feedline` command from outside, as the built program.

/// `feedline generate`.
mod generate;
/// `feedline measure`.
#[cfg(unix)]
mod measure;
/// `feedline show`.
#[cfg(unix)]
mod show;
/// Help, version, colours, wrong usage.
mod usage;

use std::process::{Command, Output};

/// The built program with the given arguments and without colours from the environment.
fn feedline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// Exit code, standard output and standard error.
fn finish(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        feedline(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (status.code().expect("no signal"), text(stdout), text(stderr))
}
