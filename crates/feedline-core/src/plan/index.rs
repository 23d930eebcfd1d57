//! The two counters of a plan, kept apart by type.

/// Which sample of the dataset, `0..dataset length`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Ord, PartialOrd, Debug, Default)]
pub struct SampleIndex(pub u64);

/// A place in one rank's epoch, `0..plan.samples()`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Ord, PartialOrd, Debug, Default)]
pub struct Position(pub u64);
