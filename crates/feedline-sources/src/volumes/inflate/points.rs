//! Restart points: where in a compressed stream decompression can begin.

/// The farthest back that compressed data refers.
pub(super) const WINDOW: usize = 32 << 10;

/// Bits that a block of the fixed codes begins with.
pub(super) const BLOCK_HEAD: u64 = 3;

/// A piece of a stream that can be decompressed without what is before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestartPoint {
    /// The first bit of its first block, counted in the file.
    pub(super) first_bit: u64,
    /// The bit after its last block.
    pub(super) end_bit: u64,
    /// Whether it begins within a block, before a code, rather than before one. Only blocks of the fixed codes are
    /// taken apart: some compressors make a single one of a whole file.
    pub(super) begins_within: bool,
    /// Whether it ends within a block.
    pub(super) ends_within: bool,
    /// Its first byte, counted in what is decompressed.
    pub(super) from: u64,
    /// Bytes that it has decompressed.
    pub(super) length: u64,
    /// The checksum of those.
    pub(super) checksum: u64,
    /// How many of the bytes before it it may refer to.
    pub(super) window: u32,
    /// Where those are, packed, among all windows.
    pub(super) packed_from: u64,
    pub(super) packed_length: u32,
    /// The checksum of the packed window.
    pub(super) packed_checksum: u64,
}

impl RestartPoint {
    pub(super) fn end(&self) -> u64 {
        self.from + self.length
    }

    /// The first bit that is read: within a block, room is needed for the head of one.
    pub(super) fn read_from(&self) -> u64 {
        if self.begins_within { self.first_bit.saturating_sub(BLOCK_HEAD) } else { self.first_bit }
    }
}

/// The restart points of a file, in order, without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RestartPoints {
    pub(super) points: Vec<RestartPoint>,
}

impl RestartPoints {
    /// Bytes that all is decompressed.
    pub(super) fn total(&self) -> u64 {
        self.points.last().map_or(0, RestartPoint::end)
    }

    /// Whether the numbers make sense of a file of this length with windows of so many bytes.
    pub(super) fn fit(&self, file: u64, windows: u64) -> bool {
        let (mut at, mut bit) = (0u64, 0u64);
        self.points.iter().all(|point| {
            let packed = point.packed_from.checked_add(u64::from(point.packed_length));
            let fits = point.from == at
                && point.first_bit >= bit
                && point.end_bit >= point.first_bit
                && (point.first_bit >= BLOCK_HEAD || !point.begins_within)
                && point.end_bit <= file.saturating_mul(8)
                && point.window as usize <= WINDOW
                && u64::from(point.window) <= point.from
                && point.packed_length as usize <= 2 * WINDOW
                && packed.is_some_and(|end| end <= windows)
                // Nothing is compressed to less than a 1032nd.
                && point.length <= (point.end_bit - point.first_bit).saturating_mul(130) + 258;
            let end = point.from.checked_add(point.length);
            at = end.unwrap_or(u64::MAX);
            bit = point.end_bit;
            fits && end.is_some()
        })
    }
}
