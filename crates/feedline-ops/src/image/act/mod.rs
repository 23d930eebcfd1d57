//! What actions do to pixels: one kind per file, plain loops over bytes.

mod blur;
mod elastic;
mod frame;
mod grid;
mod histogram;
mod hue;
mod mirror;
mod nearest;
mod perspective;
mod plain;
mod sharpness;
mod tone;
mod warp;

pub(crate) use blur::{blur, smooth};
pub use elastic::Displacement;
pub(crate) use elastic::displace;
pub(crate) use frame::{colour, crop, frame};
pub(crate) use mirror::{flip_horizontally, flip_vertically, turn};
pub(crate) use nearest::resize_nearest;
pub use perspective::Perspective;
pub(crate) use perspective::perspective;
pub(crate) use plain::resize_plain;
pub use tone::Tone;
pub(crate) use tone::make_gray;
pub(crate) use warp::warp;
pub use warp::{Warp, affine_matrix, expanded};
