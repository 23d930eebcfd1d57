//! An object from front to back.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use crate::error::StoreError;
use crate::object::Object;

/// A place in an object that is read from front to back: in pieces of 8 MiB, the next ones being under way. What came is
/// handed on as it came, without a copy.
#[derive(Debug, Default)]
pub struct Front {
    /// What comes next, and where that is.
    bytes: VecDeque<Bytes>,
    at: u64,
    /// Up to where pieces are under way.
    begun: u64,
}

impl Front {
    /// Some of the bytes of the object that come next; none at its end.
    pub fn next(&mut self, object: &Object) -> Result<&[u8], StoreError> {
        if self.bytes.is_empty() && self.at < object.size() {
            self.bytes = object.next_piece(self.at, &mut self.begun)?.into();
        }
        Ok(self.bytes.front().map_or(&[], |bytes| bytes))
    }

    /// Passes over so many of those that [`next`](Front::next) gave.
    pub fn pass(&mut self, bytes: usize) {
        let Some(first) = self.bytes.front_mut() else { return };
        let bytes = bytes.min(first.len());
        first.advance(bytes);
        self.at += bytes as u64;
        if first.is_empty() {
            self.bytes.pop_front();
        }
    }
}
