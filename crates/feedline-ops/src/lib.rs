//! What makes tensors of bytes: conversion of types, scaling, normalisation, and pictures ([`image`]).
//!
//! Pure functions from slices to slices. They know no file and no thread: a worker calls them where its
//! sample is, mostly with the batch's slot as the output.
//!
//! ```
//! // A picture of 3 channels with 2 pixels each, from bytes to what a network wants.
//! let picture: [u8; 6] = [0, 255, 0, 255, 0, 255];
//! let mut tensor = [0f32; 6];
//! feedline_ops::scale(&picture, &mut tensor, 1.0 / 255.0, 0.0)?;
//! feedline_ops::normalize(&mut tensor, &[0.5; 3], &[0.25; 3])?;
//! assert_eq!(tensor, [-2.0, 2.0, -2.0, 2.0, -2.0, 2.0]);
//! # Ok::<(), feedline_ops::OpError>(())
//! ```

mod cast;
mod draw;
mod error;
#[cfg(feature = "image")]
pub mod image;
mod normalize;

pub use cast::{Cast, cast, scale};
pub use draw::Draw;
pub use error::OpError;
pub use normalize::normalize;
