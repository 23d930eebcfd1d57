//! Scaling laws fitted to measured rates.
//!
//! Both laws say `rate(n) = rate(1) * speedup(n)`. With `x = n - 1` that is
//!
//! ```text
//! n / rate(n) = (1 + contention * x + coherence * n * x) / rate(1)
//! ```
//!
//! which is linear in `1 / rate(1)`, `contention / rate(1)` and `coherence / rate(1)`: least squares need no
//! starting values and find the one optimum. Each equation is weighed by `rate(n) / n`, so that what is
//! minimised is the error of the rates relative to the law's, and a slow point counts as much as a fast one.
//! A coefficient that comes out negative (super-linear scaling, noise) is set to 0 and the others are
//! fitted again.

use crate::argument::{ArgumentError, positive};
use crate::scaling::Usl;

/// A law and how well it fits.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Fit {
    /// The rate of one worker.
    pub single: f64,
    /// How rates grow from there. Without coherence it is Amdahl's law.
    pub law: Usl,
    /// Root of the mean squared relative error: 0.05 says that rates are off by 5 % on average.
    pub error: f64,
    /// How sure the numbers are. `None` if there are no more rates than numbers to find.
    pub margin: Option<Margin>,
}

/// Half the width of the 95 % confidence interval of each number: the truth lies within it 19 times in 20, if the
/// law is the right one and the errors of the rates are independent and of like size.
///
/// From the covariance of the least squares, carried over to the quotients to first order. A number that was set to
/// 0, because it came out negative, has a margin of 0 and nothing is known about it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Margin {
    /// Of the rate of one worker.
    pub single: f64,
    /// Of the share that is done by one at a time.
    pub contention: f64,
    /// Of the cost of each pair.
    pub coherence: f64,
}

impl Fit {
    /// The rate that the law gives for a number of workers.
    pub fn rate(&self, workers: u32) -> Result<f64, ArgumentError> {
        Ok(self.single * self.law.speedup(workers)?)
    }
}

/// Fits Amdahl's law to rates by number of workers. `None` with fewer than two numbers of workers.
///
/// ```
/// use feedline_model::{amdahl, fit_amdahl};
///
/// let rates: Vec<(u32, f64)> = (1..=8).map(|n| (n, 80.0 * amdahl(0.05, n).unwrap())).collect();
/// let fit = fit_amdahl(&rates)?.unwrap();
/// assert!((fit.law.contention() - 0.05).abs() < 1e-9 && (fit.single - 80.0).abs() < 1e-9);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
pub fn fit_amdahl(rates: &[(u32, f64)]) -> Result<Option<Fit>, ArgumentError> {
    fit(rates, &[true, true, false])
}

/// Fits the universal scalability law. `None` with fewer than three numbers of workers.
pub fn fit_usl(rates: &[(u32, f64)]) -> Result<Option<Fit>, ArgumentError> {
    fit(rates, &[true, true, true])
}

fn fit(rates: &[(u32, f64)], free: &[bool; 3]) -> Result<Option<Fit>, ArgumentError> {
    for (workers, rate) in rates {
        positive("workers", f64::from(*workers))?;
        positive("rate", *rate)?;
    }
    let mut counts: Vec<u32> = rates.iter().map(|(workers, _)| *workers).collect();
    counts.sort_unstable();
    counts.dedup();
    if counts.len() < free.iter().filter(|it| **it).count() {
        return Ok(None);
    }
    let mut free = *free;
    loop {
        let equations = normal_equations(rates, &free);
        let Some(found) = solve(equations.0, equations.1) else { return Ok(None) };
        // The worst one first: setting one to 0 may bring another back above it.
        let negative = (1..3).filter(|i| found[*i] < 0.0);
        if let Some(worst) = negative.min_by(|a, b| found[*a].total_cmp(&found[*b])) {
            free[worst] = false;
            continue;
        }
        if found[0] <= 0.0 {
            return Ok(None);
        }
        let single = 1.0 / found[0];
        // A share above 1 says that workers hinder each other more than they help.
        let law = Usl::new((found[1] * single).min(1.0), found[2] * single)?;
        let mut sum = 0.0;
        for (workers, rate) in rates {
            sum += (single * law.speedup(*workers)? / rate - 1.0).powi(2);
        }
        let error = (sum / rates.len() as f64).sqrt();
        let margin = margin(rates, &free, equations.0, &found);
        return Ok(Some(Fit { single, law, error, margin }));
    }
}

