//! Tables as [`Dataset`](feedline_core::Dataset)s: sample i is row i, with a field per column.
//!
//! * [`parquet`]: Parquet files.
//! * [`Table`]: the dataset that they make.
//!
//! What values of which type become, see the table in [`TableOptions`]; what stands for nulls is said there, too.

mod cells;
mod chunk;
mod chunk_cache;
mod columns;
mod encoded;
mod error;
mod ipc;
mod kind;
mod memory;
mod open_file;
mod parquet;
mod table;

pub use columns::{NullValue, TableOptions};
pub use encoded::TableColumns;
pub use error::TableError;
pub use ipc::arrow;
pub use memory::{from_stream, in_memory};
pub use parquet::parquet;
pub use table::Table;
