//! Progress in a log: a line now and then.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

/// Often enough to see that something goes on, seldom enough not to fill the log.
const EVERY: Duration = Duration::from_secs(10);

/// Writes lines, at most one in a while.
pub(crate) struct LogLines {
    to: Box<dyn Write + Send>,
    every: Duration,
    last: Instant,
}

impl fmt::Debug for LogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("every", &self.every).finish_non_exhaustive()
    }
}

impl LogLines {
    pub(crate) fn to_stderr() -> LogLines {
        LogLines { to: Box::new(std::io::stderr()), every: EVERY, last: Instant::now() }
    }

    /// Whether the last line is long enough ago, or the beginning if there was none.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= self.every
    }

    pub(crate) fn write(&mut self, now: Instant, text: &str) {
        self.last = now;
        // In one piece, because other processes may write there too. A log that cannot be written to is
        // no reason to stop.
        let _ = self.to.write_all(format!("feedline: {text}\n").as_bytes());
    }
}

/// A span of time as clocks show it: `0:07`, `12:34`, `1:02:03`.
pub(crate) fn clock(span: Duration) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written so far.
    #[derive(Clone, Default)]
    pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl LogLines {
        pub(crate) fn kept(every: Duration) -> (LogLines, Written) {
            let written = Written::default();
            (LogLines { to: Box::new(written.clone()), every, last: Instant::now() }, written)
        }
    }

    #[test]
    fn spans_read_as_on_a_clock() {
        let shown = |seconds: f64| clock(Duration::from_secs_f64(seconds));
        assert_eq!([shown(0.2), shown(59.6), shown(754.0)], ["0:00", "1:00", "12:34"]);
        assert_eq!(shown(3723.0), "1:02:03");
    }
}
