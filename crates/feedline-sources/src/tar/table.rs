//! What a shard holds: its samples, the parts of each, and where they are.
//!
//! Neighbouring members with one key are one sample. A part that comes again begins the next sample,
//! which may have the same key: nothing is lost, and nothing is paired with what it does not belong
//! to. So members of one key that do not lie side by side are several samples, each lacking parts.

use std::collections::HashMap;

use super::archive::{ArchiveError, Member};
use super::member_name;

/// Bytes that a table may take: a small compressed file may unpack to any number of members. It is
/// enough for some thirty million, and a shard of so many has at least 16 GB.
const MOST_BYTES: u64 = 2 << 30;

/// The samples of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardTable {
    /// Extensions that occur, in lower case.
    pub(super) extensions: Vec<String>,
    /// The samples' keys, one behind the other.
    pub(super) keys: Vec<u8>,
    pub(super) samples: Vec<SampleEntry>,
    pub(super) members: Vec<MemberPlace>,
    /// Bytes of the archive, decompressed.
    pub(super) archive_bytes: u64,
}

/// A sample: where its key ends, and its members, which begin where those before end.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct SampleEntry {
    pub(super) key_end: u64,
    pub(super) members_end: u64,
}

/// A member: which part it is, and where.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberPlace {
    /// The number of its extension.
    pub(super) extension: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl ShardTable {
    /// The key of a sample, and its members.
    pub(super) fn sample(&self, at: usize) -> (&[u8], &[MemberPlace]) {
        let before = at.checked_sub(1).map(|before| self.samples[before]);
        let before = before.unwrap_or(SampleEntry { key_end: 0, members_end: 0 });
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
    table: ShardTable,
    /// The number of each extension, and the last sample that had it, counted from 1.
    numbers: HashMap<String, (u32, usize)>,
    /// Bytes of all extensions.
    extension_bytes: usize,
}

impl Tabulator {
    /// Notes a member, if it belongs to a sample.
    pub(super) fn add(&mut self, member: &Member<'_>) -> Result<(), ArchiveError> {
        let Some((key, extension)) = member_name::split(member.name) else { return Ok(()) };
        let lower = String::from_utf8_lossy(extension).to_lowercase();
        let table = &mut self.table;
        let count = table.samples.len();
        let same_key = count.checked_sub(1).is_some_and(|last| table.sample(last).0 == key);
        let sample = match self.numbers.get(&lower) {
            // A part that comes again.
            Some((_, last)) if *last == count => count + 1,
            _ if same_key => count,
            _ => count + 1,
        };
        let extension = match self.numbers.get_mut(&lower) {
            Some((number, last)) => {
                *last = sample;
                *number
            }
            None => {
                // Every extension has a member, and a table of 2^32 of them would be too large.
                let number = table.extensions.len() as u32;
                self.extension_bytes += lower.len();
                table.extensions.push(lower.clone());
                self.numbers.insert(lower, (number, sample));
                number
            }
        };
        if sample > count {
            table.keys.extend_from_slice(key);
            let (key_end, members_end) = (table.keys.len() as u64, table.members.len() as u64);
            table.samples.push(SampleEntry { key_end, members_end });
        }
        let (offset, size) = (member.offset, member.size);
        table.members.push(MemberPlace { extension, offset, size });
        if let Some(sample) = table.samples.last_mut() {
            sample.members_end += 1;
        }
        if self.bytes() > MOST_BYTES {
            return Err(ArchiveError::TooManyMembers { most: MOST_BYTES });
        }
        Ok(())
    }

    /// Bytes of memory, about.
    fn bytes(&self) -> u64 {
        let table = &self.table;
        let bytes = table.keys.len()
            + table.samples.len() * size_of::<SampleEntry>()
            + table.members.len() * size_of::<MemberPlace>()
            // Here and in the map.
            + 2 * self.extension_bytes
            + table.extensions.len() * 2 * size_of::<(String, (u32, usize))>();
        bytes as u64
    }

    pub(super) fn finish(mut self, archive_bytes: u64) -> ShardTable {
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
                let extension =
                    |place: &MemberPlace| table.extensions[place.extension as usize].clone();
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
    fn a_part_may_come_in_every_sample_of_one_key() {
        assert_eq!(
            table(&["0.a", "0.b", "0.a", "0.a", "0.b", "1.b"]),
            [
                sample("0", &["a", "b"]),
                sample("0", &["a"]),
                sample("0", &["a", "b"]),
                sample("1", &["b"])
            ]
        );
    }

    #[test]
    fn a_sample_of_two_million_parts_takes_time_in_proportion_to_them() {
        // If each were compared with all before it, this would not end within a test's time.
        const PARTS: u64 = 2_000_000;
        let mut tabulator = Tabulator::default();
        for i in 0..PARTS {
            let name = format!("frame.{i:07}.bin");
            let member = Member { name: name.as_bytes(), offset: 512 * i, size: 1 };
            tabulator.add(&member).unwrap();
        }
        let table = tabulator.finish(0);
        assert_eq!(table.samples.len(), 1);
        assert_eq!(table.sample(0).1.len() as u64, PARTS);
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
