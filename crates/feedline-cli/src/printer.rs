//! What reaches standard output and standard error, decided once.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use indicatif::ProgressDrawTarget;

use crate::arguments::ColorOption;
use crate::{Exit, Trouble};

/// The only way out for text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    color: ColorChoice,
    quiet: bool,
}

impl Default for Printer {
    fn default() -> Self {
        Self::new(ColorOption::Auto, false)
    }
}

impl Printer {
    pub(crate) fn new(color: ColorOption, quiet: bool) -> Self {
        let color = match color {
            ColorOption::Auto => ColorChoice::Auto,
            ColorOption::Always => ColorChoice::Always,
            ColorOption::Never => ColorChoice::Never,
        };
        Self { color, quiet }
    }

    /// Prints data to standard output. A reader who has seen enough and closed the pipe is no error.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        let mut out = AutoStream::new(io::stdout(), self.color).lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// Tells what went wrong, why, and what to do about it.
    pub(crate) fn trouble(&self, trouble: &Trouble) {
        let error = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let hint = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        let mut text = format!("{error}error:{error:#} {}\n", trouble.error);
        for cause in trouble.error.chain().skip(1) {
            text.push_str(&format!("  caused by: {}\n", cause.to_string().replace('\n', "\n    ")));
        }
        for (index, advice) in trouble.hints.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            text.push_str(&format!("{gap}{hint}hint:{hint:#} {advice}\n"));
        }
        self.talk(&text);
    }

    /// Passes on what the parser of arguments has to say: help, version, or what is wrong.
    pub(crate) fn answer(&self, answer: &clap::Error) -> Exit {
        let text = answer.render().ansi().to_string();
        if answer.use_stderr() {
            self.talk(&text);
            return Exit::Usage;
        }
        match self.data(&text) {
            Ok(()) => Exit::Success,
            Err(_) => Exit::Usage,
        }
    }

    /// Where a progress bar is drawn: on the terminal behind standard error, or nowhere.
    pub(crate) fn bar_target(&self) -> ProgressDrawTarget {
        if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
    }

    /// Says something about what goes on, unless told to be quiet.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.talk(&format!("{text}\n"));
        }
    }

    fn talk(&self, text: &str) {
        // If even standard error is closed there is nobody left to tell.
        let _ = AutoStream::new(io::stderr(), self.color).lock().write_all(text.as_bytes());
    }
}
