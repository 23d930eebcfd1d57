//! What a shard holds: its samples, the parts of each, and where they are.
//!
//! Neighbouring members with one key are one sample. A part that comes again begins the next sample,
//! which may have the same key: nothing is lost, and nothing is paired with what it does not belong
//! to. So members of one key that do not lie side by side are several samples, each lacking parts.

use std::collections::HashMap;

use super::archive::{ArchiveError, Member};
use super::member_name;

/// The samples of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Extensions that occur, in lower case.
    pub(super) extensions: Vec<String>,
    /// The samples' keys, one behind the other.
    pub(super) keys: Vec<u8>,
    pub(super) samples: Vec<Entry>,
    pub(super) members: Vec<Place>,
    /// Bytes of the archive, decompressed.
    pub(super) archive_bytes: u64,
}

/// A sample: where its key ends, and its members, which begin where those before end.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key_end: u64,
    pub(super) members_end: u64,
}

/// A member: which part it is, and where.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its extension.
    pub(super) extension: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Table {
    /// The key of a sample, and its members.
    pub(super) fn sample(&self, at: usize) -> (&[u8], &[Place]) {
        let before = at.checked_sub(1).map(|before| self.samples[before]);
        let before = before.unwrap_or(Entry { key_end: 0, members_end: 0 });
        let entry = self.samples[at];
        (
            &self.keys[before.key_end as usize..entry.key_end as usize],
            &self.members[before.members_end as usize..entry.members_end as usize],
        )
    }
}

/// Makes a table, member by member.
#[derive(Default)]
pub(super) struct Tabulator {
    table: Table,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Tabulator {
    /// Notes a member, if it belongs to a sample.
    pub(super) fn add(&mut self, member: &Member<'_>) -> Result<(), ArchiveError> {
        let Some((key, extension)) = member_name::split(member.name) else { return Ok(()) };
        let extension = self.number(extension);
        let table = &mut self.table;
        let goes_on = table.samples.len().checked_sub(1).is_some_and(|last| {
            let (open, members) = table.sample(last);
            open == key && members.iter().all(|member| member.extension != extension)
        });
        if !goes_on {
            table.keys.extend_from_slice(key);
            let (key_end, members_end) = (table.keys.len() as u64, table.members.len() as u64);
            table.samples.push(Entry { key_end, members_end });
        }
        let (offset, size) = (member.offset, member.size);
        table.members.push(Place { extension, offset, size });
        if let Some(sample) = table.samples.last_mut() {
            sample.members_end += 1;
        }
        Ok(())
    }

    fn number(&mut self, extension: &[u8]) -> u32 {
        let lower = String::from_utf8_lossy(extension).to_lowercase();
        if let Some(number) = self.numbers.get(lower.as_bytes()) {
            return *number;
        }
        // Every extension has a member, and a shard of 2^32 of them has two terabytes of headers.
        let number = self.table.extensions.len() as u32;
        self.numbers.insert(lower.clone().into_bytes(), number);
        self.table.extensions.push(lower);
        number
    }

    pub(super) fn finish(mut self, archive_bytes: u64) -> Table {
        self.table.archive_bytes = archive_bytes;
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str]) -> Vec<(String, Vec<String>)> {
        let mut tabulator = Tabulator::default();
        for (i, name) in names.iter().enumerate() {
            let member = Member { name: name.as_bytes(), offset: 512 * i as u64, size: 1 };
            tabulator.add(&member).unwrap();
        }
        let table = tabulator.finish(0);
        (0..table.samples.len())
            .map(|at| {
                let (key, members) = table.sample(at);
                let extension = |place: &Place| table.extensions[place.extension as usize].clone();
                let key = String::from_utf8(key.to_vec()).unwrap();
                (key, members.iter().map(extension).collect())
            })
            .collect()
    }

    fn sample(key: &str, parts: &[&str]) -> (String, Vec<String>) {
        (key.to_string(), parts.iter().map(|part| (*part).to_string()).collect())
    }

    #[test]
    fn neighbours_with_one_key_are_a_sample() {
        assert_eq!(
            table(&["a.jpg", "README", "a.CLS", "b.jpg", "b.cls"]),
            [sample("a", &["jpg", "cls"]), sample("b", &["jpg", "cls"])]
        );
    }

    #[test]
    fn a_part_that_comes_again_begins_another_sample() {
        assert_eq!(
            table(&["0.jpg", "0.cls", "0.jpg", "0.cls"]),
            [sample("0", &["jpg", "cls"]), sample("0", &["jpg", "cls"])]
        );
        assert_eq!(
            table(&["0.jpg", "1.jpg", "0.cls", "1.cls"]),
            [
                sample("0", &["jpg"]),
                sample("1", &["jpg"]),
                sample("0", &["cls"]),
                sample("1", &["cls"])
            ]
        );
    }
}
