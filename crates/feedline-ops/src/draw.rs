//! Where random parameters come from.

/// A source of random bits. Operations draw their parameters from it and from nothing else, so what
/// they do depends only on the stream they are given.
pub trait Draw {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// A number in `[0, 1)`: a multiple of 2^-53, every one equally likely.
    fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number between `low` and `high`.
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// A number in `0..n`, every one equally likely; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        // 64 random bits leave a bias of n / 2^64, which no picture is large enough to show.
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Whether something of probability `p` happens.
    fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number of the normal distribution with mean 0 and deviation 1 (Box-Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

impl<D: Draw + ?Sized> Draw for &mut D {
    fn next_u64(&mut self) -> u64 {
        (**self).next_u64()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// SplitMix64: small, and good enough to test with.
    pub(crate) struct Splitmix(pub(crate) u64);

    impl Draw for Splitmix {
        fn next_u64(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }
    }

    #[test]
    fn draws_stay_in_their_ranges_and_reach_all_of_them() {
        let mut draw = Splitmix(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            let x = draw.uniform(-2.0, 3.0);
            assert!((-2.0..3.0).contains(&x));
            seen[draw.below(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(draw.below(0), 0);
        assert!(!draw.chance(0.0) && draw.chance(1.0));
        assert_eq!(draw.uniform(30.0, 30.0), 30.0, "an empty range is its one number");
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut draw = Splitmix(2);
        let numbers: Vec<f64> = (0..20_000).map(|_| draw.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let square = numbers.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
    }
}
