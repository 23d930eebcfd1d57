//! How good predictions are.

use serde::Serialize;

use super::Foretold;

/// Below this share of waiting a loader is fast enough, and how fast exactly makes no difference.
const WAITS: f64 = 0.05;

/// Errors at points that calibration did not see and where the loop waits more than 5 % of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// How many points.
    pub points: usize,
    /// The mean error of the rate: 0.05 is 5 %.
    pub rate_mean: f64,
    /// The largest.
    pub rate_worst: f64,
    /// The mean error of the share of waiting.
    pub waiting_mean: f64,
    /// The largest.
    pub waiting_worst: f64,
}

impl Accuracy {
    /// Of points, those that count. `None` if none does.
    pub fn of<'a>(points: impl IntoIterator<Item = &'a Foretold>) -> Option<Accuracy> {
        let counts = |it: &&Foretold| it.held_out && it.observation.waiting_share() > WAITS;
        let counting: Vec<&Foretold> = points.into_iter().filter(counts).collect();
        if counting.is_empty() {
            return None;
        }
        let over = |of: fn(&Foretold) -> f64| {
            let errors = counting.iter().map(|it| of(it).abs());
            let (sum, worst) = errors
                .fold((0.0, 0.0), |(sum, worst), error| (sum + error, f64::max(worst, error)));
            (sum / counting.len() as f64, worst)
        };
        let (rate_mean, rate_worst) = over(Foretold::rate_error);
        let (waiting_mean, waiting_worst) = over(Foretold::waiting_error);
        Some(Accuracy {
            points: counting.len(),
            rate_mean,
            rate_worst,
            waiting_mean,
            waiting_worst,
        })
    }
}
