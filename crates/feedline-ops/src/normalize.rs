//! Normalisation by channel.

use crate::OpError;

/// Makes `(x - mean) / deviation` of each element of a tensor of shape (channels, height, width), in
/// place, with the mean and deviation of its channel. There are as many channels as means.
///
/// These are the operations of torchvision's `Normalize` in their order, so the results are equal to it.
pub fn normalize(tensor: &mut [f32], mean: &[f32], deviation: &[f32]) -> Result<(), OpError> {
    let channels = mean.len();
    if channels == 0 || channels != deviation.len() {
        return Err(OpError::Channels { means: channels, deviations: deviation.len() });
    }
    for (channel, (&mean, &deviation)) in mean.iter().zip(deviation).enumerate() {
        if !mean.is_finite() {
            return Err(OpError::Mean { channel, got: mean });
        }
        if !(deviation.is_finite() && deviation > 0.0) {
            return Err(OpError::Deviation { channel, got: deviation });
        }
    }
    if !tensor.len().is_multiple_of(channels) {
        return Err(OpError::Shape { elements: tensor.len(), channels });
    }
    let pixels = tensor.len() / channels;
    if pixels == 0 {
        return Ok(());
    }
    for (plane, (mean, deviation)) in
        tensor.chunks_exact_mut(pixels).zip(mean.iter().zip(deviation))
    {
        for x in plane {
            // Not times the reciprocal, which would differ in the last bit.
            *x = (*x - mean) / deviation;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_is_normalised_by_its_own_mean_and_deviation() {
        let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
        let before: Vec<f32> = (0..3 * 35).map(|i| i as f32 / 7.0).collect();
        let mut after = before.clone();
        normalize(&mut after, &mean, &deviation).unwrap();
        for c in 0..3 {
            for p in 0..35 {
                let at = c * 35 + p;
                assert_eq!(after[at], (before[at] - mean[c]) / deviation[c], "{c} {p}");
            }
        }
    }

    #[test]
    fn a_tensor_without_pixels_stays_as_it_is() {
        assert_eq!(normalize(&mut [], &[0.0; 3], &[1.0; 3]), Ok(()));
    }

    #[test]
    fn arguments_that_do_not_fit_say_what_to_pass() {
        let refused = |n: usize, mean: &[f32], deviation: &[f32]| {
            normalize(&mut vec![0.0; n], mean, deviation).unwrap_err().to_string()
        };
        assert!(refused(6, &[0.0; 3], &[1.0; 2]).contains("one of each per channel"));
        assert!(refused(6, &[], &[]).contains("at least one"));
        assert!(refused(7, &[0.0; 3], &[1.0; 3]).contains("(channels, height, width)"));
        assert!(refused(6, &[0.0; 3], &[1.0, 0.0, 1.0]).contains("channel 1 is 0"));
        assert!(refused(6, &[0.0; 3], &[1.0, 1.0, f32::NAN]).contains("channel 2 is NaN"));
        assert!(refused(6, &[0.0, f32::INFINITY, 0.0], &[1.0; 3]).contains("mean of channel 1"));
    }
}
