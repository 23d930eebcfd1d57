//! How evenly work was, or will be, shared out.

use crate::argument::{ArgumentError, count, not_negative};

/// What the times of several workers say about how evenly they shared the work.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Imbalance {
    /// The load-imbalance factor: the longest time over the mean. 1 is perfect; 1.5 says that all wait for
    /// one that works half as long again.
    pub factor: f64,
    /// Work done over what could have been done until the last was finished: `1 / factor`.
    pub efficiency: f64,
}

/// Compares the busy times of workers, each in the same unit.
///
/// ```
/// let shared = feedline_model::imbalance(&[9.0, 10.0, 11.0, 14.0])?;
/// assert!((shared.factor - 14.0 / 11.0).abs() < 1e-12);
/// # Ok::<(), feedline_model::ArgumentError>(())
/// ```
pub fn imbalance(times: &[f64]) -> Result<Imbalance, ArgumentError> {
    if times.is_empty() {
        return Err(ArgumentError::TooFew { name: "times", got: 0, least: 1 });
    }
    let (mut sum, mut longest) = (0.0, 0.0f64);
    for time in times {
        sum += not_negative("a worker's time", *time)?;
        longest = longest.max(*time);
    }
    // Nobody worked: nobody worked longer than another.
    let factor = if sum > 0.0 { longest * times.len() as f64 / sum } else { 1.0 };
    Ok(Imbalance { factor, efficiency: 1.0 / factor })
}

/// The load-imbalance factor to expect when each of `workers` is given `samples` in advance, whose times are
/// independent and have this `spread` (standard deviation over mean).
///
/// A worker's time is then normal with a spread of `spread / sqrt(samples)`, and the largest of `workers` normal
/// numbers lies Blom's (1958) quantile above the mean. For few samples of a large spread, whose sums are not
/// normal yet, the truth is higher.
pub fn expected_imbalance(workers: u32, samples: u32, spread: f64) -> Result<f64, ArgumentError> {
    let workers = count("workers", workers)?;
    let samples = count("samples", samples)?;
    let spread = not_negative("spread", spread)?;
    let largest = normal_quantile((workers - 0.375) / (workers + 0.25));
    Ok(1.0 + largest.max(0.0) * spread / samples.sqrt())
}

/// The standard normal quantile, by Acklam's rational approximation (relative error below 1.2e-9).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let poly = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        poly(&C, q) / (poly(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let (q, r) = (p - 0.5, (p - 0.5) * (p - 0.5));
        poly(&A, r) * q / (poly(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_factor_is_longest_over_mean() {
        assert_eq!(imbalance(&[2.0, 2.0]).unwrap(), Imbalance { factor: 1.0, efficiency: 1.0 });
        assert_eq!(imbalance(&[0.0, 4.0]).unwrap(), Imbalance { factor: 2.0, efficiency: 0.5 });
        assert_eq!(imbalance(&[0.0, 0.0]).unwrap().factor, 1.0);
        assert_eq!(imbalance(&[]).unwrap_err().to_string(), "times has 0 values; pass at least 1");
        assert!(imbalance(&[1.0, f64::NAN]).is_err());
    }

    #[test]
    fn quantiles_are_the_tables() {
        for (p, z) in
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.01, -2.326_347_874), (0.999, 3.090_232_306)]
        {
            assert!((normal_quantile(p) - z).abs() < 1e-7, "{p}");
        }
    }

    #[test]
    fn the_expectation_is_what_dealing_out_gives() {
        let mut random = Random::new(5);
        for (workers, samples) in [(2u32, 50u32), (8, 100), (64, 200)] {
            let rounds = 400;
            let mut sum = 0.0;
            for _ in 0..rounds {
                let times: Vec<f64> = (0..workers)
                    .map(|_| (0..samples).map(|_| random.exponential(1.0)).sum())
                    .collect();
                sum += imbalance(&times).unwrap().factor;
            }
            let (dealt, expected) =
                (sum / f64::from(rounds), expected_imbalance(workers, samples, 1.0).unwrap());
            assert!((dealt - expected).abs() < 0.1 * (expected - 1.0) + 0.01, "{dealt} {expected}");
        }
        assert_eq!(expected_imbalance(1, 1, 3.0), Ok(1.0));
    }
}
