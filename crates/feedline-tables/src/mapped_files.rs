//! Arrow data whose memory is a file that somebody has mapped, as that of Hugging Face datasets on disk.
//!
//! Touching a page of a file that was shortened meanwhile kills the process by SIGBUS, with no error that anybody could catch. So what
//! of the data is in which file is found when a table is opened, and then
//!
//! | mapped data | rows |
//! | --- | --- |
//! | fit into the buffer | are read by `pread`, never through the mapping |
//! | do not | are read through the mapping, each time after asking whether the file is what it was |
//!
//! In the second case a file that is shortened in the microseconds between asking and reading still kills; there is no way to
//! read a mapping that excludes it. Which files are mapped, Linux tells; elsewhere nothing is known, and mappings are read as memory.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;

use crate::TableError;
use crate::open_file::OpenFile;

/// A stretch of this process' memory that is a stretch of a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    /// Where in the file it begins.
    offset: u64,
    path: PathBuf,
}

/// The files that some batches are in.
#[derive(Debug)]
pub(crate) struct MappedFiles {
    /// By address.
    mappings: Vec<Mapping>,
    files: Vec<OpenFile>,
    by_path: HashMap<PathBuf, usize>,
}

impl MappedFiles {
    /// The files that batches are in; `None` where they are in none.
    pub(crate) fn of(batches: &[RecordBatch]) -> Result<Option<Arc<MappedFiles>>, TableError> {
        let (mappings, files) = (mappings(), Vec::new());
        let mut mapped = MappedFiles { mappings, files, by_path: HashMap::new() };
        // Each mapping that is used, and up to which address.
        let mut used: HashMap<usize, usize> = HashMap::new();
        for column in batches.iter().flat_map(RecordBatch::columns) {
            visit(&column.to_data(), &mut |buffer| {
                if let Some(place) = mapped.find(buffer) {
                    let end = used.entry(place).or_default();
                    *end = (*end).max(buffer.as_ptr().addr() + buffer.len());
                }
            });
        }
        for (place, end) in used {
            let Mapping { start, offset, path, .. } = &mapped.mappings[place];
            let number = match mapped.by_path.get(path) {
                Some(number) => *number,
                None => {
                    // One that cannot be opened (any more) cannot be watched either.
                    let Ok(file) = OpenFile::open(path) else { continue };
                    mapped.files.push(file);
                    mapped.by_path.insert(path.clone(), mapped.files.len() - 1);
                    mapped.files.len() - 1
                }
            };
            if mapped.files[number].stamp().len < offset.saturating_add((end - start) as u64) {
                let what = "it is shorter than what was mapped of it".to_string();
                return Err(TableError::Changed { path: path.clone(), what });
            }
        }
        mapped.mappings.retain(|mapping| mapped.by_path.contains_key(&mapping.path));
        Ok((!mapped.files.is_empty()).then(|| Arc::new(mapped)))
    }

    /// The mapping that a buffer is in.
    fn find(&self, buffer: &Buffer) -> Option<usize> {
        let start = buffer.as_ptr().addr();
        let place = self.mappings.partition_point(|mapping| mapping.start <= start);
        let place = place.checked_sub(1)?;
        let end = start.checked_add(buffer.len())?;
        (!buffer.is_empty() && end <= self.mappings[place].end).then_some(place)
    }

    /// Bytes of some columns that are in files.
    pub(crate) fn bytes(&self, columns: &[ArrayRef]) -> u64 {
        let mut total = 0u64;
        for column in columns {
            visit(&column.to_data(), &mut |buffer| {
                if self.find(buffer).is_some() {
                    total = total.saturating_add(buffer.len() as u64);
                }
            });
        }
        total
    }

