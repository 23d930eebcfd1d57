//! A count on standard error while something long is opened: files of a folder, bytes of shards.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::lines::{LogLines, clock};

/// Shows how many there are so far, and how fast they come. Where standard error is no terminal, a line
/// says so every ten seconds, and at the end if it took that long.
///
/// ```
/// let mut counter = feedline::Counter::new("files");
/// counter.show(100);
/// counter.show(250);
/// ```
#[derive(Debug)]
pub struct Counter {
    display: CounterDisplay,
}

#[derive(Debug)]
enum CounterDisplay {
    Bar(ProgressBar),
    Log { lines: LogLines, what: String, began: Instant, count: u64, said: bool },
}

impl Counter {
    /// A count of `what`: files, bytes read.
    #[must_use]
    pub fn new(what: &str) -> Counter {
        let target = ProgressDrawTarget::stderr();
        if target.is_hidden() {
            Counter::logged(LogLines::to_stderr(), what)
        } else {
            Counter::drawn_to(target, what)
        }
    }

    fn logged(lines: LogLines, what: &str) -> Counter {
        let (what, began) = (what.to_string(), Instant::now());
        Counter { display: CounterDisplay::Log { lines, what, began, count: 0, said: false } }
    }

    fn drawn_to(target: ProgressDrawTarget, what: &str) -> Counter {
        let style = ProgressStyle::with_template("{spinner} {human_pos} {msg}, {per_sec}")
            .expect("the template is a constant that the tests have seen");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        bar.set_message(what.to_string());
        Counter { display: CounterDisplay::Bar(bar) }
    }

    /// There are `count` by now.
    pub fn show(&mut self, count: u64) {
        match &mut self.display {
            CounterDisplay::Bar(bar) => bar.set_position(count),
            CounterDisplay::Log { lines, what, began, count: last, said } => {
                let now = Instant::now();
                *last = count;
                if lines.is_due(now) {
                    lines.write(now, &format!("{count} {what} in {}", clock(now - *began)));
                    *said = true;
                }
            }
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        match &mut self.display {
            // What comes next is not about opening any more.
            CounterDisplay::Bar(bar) => bar.finish_and_clear(),
            CounterDisplay::Log { lines, what, began, count, said } => {
                if *said {
                    let now = Instant::now();
                    lines.write(now, &format!("{count} {what} in {}, opened", clock(now - *began)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn the_count_is_shown_while_it_grows_and_gone_afterwards() {
        let screen = InMemoryTerm::new(3, 80);
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let mut counter = Counter::drawn_to(target, "files");
        counter.show(1_234_567);
        let CounterDisplay::Bar(bar) = &counter.display else { panic!("it was given a terminal") };
        bar.tick();
        assert!(screen.contents().contains("1,234,567 files"), "{}", screen.contents());
        drop(counter);
        assert_eq!(screen.contents(), "");
    }

    #[test]
    fn in_a_log_lines_come_now_and_then_and_the_last_one_has_all() {
        let (lines, written) = LogLines::kept(Duration::from_secs(3600));
        let mut counter = Counter::logged(lines, "files");
        counter.show(100);
        drop(counter);
        assert_eq!(written.text(), "", "it was quick, so nobody had to wait");
        let (lines, written) = LogLines::kept(Duration::ZERO);
        let mut counter = Counter::logged(lines, "files");
        counter.show(100);
        counter.show(250);
        drop(counter);
        let expected = ["100 files in 0:00", "250 files in 0:00", "250 files in 0:00, opened"];
        let expected = expected.map(|line| format!("feedline: {line}\n")).concat();
        assert_eq!(written.text(), expected);
    }
}
