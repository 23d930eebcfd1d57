//! Mixing the samples of a batch with each other: mixup and cutmix.
//!
//! Each sample is mixed with the one before it, the first with the last, as torchvision pairs them.
//!
//! H. Zhang, M. Cisse, Y. Dauphin, D. Lopez-Paz, "mixup: Beyond Empirical Risk Minimization", 2017.
//! S. Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features", 2019.

use half::{bf16, f16};

use super::action::{Area, Size};
use super::draw::Draw;
use super::{Dtype, Layout};

/// A number of the Beta distribution with both parameters `alpha`, which is above 0.
pub fn beta(alpha: f64, draw: &mut dyn Draw) -> f64 {
    let (x, y) = (gamma(alpha, draw), gamma(alpha, draw));
    if x + y > 0.0 {
        return x / (x + y);
    }
    // So small an alpha that both vanish: then one of the ends.
    f64::from(u8::from(draw.chance(0.5)))
}

/// `count` numbers of the Dirichlet distribution with all parameters `alpha`, which is above 0. Their sum is 1.
pub(super) fn dirichlet(alpha: f64, count: usize, draw: &mut dyn Draw) -> Vec<f64> {
    let mut numbers: Vec<f64> = (0..count).map(|_| gamma(alpha, draw)).collect();
    let total: f64 = numbers.iter().sum();
    if total > 0.0 {
        numbers.iter_mut().for_each(|number| *number /= total);
    } else if count > 0 {
        // So small an alpha that all vanish: then one of the corners.
        numbers[draw.below(count)] = 1.0;
    }
    numbers
}

/// A number of the Gamma distribution. G. Marsaglia, W. Tsang, "A simple method for generating gamma
/// variables", ACM TOMS 26(3), 2000.
fn gamma(shape: f64, draw: &mut dyn Draw) -> f64 {
    if shape < 1.0 {
        let power = (1.0 - draw.unit()).powf(1.0 / shape);
        return gamma(shape + 1.0, draw) * power;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = draw.normal();
        let v = (1.0 + c * x).powi(3);
        let u = 1.0 - draw.unit();
        if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Makes `part` of each sample and `1 - part` of the one before it of every sample, in place. `samples`
/// are `count` samples of floats, one after the other.
pub fn mix_up(samples: &mut [u8], count: usize, dtype: Dtype, part: f64) {
    let row = samples.len() / count.max(1);
    if count < 2 || row == 0 {
        return;
    }
    let last = samples[(count - 1) * row..].to_vec();
    for i in (0..count).rev() {
        let (before, now) = samples.split_at_mut(i * row);
        let now = &mut now[..row];
        let before = if i == 0 { &last[..] } else { &before[(i - 1) * row..] };
        match dtype {
            // Bytes have no room for it.
            Dtype::U8 => {}
            Dtype::F32 => blend(now, before, part, f32::from_ne_bytes, f32::to_ne_bytes),
            Dtype::F16 => blend(
                now,
                before,
                part,
                |b| f16::from_ne_bytes(b).to_f32(),
                |x| f16::from_f32(x).to_ne_bytes(),
            ),
            Dtype::Bf16 => blend(
                now,
                before,
                part,
                |b| bf16::from_ne_bytes(b).to_f32(),
                |x| bf16::from_f32(x).to_ne_bytes(),
            ),
        }
    }
}

fn blend<const N: usize>(
    now: &mut [u8],
    before: &[u8],
    part: f64,
    read: impl Fn([u8; N]) -> f32,
    write: impl Fn(f32) -> [u8; N],
) {
    let (part, rest) = (part as f32, (1.0 - part) as f32);
    for (now, before) in now.as_chunks_mut::<N>().0.iter_mut().zip(before.as_chunks::<N>().0) {
        *now = write(read(*before) * rest + read(*now) * part);
    }
}

/// The area of a picture that cutmix takes from another one, for a drawn `part`; and the part that stays,
/// now that it is cut at the edges.
pub fn cut_area(size: Size, part: f64, draw: &mut dyn Draw) -> (Area, f64) {
    let (x, y) = (draw.below(size.width), draw.below(size.height));
    let half = 0.5 * (1.0 - part).max(0.0).sqrt();
    let (across, down) =
        ((half * size.width as f64) as usize, (half * size.height as f64) as usize);
    let (left, top) = (x.saturating_sub(across), y.saturating_sub(down));
    let (right, bottom) = ((x + across).min(size.width), (y + down).min(size.height));
    let area = Area { top, left, height: bottom - top, width: right - left };
    let whole = (size.height * size.width).max(1);
    (area, 1.0 - (area.height * area.width) as f64 / whole as f64)
}

/// Takes an area of each sample from the one before it, in place.
pub fn cut_mix(
    samples: &mut [u8],
    count: usize,
    (channels, size): (usize, Size),
    layout: Layout,
    element: usize,
    area: Area,
) {
    let row = samples.len() / count.max(1);
    if count < 2 || row != channels * size.height * size.width * element {
        return;
    }
    let last = samples[(count - 1) * row..].to_vec();
    let (planes, pixel) = match layout {
        Layout::Chw => (channels, element),
        Layout::Hwc => (1, element * channels),
    };
    for i in (0..count).rev() {
        let (before, now) = samples.split_at_mut(i * row);
        let before = if i == 0 { &last[..] } else { &before[(i - 1) * row..] };
        for plane in 0..planes {
            for y in area.top..area.top + area.height {
                let from = ((plane * size.height + y) * size.width + area.left) * pixel;
                let run = from..from + area.width * pixel;
                now[run.clone()].copy_from_slice(&before[run]);
            }
        }
    }
}

/// Writes `part` of each label and `1 - part` of the one before it as weights of `classes` classes. Returns the
/// first label that is no class.
pub fn mix_labels(labels: &[i64], classes: usize, part: f64, out: &mut [f32]) -> Result<(), i64> {
    out.fill(0.0);
    for (i, row) in out.chunks_exact_mut(classes.max(1)).enumerate().take(labels.len()) {
        let before = labels[(i + labels.len() - 1) % labels.len()];
        for (label, weight) in [(before, 1.0 - part), (labels[i], part)] {
            let class = usize::try_from(label).map_err(|_| label)?;
            *row.get_mut(class).ok_or(label)? += weight as f32;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::draw::tests::Splitmix;

    #[test]
    fn beta_numbers_have_the_known_mean_and_variance() {
        for alpha in [0.2, 1.0, 3.0] {
            let mut draw = Splitmix(5);
            let numbers: Vec<f64> = (0..20_000).map(|_| beta(alpha, &mut draw)).collect();
            let mean = numbers.iter().sum::<f64>() / 20_000.0;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
            assert!((mean - 0.5).abs() < 0.02, "{alpha}: {mean}");
            assert!((variance - 0.25 / (2.0 * alpha + 1.0)).abs() < 0.01, "{alpha}: {variance}");
        }
        assert!((0.0..=1.0).contains(&beta(1e-9, &mut Splitmix(1))), "vanishing parameters");
    }

    #[test]
    fn a_label_that_is_no_class_is_named() {
        let mut out = [0.0; 6];
        assert_eq!(mix_labels(&[0, 3], 3, 0.5, &mut out), Err(3));
        assert_eq!(mix_labels(&[-1, 0], 3, 0.5, &mut out), Err(-1));
        assert_eq!(mix_labels(&[0, 2], 3, 0.75, &mut out), Ok(()));
        assert_eq!(out, [0.75, 0.0, 0.25, 0.25, 0.0, 0.75]);
    }
}