    /// The numbers of the files that some columns are in.
    pub(crate) fn numbers(&self, columns: &[ArrayRef]) -> Vec<usize> {
        let mut numbers = Vec::new();
        for column in columns {
            visit(&column.to_data(), &mut |buffer| {
                let path = self.find(buffer).map(|place| &self.mappings[place].path);
                numbers.extend(path.and_then(|path| self.by_path.get(path)));
            });
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Refuses files that are not what they were.
    pub(crate) fn check(&self, numbers: &[usize]) -> Result<(), TableError> {
        numbers.iter().try_for_each(|number| self.files[*number].check_unchanged())
    }

    /// The same rows in memory of their own, read out of the files.
    pub(crate) fn read(&self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        let columns = batch.columns();
        let read = columns.iter().map(|column| self.read_data(&column.to_data()).map(make_array));
        let read = read.collect::<Result<Vec<_>, _>>();
        // Whatever came of it, first whether the files are still what they were.
        self.check(&self.numbers(columns))?;
        RecordBatch::try_new(batch.schema(), read?)
            .map_err(|error| TableError::Row(error.to_string()))
    }

    fn read_data(&self, data: &ArrayData) -> Result<ArrayData, TableError> {
        let buffers = data.buffers().iter().map(|buffer| self.read_buffer(buffer));
        let children = data.child_data().iter().map(|child| self.read_data(child));
        let nulls = data.nulls().map(|nulls| {
            let bits = self.read_buffer(nulls.buffer())?;
            Ok(NullBuffer::new(BooleanBuffer::new(bits, nulls.offset(), nulls.len())))
        });
        let read = ArrayData::builder(data.data_type().clone())
            .len(data.len())
            .offset(data.offset())
            .nulls(nulls.transpose()?)
            .buffers(buffers.collect::<Result<_, TableError>>()?)
            .child_data(children.collect::<Result<_, TableError>>()?);
        // Checked, as the file may have anything in it.
        read.build().map_err(|error| TableError::Row(error.to_string()))
    }

    fn read_buffer(&self, buffer: &Buffer) -> Result<Buffer, TableError> {
        let Some(place) = self.find(buffer) else { return Ok(buffer.clone()) };
        let Mapping { start, offset, path, .. } = &self.mappings[place];
        let Some(file) = self.by_path.get(path).map(|number| &self.files[*number]) else {
            return Ok(buffer.clone());
        };
        let mut bytes = Vec::new();
        let at = offset.saturating_add((buffer.as_ptr().addr() - start) as u64);
        file.append(&mut bytes, at, buffer.len()).map_err(|source| TableError::Io {
            doing: "read",
            path: path.clone(),
            source,
        })?;
        Ok(Buffer::from_vec(bytes))
    }
}

/// Shows every buffer of an array to `look`.
fn visit(data: &ArrayData, look: &mut dyn FnMut(&Buffer)) {
    data.buffers().iter().for_each(&mut *look);
    if let Some(nulls) = data.nulls() {
        look(nulls.buffer());
    }
    for child in data.child_data() {
        visit(child, look);
    }
}

/// The files that this process has mapped, by address.
fn mappings() -> Vec<Mapping> {
    let told = std::fs::read("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<Mapping> = told.split(|byte| *byte == b'\n').filter_map(mapping).collect();
    found.sort_unstable_by_key(|mapping| mapping.start);
    found
}

/// A line such as `7f12a000-7f12b000 r--s 00001000 08:01 12345   /data/x.arrow`; `None` if it is about no file that has a name.
fn mapping(line: &[u8]) -> Option<Mapping> {
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    if path.ends_with(b" (deleted)") {
        return None;
    }
    let mut words = std::str::from_utf8(&line[..line.len() - path.len()]).ok()?.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        path: named(path)?,
    })
}

/// A path as Linux writes it, with line breaks as `\012`.
#[cfg(unix)]
fn named(path: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, behind)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(behind) => {
                bytes.push(b'\n');
                rest = behind;
            }
            None => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn named(path: &[u8]) -> Option<PathBuf> {
    Some(OsString::from(std::str::from_utf8(path).ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_files_tell_where_these_are_mapped() {
        let line = b"7f00-7fff r--s 00001000 08:01 12345                    /data/a b\\012c.arrow";
        let path = PathBuf::from("/data/a b\nc.arrow");
        let expected = Mapping { start: 0x7f00, end: 0x7fff, offset: 0x1000, path };
        assert_eq!(mapping(line), Some(expected));
        assert_eq!(mapping(b"7f00-7fff rw-p 00000000 00:00 0      [heap]"), None);
        assert_eq!(mapping(b"7f00-7fff r--s 00000000 08:01 1      /data/x (deleted)"), None);
        assert_eq!(mapping(b""), None);
    }
}
