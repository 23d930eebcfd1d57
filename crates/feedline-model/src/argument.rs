//! Checks of arguments, which all say what to pass instead.

/// An argument outside its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// A number that must be finite and not negative.
    #[error("{name} is {got}; pass a finite number that is at least 0")]
    Negative {
        /// The argument.
        name: &'static str,
        /// Its value.
        got: f64,
    },
    /// A number that must be finite and above 0.
    #[error("{name} is {got}; pass a finite number above 0")]
    NotPositive {
        /// The argument.
        name: &'static str,
        /// Its value.
        got: f64,
    },
    /// A share outside 0 to 1.
    #[error("{name} is {got}; pass a share from 0 to 1")]
    NotAShare {
        /// The argument.
        name: &'static str,
        /// Its value.
        got: f64,
    },
    /// A count that must be at least one.
    #[error("{name} is 0; pass at least 1")]
    Zero {
        /// The argument.
        name: &'static str,
    },
    /// A count that is more than anything is worked out for.
    #[error("{name} is {got}; pass at most {most}")]
    TooMany {
        /// The argument.
        name: &'static str,
        /// Its value.
        got: u32,
        /// The most there may be.
        most: u32,
    },
    /// More work arrives than can be done: the queue has no mean length, it grows for ever.
    #[error(
        "{arrival} arrive per unit of time and at most {capacity} are served, so the queue grows for \
         ever; pass a smaller arrival rate, faster service or more servers"
    )]
    Unstable {
        /// The arrival rate.
        arrival: f64,
        /// What all servers together can do.
        capacity: f64,
    },
    /// A line of stages with more or fewer buffers than there are places for.
    #[error(
        "{stages} stages have {} buffers between them, got {buffers}; pass one for each but the first",
        stages - 1
    )]
    Buffers {
        /// How many stages there are.
        stages: usize,
        /// How many buffers were given.
        buffers: usize,
    },
    /// Fewer numbers than something can be said about.
    #[error("{name} has {got} values; pass at least {least}")]
    TooFew {
        /// What was given.
        name: &'static str,
        /// How many there are.
        got: usize,
        /// How many are needed.
        least: usize,
    },
    /// What does not fit, however it is divided.
    #[error("{name} takes {needs} bytes and {has} are allowed; {hint}")]
    DoesNotFit {
        /// What takes the bytes.
        name: &'static str,
        /// How many.
        needs: u64,
        /// How many there may be.
        has: u64,
        /// What to change.
        hint: &'static str,
    },
}

pub(crate) fn not_negative(name: &'static str, got: f64) -> Result<f64, ArgumentError> {
    let fits = got.is_finite() && got >= 0.0;
    if fits { Ok(got) } else { Err(ArgumentError::Negative { name, got }) }
}

pub(crate) fn positive(name: &'static str, got: f64) -> Result<f64, ArgumentError> {
    let fits = got.is_finite() && got > 0.0;
    if fits { Ok(got) } else { Err(ArgumentError::NotPositive { name, got }) }
}

pub(crate) fn share(name: &'static str, got: f64) -> Result<f64, ArgumentError> {
    let fits = (0.0..=1.0).contains(&got);
    if fits { Ok(got) } else { Err(ArgumentError::NotAShare { name, got }) }
}

pub(crate) fn count(name: &'static str, got: u32) -> Result<f64, ArgumentError> {
    if got > 0 { Ok(f64::from(got)) } else { Err(ArgumentError::Zero { name }) }
}

pub(crate) fn at_most(name: &'static str, got: u32, most: u32) -> Result<(), ArgumentError> {
    if got <= most { Ok(()) } else { Err(ArgumentError::TooMany { name, got, most }) }
}
