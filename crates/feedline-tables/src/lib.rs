//! Tables as [`Dataset`](feedline_core::Dataset)s: sample i is row i, with a field per column.
//!
//! * [`parquet`], [`arrow`]: Parquet files; Arrow IPC files and streams.
//! * [`in_memory`], [`from_stream`]: Arrow data that is in memory already.
//! * [`Table`]: the dataset that those make; [`TableColumns`]: the same for who decodes its bytes.
//! * [`csv`], [`jsonl`]: delimited text and JSON lines, as [`Csv`] and [`JsonLines`].
//!
//! What values of which type become, see the table in [`TableOptions`]; what stands for nulls is said there, too.

mod cells;
mod chunk;
mod chunk_cache;
mod columns;
mod csv;
mod encoded;
mod error;
mod ipc;
mod jsonl;
mod kind;
mod memory;
mod open_file;
mod parquet;
mod rows;
mod table;
mod typed;

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
