//! What is done to CT and MR volumes before a network sees them, with the meaning of MONAI's transforms and
//! nnU-Net's defaults.
//!
//! A [`Program`] is a chain of operations ([`op`]). For each volume [`Program::draw`] draws everything that is
//! random; [`Drawn::region`] then says which voxels must be read, and [`Drawn::write`] makes the tensors of them.
//! Crops, flips, turns, resampling and affine maps that follow each other are one resampling, so the region is
//! small.
//!
//! ```
//! use std::sync::Arc;
//!
//! use feedline_volume::op::{CenterCrop, ZScore};
//! use feedline_volume::{ImageChannel, Geometry, Output, Program, Read, Region, Voxels, Workbench};
//! # struct Numbers;
//! # impl feedline_volume::Draw for Numbers { fn next_u64(&mut self) -> u64 { 7 } }
//!
//! let program = Program::new(
//!     vec![Arc::new(CenterCrop::new([2, 2, 2])?), Arc::new(ZScore::new(false))],
//!     Output::default(),
//! )?;
//! let geometry = Geometry::with_spacing([4, 4, 4], [2.5, 0.8, 0.8])?;
//! let mut drawn = program.draw(&geometry, 1, None, &mut Numbers)?;
//! assert_eq!(drawn.region(), Region { start: [1; 3], shape: [2; 3] });
//!
//! let voxels: Vec<i16> = (0..8).collect(); // read from a file
//! let image = [ImageChannel::plain(Voxels::I16(&voxels))];
//! let read = Read { region: drawn.region(), image: &image, mask: None };
//! let mut bench = Workbench::default(); // kept by the worker
//! assert_eq!(drawn.shape(&read, &mut bench)?, [2; 3]);
//! let mut tensor = [0f32; 8];
//! drawn.write(&read, &mut bench, bytemuck::cast_slice_mut(&mut tensor), None)?;
//! assert_eq!(tensor[0], -tensor[7]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod act;
mod action;
mod error;
mod fast;
mod foreground;
mod geometry;
mod map;
pub mod op;
mod orientation;
mod output;
mod program;
mod region;
mod voxels;

pub use feedline_ops::Draw;

pub use action::{Action, Border, Change, Fill, Labels, Move};
pub use error::{OperationError, RunError};
pub use foreground::{ClassVoxels, Foreground};
pub use geometry::{Geometry, GeometryError};
pub use map::Map;
pub use orientation::Orientation;
pub use output::{Dtype, MaskDtype, Output};
pub use program::{Drawn, Program, Workbench};
pub use region::{Region, Shape, count};
pub use voxels::{ImageChannel, Label, NoLabel, Read, VoxelType, Voxels};

pub(crate) use fast::Fast;
