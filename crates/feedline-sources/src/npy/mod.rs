//! NumPy's `.npy` files: one array, its dtype and shape in a short header.

mod descr;
mod elements;
mod folder;
mod header;
mod literal;
mod packed;
mod writer;

pub(crate) use elements::write_array;
pub use folder::Folder;
pub use header::{HeaderError, NpyHeader};
pub use packed::Packed;
pub use writer::Writer;
