//! A shard's ids in memory: blocks, each read by the worker that first wants something of it.

use std::sync::{Mutex, OnceLock};

use feedline_core::{Cause, LargeMemory};

use crate::sync::lock;

/// Bytes of a block: a whole number of ids of any type, and a huge page, whose first touch costs little.
pub(super) const BLOCK: usize = 2 << 20;

#[derive(Debug)]
pub(super) struct HeldBytes {
    len: u64,
    blocks: Box<[HeldBlock]>,
}

#[derive(Debug, Default)]
struct HeldBlock {
    bytes: OnceLock<LargeMemory>,
    /// Held by who reads it: others wait rather than read it again.
    reading: Mutex<()>,
}

impl HeldBytes {
    /// Of so many bytes, none of which was read yet.
    pub(super) fn new(len: u64) -> HeldBytes {
        let blocks = (0..len.div_ceil(BLOCK as u64)).map(|_| HeldBlock::default()).collect();
        HeldBytes { len, blocks }
    }

    /// The bytes from `from` on to the end of their block, if somebody has read it.
    pub(super) fn read_before(&self, from: u64) -> Option<&[u8]> {
        let block = self.blocks.get((from / BLOCK as u64) as usize)?;
        let (first, within) = (from - from % BLOCK as u64, (from % BLOCK as u64) as usize);
        block.bytes.get()?.bytes().get(within..self.block_len(first))
    }

    /// The blocks that have some of these bytes and that nobody has read: where they begin, and how many bytes they have.
    pub(super) fn not_read(&self, from: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = from.saturating_add(len).min(self.len);
        let numbers = from / BLOCK as u64..end.div_ceil(BLOCK as u64);
        let not_read = |number: &u64| self.blocks[*number as usize].bytes.get().is_none();
        numbers.filter(not_read).map(|number| {
            let first = number * BLOCK as u64;
            (first, self.block_len(first) as u64)
        })
    }

    /// How many bytes the block has that begins there.
    fn block_len(&self, first: u64) -> usize {
        (self.len - first).min(BLOCK as u64) as usize
    }

    /// The bytes from `from` on to the end of their block. `read` fills bytes with those at a place.
    pub(super) fn from(
        &self,
        from: u64,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), Cause>,
    ) -> Result<&[u8], Cause> {
        let (number, within) = (from / BLOCK as u64, (from % BLOCK as u64) as usize);
        let block = self.blocks.get(number as usize).ok_or("the tokens lie outside of the file")?;
        let first = number * BLOCK as u64;
        let len = self.block_len(first);
        let held = match block.bytes.get() {
            Some(held) => held,
            None => {
                let _reading = lock(&block.reading);
                match block.bytes.get() {
                    Some(held) => held,
                    None => {
                        let mut held = LargeMemory::new(len)
                            .ok_or("there is no memory to hold its tokens in")?;
                        read(first, &mut held.bytes_mut()[..len])?;
                        block.bytes.get_or_init(|| held)
                    }
                }
            }
        };
        Ok(held.bytes().get(within..len).unwrap_or(&[]))
    }
}
