//! Test statistics as standard normal deviates, so that one threshold serves all.

/// With fixed seeds a test cannot flicker; the threshold only has to be passed once. A sound generator
/// exceeds it once in about 150,000 tests.
pub(crate) const THRESHOLD: f64 = 4.5;

/// Observed against expected counts, with the given degrees of freedom, by Wilson and Hilferty's
/// cube-root approximation of the chi-square distribution.
pub(crate) fn chi_square(observed: &[u64], expected: &[f64], degrees: f64) -> f64 {
    assert_eq!(observed.len(), expected.len());
    let statistic: f64 =
        observed.iter().zip(expected).map(|(&o, &e)| (o as f64 - e).powi(2) / e).sum();
    let spread = 2.0 / (9.0 * degrees);
    ((statistic / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// As `chi_square`, all cells equally likely.
pub(crate) fn uniform(observed: &[u64], degrees: f64) -> f64 {
    let mean = observed.iter().sum::<u64>() as f64 / observed.len() as f64;
    chi_square(observed, &vec![mean; observed.len()], degrees)
}

/// The rank correlation of two permutations of `0..n`, scaled to a standard normal deviate.
pub(crate) fn rank_correlation(x: &[u64], y: &[u64]) -> f64 {
    let n = x.len() as f64;
    let mean = (n - 1.0) / 2.0;
    let variance = (n * n - 1.0) / 12.0;
    let covariance: f64 =
        x.iter().zip(y).map(|(&x, &y)| (x as f64 - mean) * (y as f64 - mean)).sum::<f64>() / n;
    covariance / variance * (n - 1.0).sqrt()
}

#[track_caller]
pub(crate) fn assert_plausible(deviate: f64, what: &str) {
    assert!(deviate.abs() < THRESHOLD, "{what}: {deviate:.2} standard deviations");
}

#[test]
fn the_statistics_notice_what_they_should() {
    assert!(uniform(&[100, 100, 200, 100], 3.0) > THRESHOLD);
    assert!(uniform(&[100, 95, 108, 97], 3.0).abs() < 2.0);
    let up: Vec<u64> = (0..100).collect();
    let down: Vec<u64> = (0..100).rev().collect();
    assert!(rank_correlation(&up, &up) > 9.0);
    assert!(rank_correlation(&up, &down) < -9.0);
}
