//! The index that may lie beside a shard in a store: `shard-000.idx` of `shard-000.tar`, as `wds2idx` of NVIDIA's
//! DALI writes it.
//!
//! ```text
//! v1.2 2
//! jpg 512 110000 a/0001.jpg cls 111616 1 a/0001.cls
//! jpg 112640 98000 a/0002.jpg cls 211968 1 a/0002.cls
//! ```
//!
//! To go through a shard that is far away is to fetch all of it; this says the same in some kilobytes. It may be about
//! another shard than the one that lies there, so it is not taken at its word: it must not be older than the shard, members
//! from all over the shard must have their headers where it says, and behind the last one there must be the archive's
//! end. One that is not right, or cannot be read, is as good as none.

use std::path::{Path, PathBuf};

use super::archive::{ArchiveError, FileTape, Member, header_says, members_from};
use super::member_name;
use super::table::{ShardTable, Tabulator};
use crate::crowd::Stop;
use crate::source_file::SourceFile;
use crate::stamp::Stamp;

/// A larger one is not read.
const MOST_BYTES: u64 = 256 << 20;
/// Members whose headers are looked at, all at the same time.
const LOOKED_AT: usize = 8;
const BLOCK: u64 = 512;

/// The table of a shard by the index beside it, if there is one and it is about this shard.
pub(super) fn table(
    shard: &Path,
    file: &SourceFile,
    state: &Stamp,
    stop: &Stop<'_>,
) -> Option<ShardTable> {
    let path = PathBuf::from(format!("{}.idx", shard.to_str()?.strip_suffix(".tar")?));
    let (index, stamp) = SourceFile::open(&path).ok()?;
    // A label that was written anew, within its block, moves no header: but the shard is newer then.
    if stamp.len > MOST_BYTES || stamp.changed < state.changed {
        return None;
    }
    let len = state.len;
    let mut text = Vec::new();
    index.append_whole(&mut text, stamp.len).ok()?;
    let said = parse(std::str::from_utf8(&text).ok()?, len)?;
    are_there(&said, file, len, stop).ok()?.then_some(())?;
    let mut tabulator = Tabulator::default();
    said.iter().try_for_each(|member| tabulator.add(member)).ok()?;
    Some(tabulator.finish(len))
}

/// The members that an index tells of, one behind the other within `len` bytes.
fn parse(text: &str, len: u64) -> Option<Vec<Member<'_>>> {
    let mut lines = text.lines();
    let count: usize = lines.next()?.strip_prefix("v1.2 ")?.trim().parse().ok()?;
    let (mut said, mut samples, mut end) = (Vec::new(), 0, 0);
    for line in lines {
        let mut words = line.split(' ');
        samples += 1;
        while let Some(extension) = words.next() {
            let offset: u64 = words.next()?.parse().ok()?;
            let size: u64 = words.next()?.parse().ok()?;
            let name = words.next()?;
            let fits = offset.is_multiple_of(BLOCK) && offset >= BLOCK + end;
            if !fits || !name.ends_with(extension) {
                return None;
            }
            end = offset.checked_add(size).filter(|end| *end <= len)?;
            said.push(Member { name: name.as_bytes(), offset, size });
        }
    }
    (samples == count && !said.is_empty()).then_some(said)
}

/// Whether members are where they are said to be, and the last one is the last.
fn are_there(
    said: &[Member<'_>],
    file: &SourceFile,
    len: u64,
    stop: &Stop<'_>,
) -> Result<bool, ArchiveError> {
    let step = said.len().div_ceil(LOOKED_AT).max(1);
    let some = || said.iter().step_by(step);
    some().for_each(|member| file.expect(member.offset - BLOCK, BLOCK));
    for member in some() {
        let mut block = [0; BLOCK as usize];
        file.read_exact_at(&mut block, member.offset - BLOCK)?;
        if !header_says(&block, member) {
            return Ok(false);
        }
    }
    let Some(last) = said.last() else { return Ok(false) };
    let from = last.offset - BLOCK;
    let (mut found, mut others) = (0, 0);
    let visit = |member: Member<'_>| {
        let is_last =
            (member.name, member.offset, member.size) == (last.name, last.offset, last.size);
        found += usize::from(is_last);
        others += usize::from(!is_last && member_name::split(member.name).is_some());
        Ok(())
    };
    let end = members_from(&mut FileTape::at(file, from, len), from, stop, visit)?;
    Ok((found, others) == (1, 0) && end == len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_tells_members_in_their_order_within_the_shard() {
        let text = "v1.2 2\njpg 512 10 a/1.jpg cls 1536 1 a/1.cls\nseg.png 2560 20 a/2.seg.png\n";
        let said = parse(text, 4096).unwrap();
        let plain: Vec<(&[u8], u64, u64)> =
            said.iter().map(|member| (member.name, member.offset, member.size)).collect();
        let expected: [(&[u8], u64, u64); 3] =
            [(b"a/1.jpg", 512, 10), (b"a/1.cls", 1536, 1), (b"a/2.seg.png", 2560, 20)];
        assert_eq!(plain, expected);
    }

    #[test]
    fn what_is_no_index_of_this_shard_is_none() {
        for wrong in [
            "",
            "v1.2 0\n",
            "v1.1 1\njpg 512 10\n",
            "v1.2 2\njpg 512 10 1.jpg\n",
            "v1.2 1\njpg 512 10\n",
            "v1.2 1\njpg 512 10 with a space.jpg\n",
            "v1.2 1\njpg 513 10 1.jpg\n",
            "v1.2 1\njpg 0 10 1.jpg\n",
            "v1.2 1\njpg 512 4000 1.jpg\n",
            "v1.2 1\njpg 512 18446744073709551615 1.jpg\n",
            "v1.2 1\njpg 512 10 1.png\n",
            "v1.2 1\njpg 1536 10 1.jpg cls 512 1 1.cls\n",
            "<html><body>no such page</body></html>",
        ] {
            assert!(parse(wrong, 4096).is_none(), "{wrong:?}");
        }
    }
}
