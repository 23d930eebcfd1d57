//! How long things take, or how many bytes they have, in a simulation.

use super::SimulationError;

/// A distribution of costs: seconds of a stage or a step, or bytes of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    shape: Law,
    /// A share of the samples costs so many times as much.
    stragglers: (f64, f64),
}

#[derive(Clone, Debug, PartialEq)]
enum Law {
    Constant(f64),
    Uniform(f64, f64),
    Exponential(f64),
    /// Mean and deviation of the logarithm.
    LogNormal(f64, f64),
    Recorded(Vec<f64>),
    Replayed(Vec<f64>),
}

impl Cost {
    /// Always the same.
    pub fn constant(value: f64) -> Result<Cost, SimulationError> {
        Ok(Cost::of(Law::Constant(not_negative("a constant cost", value)?)))
    }

    /// From `least` to `most`, each as likely.
    pub fn uniform(least: f64, most: f64) -> Result<Cost, SimulationError> {
        let least = not_negative("the least cost", least)?;
        let most = not_negative("the largest cost", most)?;
        Ok(Cost::of(Law::Uniform(least.min(most), least.max(most))))
    }

    /// With this mean and a coefficient of variation of 1.
    pub fn exponential(mean: f64) -> Result<Cost, SimulationError> {
        Ok(Cost::of(Law::Exponential(not_negative("the mean cost", mean)?)))
    }

    /// With this mean and `spread` (standard deviation over mean): what measured times of samples mostly look like.
    pub fn log_normal(mean: f64, spread: f64) -> Result<Cost, SimulationError> {
        let mean = not_negative("the mean cost", mean)?;
        let spread = not_negative("the spread of a cost", spread)?;
        if mean == 0.0 {
            return Cost::constant(0.0);
        }
        let variance = (spread * spread).ln_1p();
        Ok(Cost::of(Law::LogNormal(mean.ln() - variance / 2.0, variance.sqrt())))
    }

    /// Drawn from values that were measured.
    pub fn recorded(values: Vec<f64>) -> Result<Cost, SimulationError> {
        Ok(Cost::of(Law::Recorded(measured(values)?)))
    }

    /// Values that were measured, each in its place: the first sample of an epoch (or batch, or step) costs the
    /// first, the next one the second. After the last one it begins again.
    pub fn replayed(values: Vec<f64>) -> Result<Cost, SimulationError> {
        Ok(Cost::of(Law::Replayed(measured(values)?)))
    }

    /// Lets a share of the samples cost `factor` times as much.
    pub fn with_stragglers(mut self, share: f64, factor: f64) -> Result<Cost, SimulationError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(SimulationError::NotAShare { what: "the share of stragglers", got: share });
        }
        self.stragglers = (share, not_negative("the stragglers' factor", factor)?);
        Ok(self)
    }

    fn of(shape: Law) -> Cost {
        Cost { shape, stragglers: (0.0, 1.0) }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let mean = match &self.shape {
            Law::Constant(value) => *value,
            Law::Uniform(least, most) => f64::midpoint(*least, *most),
            Law::Exponential(mean) => *mean,
            Law::LogNormal(mu, sigma) => (mu + sigma * sigma / 2.0).exp(),
            Law::Recorded(values) | Law::Replayed(values) => {
                values.iter().sum::<f64>() / values.len() as f64
            }
        };
        mean * (1.0 + self.stragglers.0 * (self.stragglers.1 - 1.0))
    }

    /// The cost of what has this place and key: the same for the same key, whatever was drawn before.
    pub(super) fn draw(&self, key: u64, place: u64) -> f64 {
        let mut stream = SplitMix(key);
        let mut value = match &self.shape {
            Law::Constant(value) => *value,
            Law::Uniform(least, most) => least + (most - least) * stream.uniform(),
            Law::Exponential(mean) => -(1.0 - stream.uniform()).ln() * mean,
            Law::LogNormal(mu, sigma) => (mu + sigma * stream.normal()).exp(),
            Law::Recorded(values) => values[(stream.uniform() * values.len() as f64) as usize],
            Law::Replayed(values) => values[(place % values.len() as u64) as usize],
        };
        if self.stragglers.0 > 0.0 && stream.uniform() < self.stragglers.0 {
            value *= self.stragglers.1;
        }
        value
    }
}

/// SplitMix64: as good as needed, and begun at any key for nothing.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// One key of several numbers.
pub(super) fn key(numbers: [u64; 4]) -> u64 {
    numbers.into_iter().fold(0, |key, number| SplitMix(key ^ number).next())
}

fn measured(values: Vec<f64>) -> Result<Vec<f64>, SimulationError> {
    if values.is_empty() {
        return Err(SimulationError::Empty { what: "the recorded costs" });
    }
    for value in &values {
        not_negative("a recorded cost", *value)?;
    }
    Ok(values)
}

fn not_negative(what: &'static str, got: f64) -> Result<f64, SimulationError> {
    if got.is_finite() && got >= 0.0 {
        Ok(got)
    } else {
        Err(SimulationError::NotACost { what, got })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn mean_of_draws(cost: &Cost) -> (f64, f64) {
        let n = 200_000u64;
        let draws: Vec<f64> = (0..n).map(|i| cost.draw(key([7, i, 0, 0]), i)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn draws_have_the_mean_and_the_spread_that_were_asked_for() {
        for (cost, mean, spread) in [
            (Cost::constant(3.0).unwrap(), 3.0, 0.0),
            (Cost::uniform(1.0, 3.0).unwrap(), 2.0, (1.0f64 / 3.0).sqrt() / 2.0),
            (Cost::exponential(0.01).unwrap(), 0.01, 1.0),
            (Cost::log_normal(5.0, 0.7).unwrap(), 5.0, 0.7),
            (
                Cost::recorded(vec![1.0, 2.0, 6.0]).unwrap(),
                3.0,
                14.0f64.sqrt() / 3.0 / 3.0f64.sqrt(),
            ),
        ] {
            let (drawn, deviation) = mean_of_draws(&cost);
            assert!((drawn / mean - 1.0).abs() < 0.02, "{cost:?}: {drawn}");
            assert!((cost.mean() / mean - 1.0).abs() < 1e-9, "{cost:?}");
            assert!((deviation - spread).abs() < 0.03 * spread.max(0.01), "{cost:?}: {deviation}");
        }
    }

    #[test]
    fn replayed_costs_come_in_their_order() {
        let cost = Cost::replayed(vec![1.0, 2.0, 6.0]).unwrap();
        let draws: Vec<f64> = (0..5).map(|place| cost.draw(99, place)).collect();
        assert_eq!((draws, cost.mean()), (vec![1.0, 2.0, 6.0, 1.0, 2.0], 3.0));
        assert!(Cost::replayed(Vec::new()).is_err() && Cost::replayed(vec![-1.0]).is_err());
    }

    #[test]
    fn stragglers_cost_as_many_times_as_said() {
        let cost = Cost::constant(1.0).unwrap().with_stragglers(0.05, 50.0).unwrap();
        assert!((cost.mean() - 3.45).abs() < 1e-9);
        assert!((mean_of_draws(&cost).0 / 3.45 - 1.0).abs() < 0.03);
    }

    #[test]
    fn what_cannot_be_a_cost_is_refused() {
        assert!(Cost::constant(f64::NAN).is_err() && Cost::exponential(-1.0).is_err());
        let message = Cost::recorded(Vec::new()).unwrap_err().to_string();
        assert_eq!(message, "the recorded costs are empty; give at least one");
        assert!(Cost::constant(1.0).unwrap().with_stragglers(1.5, 2.0).is_err());
    }
}