/// The 95 % margins of `1 / found[0]`, `found[1] / found[0]` and `found[2] / found[0]`.
fn margin(
    rates: &[(u32, f64)],
    free: &[bool; 3],
    equations: [[f64; 3]; 3],
    found: &[f64; 3],
) -> Option<Margin> {
    let spare =
        rates.len().checked_sub(free.iter().filter(|it| **it).count()).filter(|it| *it > 0)?;
    let squares: f64 = rates
        .iter()
        .map(|(workers, rate)| {
            let row = row(*workers, *rate);
            (1.0 - (0..3).map(|i| row[i] * found[i]).sum::<f64>()).powi(2)
        })
        .sum();
    let variance = squares / spare as f64;
    let mut inverse = [[0.0; 3]; 3];
    for i in (0..3).filter(|i| free[*i]) {
        let mut unit = [0.0; 3];
        unit[i] = 1.0;
        inverse[i] = solve(equations, unit)?;
    }
    let t = t_quantile(spare);
    let quotient = |i: usize| {
        let q = found[i] / found[0];
        let spread = inverse[i][i] - 2.0 * q * inverse[0][i] + q * q * inverse[0][0];
        if free[i] { t * (variance * spread.max(0.0)).sqrt() / found[0] } else { 0.0 }
    };
    let single = t * (variance * inverse[0][0]).sqrt() / (found[0] * found[0]);
    Some(Margin { single, contention: quotient(1), coherence: quotient(2) })
}

/// The 97.5 % quantile of Student's t distribution, from the table.
fn t_quantile(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table it falls to 1.96 about as 2.4 / degrees.
    TABLE.get(degrees - 1).copied().unwrap_or(1.960 + 2.4 / degrees as f64)
}

/// One equation: what the coefficients are multiplied by to give 1.
fn row(workers: u32, rate: f64) -> [f64; 3] {
    let n = f64::from(workers);
    [1.0, n - 1.0, n * (n - 1.0)].map(|term| term * rate / n)
}

/// The normal equations for the coefficients that are free; the others are 0.
fn normal_equations(rates: &[(u32, f64)], free: &[bool; 3]) -> ([[f64; 3]; 3], [f64; 3]) {
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for (workers, rate) in rates {
        let row = row(*workers, *rate);
        for i in 0..3 {
            for j in 0..3 {
                matrix[i][j] += row[i] * row[j];
            }
            right[i] += row[i];
        }
    }
    for i in (0..3).filter(|i| !free[*i]) {
        matrix[i] = [0.0; 3];
        matrix.iter_mut().for_each(|row| row[i] = 0.0);
        matrix[i][i] = 1.0;
        right[i] = 0.0;
    }
    (matrix, right)
}

