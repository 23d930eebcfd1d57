//! Noise and blur.

use feedline_ops::Draw;

use super::{Operation, Scene, each_channel, probability, range};
use crate::{Action, Border, Change, OperationError};

/// Adds Gaussian noise to some volumes: MONAI's `RandGaussianNoise`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomNoise {
    p: f64,
    mean: f64,
    std: (f64, f64),
}

impl RandomNoise {
    /// Of this mean, and a deviation of this range.
    pub fn new(p: f64, mean: f64, std: (f64, f64)) -> Result<RandomNoise, OperationError> {
        const NAME: &str = "random_noise";
        range(NAME, "mean", (mean, mean), f64::NEG_INFINITY, f64::INFINITY)?;
        let std = range(NAME, "std", std, 0.0, f64::INFINITY)?;
        Ok(RandomNoise { p: probability(NAME, p)?, mean, std })
    }
}

impl std::fmt::Display for RandomNoise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_noise(p={}, std={:?}", self.p, self.std)?;
        if self.mean != 0.0 {
            write!(f, ", mean={}", self.mean)?;
        }
        f.write_str(")")
    }
}

impl Operation for RandomNoise {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            let std = draw.uniform(self.std.0, self.std.1) as f32;
            let mean = self.mean as f32;
            each_channel(scene, actions, |_| Change::Noise { mean, std, seed: draw.next_u64() });
        }
        Ok(())
    }
}

/// Blurs some volumes with a Gaussian: MONAI's `RandGaussianSmooth`.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomBlur {
    p: f64,
    sigma: (f64, f64),
}

impl RandomBlur {
    /// Along each axis by a deviation of this range, in voxels.
    pub fn new(p: f64, sigma: (f64, f64)) -> Result<RandomBlur, OperationError> {
        const NAME: &str = "random_blur";
        let sigma = range(NAME, "sigma", sigma, 0.0, 100.0)?;
        Ok(RandomBlur { p: probability(NAME, p)?, sigma })
    }
}

impl std::fmt::Display for RandomBlur {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "random_blur(p={}, sigma={:?})", self.p, self.sigma)
    }
}

impl Operation for RandomBlur {
    fn draw(
        &self,
        scene: &Scene<'_>,
        draw: &mut dyn Draw,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        if draw.chance(self.p) {
            let sigmas = [(); 3].map(|()| draw.uniform(self.sigma.0, self.sigma.1));
            let axes = scene.axes();
            let kernels: [Vec<f32>; 3] =
                std::array::from_fn(
                    |axis| {
                        if axes[axis] { integrated(sigmas[axis]) } else { vec![1.0] }
                    },
                );
            let border = Border::Zero;
            each_channel(scene, actions, |_| Change::Blur { kernels: kernels.clone(), border });
        }
        Ok(())
    }
}

/// MONAI's kernel: the part of a Gaussian over each voxel, as far as four deviations.
fn integrated(sigma: f64) -> Vec<f32> {
    if sigma == 0.0 {
        return vec![1.0];
    }
    let tail = ((sigma * 4.0).max(0.5) + 0.5) as i32;
    let scale = std::f64::consts::FRAC_1_SQRT_2 / sigma;
    let part = |x: i32| {
        let x = f64::from(x);
        (0.5 * (erf(scale * (x + 0.5)) - erf(scale * (x - 0.5)))).max(0.0) as f32
    };
    (-tail..=tail).map(part).collect()
}

/// The error function: its series, or so close to 1 that it is.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
        if term.abs() < 1e-18 {
            break;
        }
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_that_of_the_tables() {
        for (x, wanted) in
            [(0.0, 0.0), (0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (3.0, 0.999_977_909_5)]
        {
            assert!((erf(x) - wanted).abs() < 1e-9 && (erf(-x) + wanted).abs() < 1e-9, "{x}");
        }
    }
}
