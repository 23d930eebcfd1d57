//! What can be wrong with a source.

use std::io;
use std::path::PathBuf;

use feedline_core::DType;

#[cfg(feature = "npy")]
use crate::npy::HeaderError;
#[cfg(feature = "tar")]
use crate::tar::ArchiveError;
#[cfg(feature = "volume")]
use crate::volumes::VolumeError;

/// Why a source cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// An iterable dataset where a number of samples is needed.
    #[error(
        "{what} needs to know how many samples there are, and an iterable dataset cannot tell; do it in its iterator"
    )]
    UnknownLength {
        /// What needs to know.
        what: &'static str,
    },
    /// The system refused.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    Io {
        /// What was tried: open, read, write, list.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A store refused, or cannot be reached.
    #[error("{0}")]
    Store(#[source] io::Error),
    /// Not a plain file.
    #[error("`{}` is {what}; {advice}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// The file's header is not one that can be used.
    #[cfg(feature = "npy")]
    #[error("`{}`: {source}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: HeaderError,
    },
    /// The file is shorter than its header says, or became so.
    #[error(
        "`{}` has {actual} bytes but its header asks for {expected}: it was cut off; write or copy \
         it again",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Bytes that the header asks for, with the header.
        expected: u64,
        /// Bytes that are there.
        actual: u64,
    },
    /// The file is not what it was when it was opened.
    #[error(
        "`{}` has changed since it was opened: {what}; open it again (to replace a file that is in use, \
         rename another over it)",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is different.
        what: String,
    },
    /// A packed file without an axis for the samples.
    #[error(
        "`{}` holds a single number (shape `()`), and a packed file needs a first axis to count \
         samples; save `a.reshape(1)` for one sample",
        path.display()
    )]
    ZeroDimensional {
        /// The file.
        path: PathBuf,
    },
    /// One sample would not fit the address space.
    #[error("one sample of `{}` has shape {shape:?}, which is too large; check the file", path.display())]
    RowTooLarge {
        /// The file.
        path: PathBuf,
        /// The sample's shape.
        shape: Vec<usize>,
    },
    /// No `.npy` file in a folder.
    #[error(
        "`{}` has no `.npy` file directly in it; give the folder that holds them",
        path.display()
    )]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that should have class folders has none.
    #[error(
        "`{}` has no folder in it, and each class needs one; without classes, open it flat",
        path.display()
    )]
    NoClasses {
        /// The folder.
        path: PathBuf,
    },
    /// Class folders without a file that counts.
    #[error(
        "no file in class {classes} of `{}` ends in {extensions}; remove the folder, or allow empty \
         classes",
        path.display()
    )]
    EmptyClasses {
        /// The folder of the classes.
        path: PathBuf,
        /// The empty ones, as text.
        classes: String,
        /// The endings that count.
        extensions: String,
    },
    /// A folder without a file that counts.
    #[error("no file below `{}` ends in {extensions}; give another folder or other extensions", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
        /// The endings that count.
        extensions: String,
    },
    /// A shard that cannot be read.
    #[cfg(feature = "tar")]
    #[error("shard `{path}`: {source}")]
    Shard {
        /// The shard, escaped where it is no text.
        path: String,
        /// What is wrong with it.
        source: ArchiveError,
    },
    /// A volume that cannot be read.
    #[cfg(feature = "volume")]
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Files of volumes that do not belong together, or a list of them that is none.
    #[cfg(feature = "volume")]
    #[error("`{path}` {what}")]
    VolumeLayout {
        /// The folder or list, escaped where it is no text.
        path: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// No sample has a part of that name.
    #[error("no sample has a part `{part}`; the first sample has: {there}")]
    NoSuchPart {
        /// The name.
        part: String,
        /// Those that the first sample has.
        there: String,
    },
    /// More parts than a sample may have.
    #[error(
        "{of} has {parts} parts, more than the {most} that a sample may have; name the parts you want (a \
         member's name up to its first dot is its sample: `frame_0001.jpg` begins another one, \
         `frame.0001.jpg` does not)"
    )]
    TooManyParts {
        /// Whose they are.
        of: String,
        /// How many there are.
        parts: usize,
        /// How many there may be.
        most: usize,
    },
    /// A window that does not fit into memory.
    #[error(
        "a window of {window} samples may take {needed} bytes (two of the largest such windows), more \
         than the buffer's {buffer}; make the window smaller or the buffer larger"
    )]
    Window {
        /// Samples in the window.
        window: u64,
        /// Bytes they may have, twice.
        needed: u64,
        /// Bytes that are allowed.
        buffer: u64,
    },
    /// The watcher broke the opening off.
    #[error("opening was interrupted")]
    Interrupted,
    /// A sample's file differs from the others.
    #[error(
        "`{}` holds {dtype} of shape {shape:?}, but `{}` holds {expected_dtype} of shape \
         {expected_shape:?}; all files of a folder must agree: convert or remove one",
        path.display(),
        reference.display()
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Its dtype.
        dtype: DType,
        /// Its shape.
        shape: Vec<usize>,
        /// The file that set the rule: the first one.
        reference: PathBuf,
        /// The dtype of that one.
        expected_dtype: DType,
        /// The shape of that one.
        expected_shape: Vec<usize>,
    },
    /// Sources side by side that have different numbers of samples.
    #[error(
        "field `{first}` has {first_len} samples and field `{second}` has {second_len}; sources side \
         by side need one sample each for every index: check that both belong together"
    )]
    Lengths {
        /// A field of the one.
        first: String,
        /// Its number of samples.
        first_len: u64,
        /// A field of the other.
        second: String,
        /// Its number of samples.
        second_len: u64,
    },
    /// Sources side by side that use one name twice.
    #[error("two sources have a field `{name}`; open one of them with another field name")]
    DuplicateField {
        /// The name.
        name: String,
    },
    /// A dtype that the format cannot say.
    #[error("`.npy` has no {dtype}; write it as {instead}")]
    NoSuchDType {
        /// The dtype.
        dtype: DType,
        /// What to use.
        instead: &'static str,
    },
    /// Values of another type than the file's.
    #[error("`{}` takes rows of {expected}, got {got}; convert them", path.display())]
    RowDType {
        /// The file.
        path: PathBuf,
        /// The dtype it was created with.
        expected: DType,
        /// The values' dtype.
        got: DType,
    },
    /// A row of another size than the file's.
    #[error(
        "`{}` takes rows of shape {shape:?}, that is {expected} bytes, got {got}",
        path.display()
    )]
    RowSize {
        /// The file.
        path: PathBuf,
        /// The shape it was created with.
        shape: Vec<usize>,
        /// Bytes of such a row.
        expected: usize,
        /// Bytes that were given.
        got: usize,
    },
    /// Nothing was given to join.
    #[error("{what} needs at least one dataset")]
    NothingToJoin {
        /// The operation.
        what: &'static str,
    },
    /// Datasets one after the other that have different fields.
    #[error(
        "dataset {part} has the fields {other}, but the first has {first}; datasets one after the \
         other need the same fields: convert one of them"
    )]
    FieldsDiffer {
        /// The dataset's number, from 0.
        part: usize,
        /// The first one's fields.
        first: String,
        /// Its fields.
        other: String,
    },
    /// More samples than can be counted.
    #[error("the datasets have more than 2^64 samples together; use fewer")]
    TooManySamples,
    /// A selection of a sample that is not there.
    #[error("entry {at} selects sample {index}, but there are {len}; select indices below {len}")]
    NoSuchSample {
        /// Where in the selection.
        at: usize,
        /// The index.
        index: u64,
        /// How many samples there are.
        len: u64,
    },
    /// A cache that holds other samples.
    #[error(
        "the cache in `{}` holds other samples; use another folder or empty it\nthere:\n{there}wanted:\n{wanted}",
        folder.display()
    )]
    OtherCache {
        /// The folder.
        folder: PathBuf,
        /// What it says of its samples.
        there: String,
        /// What it should say.
        wanted: String,
    },
    /// Text in another encoding.
    #[error("`{}` is {what}, and text is read as UTF-8; convert it, e.g. with `iconv -t utf-8`", path.display())]
    NotUtf8Text {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file of next to nothing but empty lines.
    #[error("`{}` has more lines than a table may list (4 GiB of it); split the file", path.display())]
    TooManyLines {
        /// The file.
        path: PathBuf,
    },
    /// A compressed file that unpacks to too much.
    #[error(
        "`{}` unpacks to more than the {most} bytes that are allowed; raise max_unpacked if it is what it should be",
        path.display()
    )]
    UnpacksToMore {
        /// The file.
        path: PathBuf,
        /// How many bytes there may be.
        most: u64,
    },
    /// A large compressed file, and no folder to unpack it to.
    #[error(
        "`{}` is compressed and too large to be held in memory, and there is no cache folder; set cache",
        path.display()
    )]
    NoCacheFolder {
        /// The file.
        path: PathBuf,
    },
    /// A label without a folder.
    #[error("`{}` has no folder {name}; labels are the names of folders in it", path.display())]
    NoSuchLabel {
        /// The folder.
        path: PathBuf,
        /// The label.
        name: String,
    },
    /// A sample that could not be made while all were gone through.
    #[error("sample {sample} ({origin}): {cause}")]
    Sample {
        /// Its number.
        sample: u64,
        /// Where it comes from.
        origin: String,
        /// Why.
        cause: String,
    },
    /// A file that holds no tokens as it should.
    #[error("`{}`: {what}", path.display())]
    NoTokens {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Fewer tokens than a window has.
    #[error(
        "a window of {length} tokens needs {needed}, at least 1, and there are {tokens}; take shorter windows"
    )]
    NoWindow {
        /// Tokens of a window.
        length: u64,
        /// Those that are needed for one.
        needed: u64,
        /// Those that there are.
        tokens: u64,
    },
}
