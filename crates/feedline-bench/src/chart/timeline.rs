//! Who worked on which sample when.

use super::canvas::{Anchor, Canvas};
use super::scale::{AxisKind, Ruler, Scale};
use crate::experiment::Unit;
use crate::results::Stretch;

/// A row for each worker, a box for each sample.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The boxes.
    pub stretches: Vec<Stretch>,
    /// Samples per batch: samples of one batch have one colour.
    pub batch_size: u64,
    /// When batches reached the consumer, in seconds.
    pub arrivals_s: Vec<f64>,
}

impl Timeline {
    pub(super) fn draw(&self, canvas: &mut Canvas) {
        let mut workers: Vec<u32> = self.stretches.iter().map(|it| it.0).collect();
        workers.sort_unstable();
        workers.dedup();
        let rows = workers.len().max(1);
        let (left, right, top) = (64.0, canvas.width - 12.0, canvas.top + 24.0);
        let height = (canvas.height - top - 44.0).min(34.0 * rows as f64);
        let bottom = top + height;
        let row_height = height / rows as f64;
        let ends = self.stretches.iter().map(|it| it.3);
        let end = ends.fold(0.0, f64::max);
        let ruler = Ruler::new(AxisKind::Linear, "seconds since the start", Unit::Plain);
        let room = ((right - left) / 60.0) as usize;
        let x = Scale::new(&ruler, [0.0, end].into_iter(), (left, right), room);
        for (value, text) in &x.ticks {
            let at = x.place(*value);
            canvas.line("gr", (at, top), (at, bottom));
            canvas.text("n", (at, bottom + 16.0), Anchor::Middle, text);
        }
        for (row, worker) in workers.iter().enumerate() {
            let middle = top + row_height * (row as f64 + 0.5) + 4.0;
            let name = if rows == 1 && *worker == 0 {
                "worker".into()
            } else {
                format!("worker {worker}")
            };
            canvas.text("n", (left - 7.0, middle), Anchor::End, &name);
        }
        for Stretch(worker, sample, from, to) in &self.stretches {
            let row = workers.binary_search(worker).unwrap_or(0);
            let (x1, x2) = (x.place(*from), x.place(*to));
            let y = top + row_height * row as f64;
            let batch = sample / self.batch_size.max(1);
            let tip = format!(
                "sample {sample} of batch {batch}: worker {worker}, {} from {}",
                Unit::Seconds.text(to - from),
                Unit::Seconds.text(*from)
            );
            let frame = (x1, y + 1.5, (x2 - x1 - 0.4).max(0.6), row_height - 3.0);
            canvas.rect(&format!("f{}", batch % 7), frame, r#" fill-opacity=".85""#, &tip);
        }
        let mut written = f64::NEG_INFINITY;
        for (batch, at) in self.arrivals_s.iter().enumerate().filter(|(_, at)| **at <= end) {
            let at = x.place(*at);
            canvas.line(&format!("l thin s{}", batch % 7), (at, top - 8.0), (at, bottom));
            // Numbers that would touch the one before are left out.
            let text = batch.to_string();
            let half = canvas.text_width(&text) / 2.0;
            if at - half > written + 3.0 {
                canvas.text("n", (at, top - 11.0), Anchor::Middle, &text);
                written = at + half;
            }
        }
        canvas.text("t", ((left + right) / 2.0, bottom + 34.0), Anchor::Middle, &ruler.label);
        canvas.height = bottom + 42.0;
    }
}
