//! What is done to voxels.
//!
//! | file | what |
//! | --- | --- |
//! | `view.rs` | a region of a volume's voxels |
//! | `tables.rs`, `copy.rs` | moves along the axes: each new voxel is an old one |
//! | `statistics.rs` | mean, deviation, least and largest |
//! | `change.rs` | changes of numbers |

mod change;
mod copy;
mod resample;
mod statistics;
mod tables;
mod view;

pub(crate) use change::change;
pub(crate) use resample::{move_image, move_mask};
