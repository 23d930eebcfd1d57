//! Gaussian noise.

use crate::fast::mixed;

use super::power::{circle, log2};
use super::wide::wide;

const LANES: usize = 16;

wide! {
    /// Adds numbers of a normal distribution, which follow from the seed and their place.
    pub(super) fn add(data: &mut [f32], mean: f32, std: f32, seed: u64) {
        for (chunk, numbers) in data.chunks_mut(2 * LANES).enumerate() {
            let first = seed.wrapping_add((chunk * LANES) as u64);
            let normal = normals(first);
            for (x, normal) in numbers.iter_mut().zip(normal) {
                *x += normal * std + mean;
            }
        }
    }
}

/// Box and Muller's pairs of independent numbers.
#[inline(always)]
fn normals(first: u64) -> [f32; 2 * LANES] {
    let mut out = [0f32; 2 * LANES];
    let mut units = [(0f32, 0f32); LANES];
    for (lane, unit) in units.iter_mut().enumerate() {
        let bits = mixed(first.wrapping_add(lane as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // From above 0 to 1, and from -0.5 to below 0.5. As numbers of 32 bits, which become floats many at a time.
        let [high, low] = [(bits >> 40) as i32, (bits & 0xFF_FFFF) as i32].map(|bits| bits as f32);
        let radius = (high + 1.0) * (1.0 / (1u32 << 24) as f32);
        let turns = low * (1.0 / (1u32 << 24) as f32) - 0.5;
        *unit = (radius, turns);
    }
    for (lane, (unit, turns)) in units.into_iter().enumerate() {
        let radius = (-2.0 * std::f32::consts::LN_2 * log2(unit)).max(0.0).sqrt();
        let (sine, cosine) = circle(turns);
        out[lane] = radius * sine;
        out[lane + LANES] = radius * cosine;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_normal() {
        let mut data = vec![0f32; 200_003];
        add(&mut data, 3.0, 2.0, 99);
        let count = data.len() as f64;
        let standard: Vec<f64> = data.iter().map(|x| (f64::from(*x) - 3.0) / 2.0).collect();
        let moment = |power: i32| standard.iter().map(|x| x.powi(power)).sum::<f64>() / count;
        // Of a normal distribution 0, 1, 0 and 3, each within five deviations of the estimate.
        for (power, wanted, deviation) in
            [(1, 0.0, 1.0), (2, 1.0, 2f64.sqrt()), (3, 0.0, 15f64.sqrt()), (4, 3.0, 96f64.sqrt())]
        {
            let error = 5.0 * deviation / count.sqrt();
            assert!((moment(power) - wanted).abs() < error, "{power}: {}", moment(power));
        }
        let beyond = standard.iter().filter(|x| x.abs() > 1.959_964).count() as f64 / count;
        assert!((beyond - 0.05).abs() < 0.0025, "{beyond}");
        let neighbours = standard.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / count;
        assert!(neighbours.abs() < 0.012, "{neighbours}");
    }

    #[test]
    fn noise_follows_from_its_seed() {
        let noise = |seed| {
            let mut data = vec![0f32; 100];
            add(&mut data, 0.0, 1.0, seed);
            data
        };
        assert_eq!(noise(1), noise(1));
        assert_ne!(noise(1), noise(2));
    }
}
