//! Powers, logarithms and circles of many numbers at once: branches would keep the compiler from using wide
//! registers.

/// The logarithm to base 2 of a positive, normal number.
#[inline(always)]
pub(super) fn log2(x: f32) -> f32 {
    // x = 2^exponent * mantissa, with the mantissa from 0.7 to 1.4.
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(0x3F35_04F3);
    let exponent = (shifted as i32 >> 23) as f32;
    let mantissa = f32::from_bits((shifted & 0x007F_FFFF).wrapping_add(0x3F35_04F3));
    // ln((1 + s) / (1 - s)) = 2 (s + s^3/3 + s^5/5 + …)
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0 + square / 9.0)));
    exponent + s * series * (2.0 * std::f32::consts::LOG2_E)
}

/// 2 to a power, from -126 to 127.
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    let x = x.clamp(-126.0, 127.0);
    // To the nearest whole number, by adding what leaves no room for a fraction.
    let whole = (x + 12_582_912.0) - 12_582_912.0;
    let rest = (x - whole) * std::f32::consts::LN_2;
    let series = 1.0
        + rest
            * (1.0
                + rest
                    * (0.5
                        + rest
                            * (1.0 / 6.0
                                + rest * (1.0 / 24.0 + rest * (1.0 / 120.0 + rest / 720.0)))));
    series * f32::from_bits(((whole as i32 + 127) as u32) << 23)
}

/// A number from 0 to 1, or a little more, to a power above 0.
#[inline(always)]
pub(super) fn power(x: f32, exponent: f32) -> f32 {
    let raised = exp2(exponent * log2(x.max(f32::MIN_POSITIVE)));
    if x <= 0.0 { 0.0 } else { raised }
}

/// The sine and cosine of so many turns, from -0.5 to 0.5.
#[inline(always)]
pub(super) fn circle(turns: f32) -> (f32, f32) {
    let x = turns * std::f32::consts::TAU;
    let square = x * x;
    let mut sine = 0.0;
    let mut cosine = 0.0;
    // Taylor's series, from the last term to the first: x^15/15! and x^16/16!.
    for term in (1..=8).rev() {
        let n = 2.0 * term as f32;
        // (The compiler knows the divisors, and divides once.)
        sine = 1.0 - square * (1.0 / (n * (n + 1.0))) * if term == 8 { 1.0 } else { sine };
        cosine = 1.0 - square * (1.0 / (n * (n - 1.0))) * if term == 8 { 1.0 } else { cosine };
    }
    (x * sine, cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_standard_library() {
        for i in 0..=10_000 {
            let x = i as f32 / 10_000.0;
            for exponent in [0.1f32, 0.7, 1.0, 1.5, 4.5, 20.0] {
                let (got, wanted) = (power(x, exponent), f64::from(x).powf(exponent.into()));
                let error = (f64::from(got) - wanted).abs();
                // What rounding the exponent to a float costs.
                let exact = 3e-7 * (2.0 + wanted.max(1e-30).log2().abs());
                assert!(error <= exact * wanted + 1e-30, "{x}^{exponent} = {wanted}, got {got}");
            }
        }
        assert_eq!(power(-0.0, 0.5), 0.0);
    }

    #[test]
    fn circles_are_those_of_the_standard_library() {
        for i in -500..=500 {
            let turns = i as f32 / 1000.0;
            let (sine, cosine) = (f64::from(turns) * std::f64::consts::TAU).sin_cos();
            let (s, c) = circle(turns);
            assert!(
                (f64::from(s) - sine).abs() < 3e-6 && (f64::from(c) - cosine).abs() < 3e-6,
                "{turns}"
            );
        }
    }
}
