//! What can be wrong with a table.

use std::io;
use std::path::PathBuf;

/// Why a table cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The system refused.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    Io {
        /// What was tried: open, read.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a file of the format.
    #[error("`{}` is no {format} file, or was damaged or cut off: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it should be.
        format: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Compressed in a way that is not read.
    #[error("`{}` is compressed by {with}, which is not read here; {advice}", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
        /// What compressed it.
        with: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The file is not what it was when it was opened.
    #[error("`{}` has changed since it was opened: {what}; open it again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is different.
        what: String,
    },
    /// No file was given.
    #[error("a table needs at least one file")]
    NoFiles,
    /// A column that is not there.
    #[error("{of} has no column `{column}`; it has {there}")]
    NoSuchColumn {
        /// The file or table.
        of: String,
        /// The name asked for.
        column: String,
        /// Those that are there.
        there: String,
    },
    /// No column at all.
    #[error("{of} has no column that a batch could hold; choose others with columns=[…]")]
    NoColumns {
        /// The file or table.
        of: String,
    },
    /// A column whose values have no form in a batch.
    #[error(
        "column `{column}` of {of} has type {kind}, which has no form in a batch; choose the others with columns=[…]"
    )]
    NoForm {
        /// The file or table.
        of: String,
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
    /// Another file has the column with another type.
    #[error(
        "column `{column}` has type {kind} in `{}` but {expected} in `{}`; files of one table need one schema: convert \
         one of them, or leave the column out with columns=[…]",
        path.display(), reference.display()
    )]
    SchemaChange {
        /// The column.
        column: String,
        /// The file that differs.
        path: PathBuf,
        /// Its type there.
        kind: String,
        /// The first file.
        reference: PathBuf,
        /// Its type in that one.
        expected: String,
    },
    /// A setting that names no column, or a value that the column cannot hold.
    #[error("{setting} of column `{column}`: {why}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The column.
        column: String,
        /// What is wrong and what to pass instead.
        why: String,
    },
    /// Rows that take more memory than there may be.
    #[error(
        "{rows} rows of `{}` take {needed} bytes in memory, more than the buffer's {buffer}; make the buffer larger, or \
         choose fewer columns",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many rows are decoded together.
        rows: u64,
        /// Bytes they take.
        needed: u64,
        /// Bytes that are allowed.
        buffer: u64,
    },
    /// A row that cannot be read.
    #[error("{0}")]
    Row(String),
    /// The watcher broke the opening off.
    #[error("opening was interrupted")]
    Interrupted,
}
