//! Where bytes come from: file formats as [`Dataset`](feedline_core::Dataset)s, and datasets made of
//! datasets.
//!
//! * [`npy::Packed`]: one `.npy` file whose first axis is the sample.
//! * [`npy::Folder`]: one `.npy` file per sample.
//! * [`files::Files`]: a folder of encoded files, by classes or flat.
//! * [`tar::Shards`], [`tar::Streamed`]: tar shards in webdataset's layout.
//! * [`Encoded`]: what gives bytes that others decode; [`Parts`] delivers them as they are.
//! * [`Pictures`]: encoded images, decoded and transformed; [`ImageArrays`]: the same for arrays of bytes.
//! * [`volumes`]: CT and MR volumes, of which only what a patch needs is read.
//! * `text` (feature `text`): lines of files, files in label folders, their tokens, padded or packed.
//! * `tokens` (feature `text`): token shards of nanoGPT, llm.c and Megatron.
//! * [`Zip`]: several datasets of equal length side by side, such as images and labels.
//! * [`Concat`]: several datasets one after the other.
//! * [`Select`]: some samples of a dataset, or all of them again and again.
//! * [`only`]: some fields of a dataset, without making the others where that is possible.
//! * [`Iterated`]: the order of samples that come one after the other: a shuffle buffer, the first so many.
//! * [`cache`]: finished samples kept in memory or on disk; [`snapshot`]: a sample as bytes.
//! * [`npy::Writer`]: makes packed files, row by row.
//!
//! ```
//! use feedline_core::{DType, Loader};
//! use feedline_sources::{Zip, npy};
//!
//! let dir = tempfile::tempdir()?;
//! let mut images = npy::Writer::create(dir.path().join("images.npy"), DType::F32, [2, 2])?;
//! let mut labels = npy::Writer::create(dir.path().join("labels.npy"), DType::I64, [])?;
//! for i in 0..100 {
//!     images.row(&[i as f32; 4])?;
//!     labels.row(&[i as i64])?;
//! }
//! images.finish()?;
//! labels.finish()?;
//!
//! let images = npy::Packed::open(dir.path().join("images.npy"), "image")?;
//! let labels = npy::Packed::open(dir.path().join("labels.npy"), "label")?;
//! let loader = Loader::builder(Zip::of(images).and(labels)?).batch_size(10).shuffle(1).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let image = batch.get("image").expect("a field of the file").as_slice::<f32>()?;
//!     let label = batch.get("label").expect("a field of the file").as_slice::<i64>()?;
//!     assert_eq!(image[0], label[0] as f32);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Why files are read, not mapped
//!
//! Touching a mapped page that no longer exists, because somebody shortened the file, kills the
//! process with SIGBUS, and asking for the file's length first leaves a moment in between. A
//! positional read (`pread`) straight into the batch's slot gives an error instead, always. Rows
//! gathered in shuffled order from a warm 1.8 GB file into huge-page buffers, one thread, median of
//! five rounds, on two virtual cores of a Xeon (Sapphire Rapids), Linux 6.18, ext4:
//!
//! | way | rows of 600 KB | rows of 4 KB | rows of 256 B |
//! | --- | ---: | ---: | ---: |
//! | `memcpy` from anonymous memory | 7.3 GB/s | 5.9 GB/s | 4.0 GB/s |
//! | `memcpy` from the mapped file, unchecked | 7.2 GB/s | 5.1 GB/s | 3.8 GB/s |
//! | length asked first, then `memcpy` from it | 6.9 GB/s | 3.2 GB/s | 0.45 GB/s |
//! | `pread` into the slot | 6.4 GB/s | 2.9 GB/s | 0.35 GB/s |
//!
//! So for rows of a picture's size reading costs a tenth, and wherever mapping is made half-way safe
//! nothing is left of its advantage. Where the system call does dominate, that is for rows of at most
//! [`npy::Packed::SMALL_ROW`] bytes, files of up to [`npy::Packed::HELD`] bytes are read into memory
//! when they are opened. Populating a mapping beforehand, or advising the kernel of huge pages or of
//! random access, made it slower or no difference.
//!
//! # Why the `.npy` header has a parser of its own
//!
//! `npyz` 0.9 and `ndarray-npy` 0.10 read the header with a general parser of Python literals that
//! takes time exponential in the depth of nested brackets: 20 opening and 20 closing ones take 4
//! seconds, and each further pair doubles that. They allocate what the length field says before they
//! look whether the file is that long, and do not tell where the data begins. The header that NumPy
//! writes is a flat dictionary of three known keys.

pub mod cache;
mod chosen_windows;
mod concat;
mod crowd;
mod encoded;
mod error;
mod escape;
pub mod files;
mod gather;
mod iterated;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "stores")]
mod objects;
mod only;
#[cfg(feature = "npy")]
mod parts;
#[cfg(feature = "image")]
mod pictures;
mod read_at;
#[cfg(feature = "npy")]
mod reading;
mod select;
pub mod snapshot;
#[cfg(feature = "npy")]
mod some_parts;
mod source_file;
mod stamp;
mod sync;
#[cfg(feature = "tar")]
pub mod tar;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "text")]
pub mod tokens;
#[cfg(feature = "volume")]
pub mod volumes;
mod zip;

/// Regular files: read at a place by any number of threads, and known to be what they were. For crates that add a format.
pub mod plain_file {
    pub use crate::read_at::{append_at, open_plain, read_exact_at};
    pub use crate::source_file::{Forward, SourceFile, is_url};
    pub use crate::stamp::{Stamp, since_1970};
}

pub use chosen_windows::ChosenWindows;
pub use concat::Concat;
pub use crowd::Watch;
pub use encoded::Encoded;
pub use error::SourceError;
pub(crate) use escape::escaped;
#[cfg(feature = "stores")]
pub use feedline_store as store;
pub use gather::gather;
pub use iterated::{Iterated, PassChange};
pub use only::only;
#[cfg(feature = "npy")]
pub use parts::Parts;
#[cfg(feature = "image")]
pub use pictures::{
    Axes, ImageArrays, ImageField, ImageFieldError, MixKind, Mixing, MixingError, Pictures,
    PicturesError, RowTable, Rows,
};
#[cfg(feature = "npy")]
pub use reading::{KEY, Reading, ReadingError};
pub use select::Select;
pub use zip::Zip;