/// Gaussian elimination with the largest pivot.
fn solve(mut matrix: [[f64; 3]; 3], mut right: [f64; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..3).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (head, value) = (matrix[column], right[column]);
        if head[column].abs() < 1e-12 {
            return None;
        }
        for row in (0..3).filter(|row| *row != column) {
            let factor = matrix[row][column] / head[column];
            matrix[row].iter_mut().zip(head).for_each(|(value, above)| *value -= factor * above);
            right[row] -= factor * value;
        }
    }
    Some([0, 1, 2].map(|i| right[i] / matrix[i][i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amdahl;
    use crate::random::Random;

    fn exact(single: f64, contention: f64, coherence: f64) -> Vec<(u32, f64)> {
        let law = Usl::new(contention, coherence).unwrap();
        [1, 2, 3, 4, 6, 8, 16].map(|n| (n, single * law.speedup(n).unwrap())).to_vec()
    }

    #[test]
    fn a_fit_finds_the_law_that_made_the_rates() {
        for (contention, coherence) in [(0.0, 0.0), (0.1, 0.0), (0.03, 0.002), (0.5, 0.05)] {
            let fit = fit_usl(&exact(123.0, contention, coherence)).unwrap().unwrap();
            assert!((fit.single - 123.0).abs() < 1e-6, "{fit:?}");
            assert!((fit.law.contention() - contention).abs() < 1e-9, "{fit:?}");
            assert!((fit.law.coherence() - coherence).abs() < 1e-9, "{fit:?}");
            assert!(fit.error < 1e-9);
        }
    }

    /// The published table of 8 workers: a brute-force search finds no better law.
    #[test]
    fn no_other_law_has_a_smaller_error() {
        let published = [80.34, 146.84, 204.23, 243.19, 275.86, 309.32, 308.75, 331.83];
        let rates: Vec<(u32, f64)> = (1..).zip(published).collect();
        let cost = |single: f64, law: Usl| -> f64 {
            // What the fit minimises: the error relative to the law's rate.
            rates
                .iter()
                .map(|(n, rate)| (rate / (single * law.speedup(*n).unwrap()) - 1.0).powi(2))
                .sum()
        };
        let fit = fit_usl(&rates).unwrap().unwrap();
        let found = cost(fit.single, fit.law);
        for step in 0..20 * 20 * 20 {
            let (a, b, c) = (step % 20, step / 20 % 20, step / 400);
            let law = Usl::new(f64::from(b) * 0.01, f64::from(c) * 0.001).unwrap();
            assert!(cost(75.0 + f64::from(a), law) >= found - 1e-12);
        }
        assert!(fit.error < 0.03, "{fit:?}");
        let serial = fit_amdahl(&rates).unwrap().unwrap().law.contention();
        assert!((0.05..0.15).contains(&serial), "{serial}");
    }

    #[test]
    fn super_linear_rates_are_fitted_without_negative_shares() {
        let rates = [(1, 100.0), (2, 210.0), (4, 440.0), (8, 900.0)];
        let fit = fit_usl(&rates).unwrap().unwrap();
        assert_eq!((fit.law.contention(), fit.law.coherence()), (0.0, 0.0));
        assert!(fit.single > 100.0);
    }

    /// Rates with errors of 2 %, many times: the margin covers the truth about 19 times in 20.
    #[test]
    fn the_margin_covers_the_truth_nineteen_times_in_twenty() {
        let mut random = Random::new(11);
        let (rounds, mut covered) = (2000, [0u32; 3]);
        for _ in 0..rounds {
            let mut rates = exact(100.0, 0.1, 0.01);
            for (_, rate) in &mut rates {
                // The sum of twelve uniform numbers is nearly normal, with variance 1.
                let normal = (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
                *rate *= 1.0 + 0.02 * normal;
            }
            let fit = fit_usl(&rates).unwrap().unwrap();
            let margin = fit.margin.unwrap();
            let within =
                |found: f64, truth: f64, margin: f64| u32::from((found - truth).abs() <= margin);
            covered[0] += within(fit.single, 100.0, margin.single);
            covered[1] += within(fit.law.contention(), 0.1, margin.contention);
            covered[2] += within(fit.law.coherence(), 0.01, margin.coherence);
        }
        for covered in covered {
            let share = f64::from(covered) / f64::from(rounds);
            assert!((0.93..0.97).contains(&share), "{share}");
        }
    }

    #[test]
    fn there_is_no_margin_without_a_spare_rate() {
        let rates = exact(10.0, 0.2, 0.0);
        assert_eq!(fit_amdahl(&rates[..2]).unwrap().unwrap().margin, None);
        assert!(fit_amdahl(&rates[..3]).unwrap().unwrap().margin.is_some());
    }

    #[test]
    fn too_few_points_give_no_fit_and_bad_ones_an_error() {
        assert_eq!(fit_amdahl(&[(1, 5.0), (1, 6.0)]), Ok(None));
        assert_eq!(fit_usl(&[(1, 5.0), (2, 6.0)]), Ok(None));
        assert_eq!(fit_amdahl(&[]), Ok(None));
        assert!(fit_amdahl(&[(0, 1.0), (1, 1.0)]).is_err());
        assert!(fit_amdahl(&[(1, f64::NAN), (2, 1.0)]).is_err());
        let two = fit_amdahl(&[(1, 10.0), (4, 10.0 * amdahl(0.2, 4).unwrap())]).unwrap().unwrap();
        assert!((two.law.contention() - 0.2).abs() < 1e-9);
    }
}
