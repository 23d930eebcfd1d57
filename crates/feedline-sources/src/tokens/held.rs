//! A shard's ids in memory: blocks, each read by the worker that first wants something of it.

use std::sync::{Mutex, OnceLock};

use feedline_core::Cause;

use crate::sync::lock;

/// Bytes of a block: a whole number of ids of any type, and so many that reading them costs more than the system call.
pub(super) const BLOCK: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct HeldBytes {
    len: u64,
    blocks: Box<[HeldBlock]>,
}

#[derive(Debug, Default)]
struct HeldBlock {
    bytes: OnceLock<Vec<u8>>,
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
        block.bytes.get()?.get((from % BLOCK as u64) as usize..)
    }

    /// The bytes from `from` on to the end of their block. `read` reads so many bytes at a place.
    pub(super) fn from(
        &self,
        from: u64,
        read: impl FnOnce(u64, usize) -> Result<Vec<u8>, Cause>,
    ) -> Result<&[u8], Cause> {
        let (number, within) = (from / BLOCK as u64, (from % BLOCK as u64) as usize);
        let block = self.blocks.get(number as usize).ok_or("the tokens lie outside of the file")?;
        let bytes = match block.bytes.get() {
            Some(bytes) => bytes,
            None => {
                let _reading = lock(&block.reading);
                match block.bytes.get() {
                    Some(bytes) => bytes,
                    None => {
                        let first = number * BLOCK as u64;
                        let bytes = read(first, (self.len - first).min(BLOCK as u64) as usize)?;
                        block.bytes.get_or_init(|| bytes)
                    }
                }
            }
        };
        Ok(bytes.get(within..).unwrap_or(&[]))
    }
}
