//! Pictures: what files hold, and the short way from there into a batch.
//!
//! [`decode`] makes a [`Picture`] of a file's bytes. [`Decoder::fused`] does what training mostly needs in one go:
//! decode only what a crop needs, resize, flip, normalise and lay out, straight into the batch's slot. Both take
//! JPEG, PNG, WebP, BMP, GIF and TIFF, told apart by their first bytes.
//!
//! ```
//! use feedline_ops::image::{Decoder, Dtype, Finish, Layout, Limits, PictureSpec, Rect, DecodeBuffers};
//!
//! # let file = b"BM\x1e\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0\x01\0\x01\0\x01\0\x18\0\xff\x80\0\0";
//! let finish = Finish::new(Dtype::F32, Layout::Chw, 3)
//!     .scaled()
//!     .normalized(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225])?;
//! let mut buffers = DecodeBuffers::default(); // kept by the worker
//! let mut slot = vec![0u8; finish.bytes((224, 224))];
//!
//! let decoder = Decoder::open(file, &Limits::default())?;
//! let (width, height) = decoder.header().size(false); // from which a random crop is drawn
//! let spec = PictureSpec {
//!     crop: Some(Rect { x: 0, y: 0, width, height }),
//!     size: Some((224, 224)),
//!     flip_horizontal: true,
//!     ..PictureSpec::default()
//! };
//! decoder.fused(&spec, &finish, &mut slot, &mut buffers)?;
//! # Ok::<(), feedline_ops::image::ImageError>(())
//! ```
//!
//! Damaged, truncated, oversized or lying files give an [`ImageError`] with the reason; never a panic, a hang or
//! an allocation beyond the [`Limits`].

mod act;
mod action;
mod beside;
mod decode;
mod error;
mod finish;
mod flip;
mod format;
mod fused;
mod header;
mod jpeg;
mod limits;
mod mask;
mod mix;
pub mod op;
mod orientation;
mod picture;
mod picture_spec;
mod png;
pub mod program;
mod raster;
mod tiff;
mod webp;

pub use feedline_resize::{Filter, Resizer};

use crate::draw;

pub use crate::draw::Draw;
pub use act::{Displacement, Perspective, Tone, Warp, affine_matrix, expanded};
pub use action::{Action, Area, Border, Fill, Interpolation, Mix, Size};
pub use beside::{move_boxes, move_points};
pub use decode::{DecodeOptions, decode};
pub use error::ImageError;
pub(crate) use finish::Flips;
pub use finish::{Dtype, Finish, Layout};
pub use format::Format;
pub use fused::{DecodeBuffers, Decoder};
pub use header::{ImageHeader, header};
pub use jpeg::simd as jpeg_simd;
pub use limits::Limits;
pub use mask::decode_mask;
pub use mix::{beta, cut_area, cut_mix, mix_labels, mix_up};
pub use orientation::Orientation;
pub use picture::{Color, Picture};
pub use picture_spec::{PictureSpec, Rect};
pub use program::{Begun, Drawn, Input, Program, ProgramError, ProgramOptions, Step, Workbench};
