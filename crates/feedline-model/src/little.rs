//! Little's law: in any stable system, mean number inside = arrival rate x mean time inside.
//!
//! ```
//! use feedline_model::little;
//!
//! // 500 samples per second, each 40 ms under way: 20 are under way at any moment.
//! assert_eq!(little::number(500.0, 0.04)?, 20.0);
//! # Ok::<(), feedline_model::ArgumentError>(())
//! ```

use crate::argument::{ArgumentError, not_negative, positive};

/// The mean number inside.
pub fn number(rate: f64, time: f64) -> Result<f64, ArgumentError> {
    Ok(not_negative("rate", rate)? * not_negative("time", time)?)
}

/// The mean time inside.
pub fn time(number: f64, rate: f64) -> Result<f64, ArgumentError> {
    Ok(not_negative("number", number)? / positive("rate", rate)?)
}

/// The arrival rate, which in a stable system is also the rate of departure.
pub fn rate(number: f64, time: f64) -> Result<f64, ArgumentError> {
    Ok(not_negative("number", number)? / positive("time", time)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts who is inside at many moments, given when each came and went.
    #[test]
    fn the_law_holds_for_a_count_by_hand() {
        // Customer i comes at 2i and stays i % 5.
        let customers = 1000;
        let stay = |i: u32| i % 5;
        let end = 2 * customers;
        let inside = |moment: u32| {
            (0..customers).filter(|&i| (2 * i..2 * i + stay(i)).contains(&moment)).count()
        };
        let mean_inside = (0..end).map(inside).sum::<usize>() as f64 / f64::from(end);
        let mean_stay = f64::from((0..customers).map(stay).sum::<u32>()) / f64::from(customers);
        let per_moment = f64::from(customers) / f64::from(end);
        assert!((number(per_moment, mean_stay).unwrap() - mean_inside).abs() < 0.01);
    }

    #[test]
    fn the_three_forms_agree() {
        assert_eq!(time(20.0, 500.0), Ok(0.04));
        assert_eq!(rate(20.0, 0.04), Ok(500.0));
    }

    #[test]
    fn impossible_arguments_say_what_to_pass() {
        let message = time(1.0, 0.0).unwrap_err().to_string();
        assert_eq!(message, "rate is 0; pass a finite number above 0");
        assert!(number(f64::NAN, 1.0).is_err());
        assert!(number(-1.0, 1.0).is_err());
        assert!(rate(1.0, f64::INFINITY).is_err());
    }
}
