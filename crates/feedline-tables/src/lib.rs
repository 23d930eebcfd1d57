//! Tables as [`Dataset`](feedline_core::Dataset)s: sample i is row i, with a field per column.
//!
//! * [`parquet`], [`arrow`]: Parquet files; Arrow IPC files and streams.
//! * [`in_memory`], [`from_stream`]: Arrow data that is in memory already.
//! * [`Table`]: the dataset that those make; [`TableColumns`]: the same for who decodes its bytes.
//! * [`csv`], [`jsonl`]: delimited text and JSON lines, as [`Csv`] and [`JsonLines`].
//!
//! ```
//! use feedline_core::Loader;
//! use feedline_tables::{CsvOptions, RowOptions, csv};
//!
//! let dir = tempfile::tempdir()?;
//! let path = dir.path().join("people.csv");
//! std::fs::write(&path, "name,age\n\"Ann, B.\",31\nCid,7\n")?;
//!
//! let rows = RowOptions { cache_dir: Some(dir.path().into()), ..RowOptions::default() };
//! let options = CsvOptions { rows, ..CsvOptions::default() };
//! let table = csv(&[path], &options, &mut |_bytes| std::ops::ControlFlow::Continue(()))?;
//!
//! let loader = Loader::builder(table).batch_size(2).shuffle(1).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let ages = batch.get("age").expect("a column").as_slice::<i64>()?;
//!     assert_eq!(ages.iter().sum::<i64>(), 38);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What values become:
//!
//! | Arrow | in a batch |
//! | --- | --- |
//! | integers, floats, bool | numbers of the same dtype |
//! | date32, time32 | int32: days since 1970; units since midnight (Parquet has no seconds: they are kept as milliseconds) |
//! | date64, time64, timestamp, duration | int64, in the column's own unit (timestamps since 1970, UTC) |
//! | decimals | float64, the nearest |
//! | strings | text |
//! | binary of any length | bytes |
//! | dictionaries | as their values |
//! | fixed-size lists of numbers | arrays of fixed shape |
//! | lists of numbers, nested or not | ragged arrays |
//! | struct of `bytes` and `path` | bytes: an image as Hugging Face keeps it |
//! | other structs | a field `name.child` for each child |
//!
//! Lists of strings or structs, maps, unions and intervals have no form in a batch, and are refused. What stands for nulls,
//! [`TableOptions::nulls`] says.

mod cells;
mod chunk;
mod chunk_cache;
mod columns;
mod csv;
mod encoded;
mod error;
mod ipc;
mod ipc_buffers;
mod jsonl;
mod kind;
mod mapped_files;
mod memory;
mod named_files;
mod open_file;
mod parquet;
mod rows;
mod table;
mod typed;

/// What [`in_memory`] takes its batches from.
#[doc(no_inline)]
pub use arrow_array;
/// And their schema.
#[doc(no_inline)]
pub use arrow_schema;
pub use columns::{NullValue, TableOptions};
pub use csv::{Csv, CsvOptions, csv};
pub use encoded::TableColumns;
pub use error::TableError;
pub use ipc::arrow;
pub use jsonl::{JsonLines, JsonOptions, jsonl};
pub use memory::{StreamPointer, from_stream, in_memory};
pub use parquet::parquet;
pub use rows::RowOptions;
pub use table::Table;
