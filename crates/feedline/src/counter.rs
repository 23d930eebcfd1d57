//! A count on standard error while something long is opened: files of a folder, bytes of shards.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how many there are so far, and how fast they come. Without a terminal nothing is shown.
///
/// ```
/// let mut counter = feedline::Counter::new("files");
/// counter.show(100);
/// counter.show(250);
/// ```
#[derive(Debug)]
pub struct Counter {
    bar: ProgressBar,
}

impl Counter {
    /// A count of `what`: files, bytes read.
    #[must_use]
    pub fn new(what: &str) -> Counter {
        Counter::drawn_to(ProgressDrawTarget::stderr(), what)
    }

    fn drawn_to(target: ProgressDrawTarget, what: &str) -> Counter {
        let style = ProgressStyle::with_template("{spinner} {human_pos} {msg}, {per_sec}")
            .expect("the template is a constant that the tests have seen");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        bar.set_message(what.to_string());
        Counter { bar }
    }

    /// There are `count` by now.
    pub fn show(&mut self, count: u64) {
        self.bar.set_position(count);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // What comes next is not about opening any more.
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn the_count_is_shown_while_it_grows_and_gone_afterwards() {
        let screen = InMemoryTerm::new(3, 80);
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let mut counter = Counter::drawn_to(target, "files");
        counter.show(1_234_567);
        counter.bar.tick();
        assert!(screen.contents().contains("1,234,567 files"), "{}", screen.contents());
        drop(counter);
        assert_eq!(screen.contents(), "");
    }
}
