//! Mean, deviation, least and largest.

use super::wide::wide;

/// Of some numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) mean: f64,
    /// The mean square distance from the mean.
    pub(crate) variance: f64,
    pub(crate) count: usize,
}

impl Statistics {
    /// The deviation as it is estimated of a sample.
    pub(crate) fn sample_deviation(&self) -> f64 {
        let count = self.count as f64;
        if self.count < 2 { 0.0 } else { (self.variance * count / (count - 1.0)).sqrt() }
    }
}

/// Numbers that are added up in single precision before they are added to a double: few enough to lose nothing
/// that matters, and as wide as the machine can.
const CHUNK: usize = 1024;
const LANES: usize = 16;

wide! {
    /// The mean and deviation, of all or of those that are not 0.
    pub(crate) fn moments(data: &[f32], nonzero: bool) -> Statistics {
        // Twice over the numbers: the square of a distance keeps digits that a difference of large squares loses.
        let (sum, count) = sums(data, |x| if nonzero && x == 0.0 { (0.0, 0.0) } else { (x, 1.0) });
        if count == 0.0 {
            return Statistics::default();
        }
        let mean = sum / count;
        let middle = mean as f32;
        let (squares, rest) = sums(data, |x| {
            if nonzero && x == 0.0 { (0.0, 0.0) } else { ((x - middle) * (x - middle), x - middle) }
        });
        let rest = rest / count;
        let variance = (squares / count - rest * rest).max(0.0);
        Statistics { mean, variance, count: count as usize }
    }
}

/// Two sums over all numbers.
#[inline(always)]
fn sums(data: &[f32], of: impl Fn(f32) -> (f32, f32)) -> (f64, f64) {
    let (mut first, mut second) = (0f64, 0f64);
    for chunk in data.chunks(CHUNK) {
        let (mut a, mut b) = ([0f32; LANES], [0f32; LANES]);
        let (lanes, rest) = chunk.as_chunks::<LANES>();
        for numbers in lanes {
            for lane in 0..LANES {
                let (x, y) = of(numbers[lane]);
                a[lane] += x;
                b[lane] += y;
            }
        }
        for (lane, number) in rest.iter().enumerate() {
            let (x, y) = of(*number);
            a[lane] += x;
            b[lane] += y;
        }
        first += a.iter().map(|x| f64::from(*x)).sum::<f64>();
        second += b.iter().map(|x| f64::from(*x)).sum::<f64>();
    }
    (first, second)
}

wide! {
    /// The least and the largest number; both 0, if there is none.
    pub(crate) fn extremes(data: &[f32]) -> (f32, f32) {
        let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let (lanes, rest) = data.as_chunks::<LANES>();
        for numbers in lanes {
            for lane in 0..LANES {
                // What is no number is neither. (`min` and `max` would look for it, one number at a time.)
                let x = numbers[lane];
                low[lane] = if x < low[lane] { x } else { low[lane] };
                high[lane] = if x > high[lane] { x } else { high[lane] };
            }
        }
        let low = low.iter().chain(rest).fold(f32::INFINITY, |a, b| a.min(*b));
        let high = high.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        if low <= high { (low, high) } else { (0.0, 0.0) }
    }
}

/// A percentile, between two numbers by linear interpolation as NumPy's; 0, if there is none. Numbers change places.
pub(crate) fn percentile(data: &mut [f32], percent: f64) -> f32 {
    let Some(last) = data.len().checked_sub(1) else { return 0.0 };
    let place = (percent / 100.0 * last as f64).clamp(0.0, last as f64);
    let (_, at, above) = data.select_nth_unstable_by(place.floor() as usize, f32::total_cmp);
    let at = *at;
    let next = above.iter().copied().min_by(f32::total_cmp).unwrap_or(at);
    at + (next - at) * place.fract() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_the_sorted_numbers() {
        let mut data = [5.0, 1.0, 4.0, 2.0, 3.0];
        for (percent, wanted) in [(0.0, 1.0), (25.0, 2.0), (60.0, 3.4), (100.0, 5.0)] {
            assert!((percentile(&mut data, percent) - wanted).abs() < 1e-6, "{percent}");
        }
        assert_eq!(percentile(&mut [], 50.0), 0.0);
        assert_eq!(extremes(&[]), (0.0, 0.0));
        let many: Vec<f32> = (0..37).map(|i| ((i * 11) % 37) as f32 - 5.0).collect();
        assert_eq!(extremes(&many), (-5.0, 31.0));
        let holes: Vec<f32> = many.iter().flat_map(|x| [f32::NAN, *x]).collect();
        assert_eq!(extremes(&holes), (-5.0, 31.0));
    }

    #[test]
    fn moments_are_those_of_the_textbook() {
        let data: Vec<f32> = (0..10_007).map(|i| ((i * 7919) % 2001) as f32 - 1024.0).collect();
        for nonzero in [false, true] {
            let kept: Vec<f64> =
                data.iter().filter(|x| !nonzero || **x != 0.0).map(|x| f64::from(*x)).collect();
            let mean = kept.iter().sum::<f64>() / kept.len() as f64;
            let variance = kept.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / kept.len() as f64;
            let got = moments(&data, nonzero);
            assert_eq!(got.count, kept.len());
            assert!((got.mean - mean).abs() < 1e-3, "{} {mean}", got.mean);
            assert!((got.variance / variance - 1.0).abs() < 1e-6, "{} {variance}", got.variance);
        }
        assert_eq!(moments(&[], false), Statistics::default());
        assert_eq!(moments(&[0.0; 5], true), Statistics::default());
    }
}
