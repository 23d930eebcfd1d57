//! NumPy's `.npy` files: one array, its dtype and shape in a short header.

mod descr;
mod elements;
mod folder;
mod header;
mod literal;
mod packed;
mod writer;

pub use folder::Folder;
pub use header::{Header, HeaderError};
pub use packed::Packed;
pub use writer::Writer;
