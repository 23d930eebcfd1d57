//! What is done to voxels.
//!
//! | file | what |
//! | --- | --- |
//! | `view.rs`, `values.rs` | a region of a volume's voxels; their numbers as floats |
//! | `tables.rs`, `copy.rs` | moves along the axes: each new voxel is an old one |
//! | `separable.rs` | moves along the axes to places between voxels |
//! | `walk.rs`, `trilinear.rs`, `labels.rs` | all other moves, of images and of masks |
//! | `resample.rs` | which of these a move is |
//! | `change.rs` | changes of numbers |
//! | `wide.rs` | loops compiled for wider registers as well |
//! | `statistics.rs`, `blur.rs`, `noise.rs`, `power.rs`, `low_resolution.rs` | what they are made of |

mod blur;
mod change;
mod copy;
mod labels;
mod low_resolution;
mod noise;
mod power;
mod resample;
mod separable;
mod statistics;
mod tables;
mod trilinear;
mod values;
mod view;
mod walk;
mod wide;

pub(crate) use change::{ChangeScratch, change};
pub(crate) use resample::{Scratch, move_image, move_mask};
