//! Text: lines of files, files in label folders, and what is made of them.
//!
//! * [`TextLines`]: a sample is a line of one of many files, found by a table of where lines begin.
//! * [`TextFiles`]: a sample is a whole file; folders are labels.
//! * [`Sequences`]: text to ids, truncated and padded.
//! * [`PackedRows`]: documents packed into rows of one length.
//! * [`count_words`], [`measure`]: all samples gone through once, by all cores.
//!
//! ```
//! use std::sync::Arc;
//!
//! use feedline_core::Loader;
//! use feedline_sources::text::{
//!     PadLength, SequenceOptions, SequencePadding, Sequences, TextLines, TextOptions, count_words,
//! };
//! use feedline_text::{Vocabulary, VocabularyOptions};
//!
//! let dir = tempfile::tempdir()?;
//! std::fs::write(dir.path().join("a.txt"), "the cat sat\nthe dog\n")?;
//! let options = TextOptions { cache_dir: Some(dir.path().join("cache")), ..TextOptions::default() };
//! let go_on = &mut |_: u64| std::ops::ControlFlow::Continue(());
//! let lines = Arc::new(TextLines::open(&[dir.path().join("a.txt")], &options, go_on)?);
//! let counts = count_words(&*lines, 0, go_on)?;
//! let vocabulary = Vocabulary::build(counts, &VocabularyOptions::default())?;
//! let options = SequenceOptions {
//!     padding: Some(SequencePadding { to: PadLength::Exactly(4), ..SequencePadding::default() }),
//!     ..SequenceOptions::of(Arc::new(vocabulary))
//! };
//! let ids = Sequences::new(lines, 0, options)?;
//! for batch in Loader::builder(ids).batch_size(2).build()?.epoch() {
//!     let batch = batch?;
//!     let ids = batch.get("text").expect("its name").as_slice::<i64>()?.to_vec();
//!     assert_eq!(ids, [2, 3, 5, 0, 2, 4, 0, 0]);
//! }
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod compression;
mod decoding;
mod kept_table;
mod line_table;
mod lines;
mod opened;
mod packed_rows;
mod passing;
mod scan;
mod sequences;
mod whole_files;

pub use decoding::{OnBadText, TextEncoding};
pub use lines::{TextLines, TextOptions};
pub use packed_rows::{PackedRows, PackedRowsError, PackedRowsOptions};
pub use passing::{count_words, measure};
pub use sequences::{PadLength, SequenceError, SequenceOptions, SequencePadding, Sequences};
pub use whole_files::{TextFiles, TextFilesOptions};
