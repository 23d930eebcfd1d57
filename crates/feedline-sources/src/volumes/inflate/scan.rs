//! Reading a compressed file from front to back, once: what is wanted of it, and its restart points.

use std::hash::Hasher;

use feedline_core::Stage;
use twox_hash::XxHash3_64;

use super::block_stream::{BadStream, BlockState, BlockStream};
use super::fixed_block::FixedCode;
use super::points::{RestartPoint, RestartPoints, WINDOW};
use super::sparse::Sparse;
use super::spliced::{SplicedBits, WindowPacker};
use crate::source_file::SourceFile;
use crate::volumes::error::VolumeProblem;

/// Bytes read at once.
const INPUT: usize = 256 << 10;
/// Bytes decompressed at once.
const OUTPUT: usize = 256 << 10;
/// Compressed bytes of a piece that are more than enough for as many as a window has.
const BEGINNING: u64 = 40 << 10;
/// What may follow the data of a volume; the checksum at the stream's end is not looked for beyond.
const TAIL: u64 = 16 << 20;

/// What a scan makes.
pub(super) struct Scanned {
    pub(super) points: RestartPoints,
    /// All packed windows, one after the other.
    pub(super) windows: Vec<u8>,
    /// Bytes read of the file.
    pub(super) read: u64,
}

/// The file, read piece by piece.
struct Input<'a> {
    file: &'a SourceFile,
    /// Of the file: the place of the buffer's first byte.
    at: u64,
    length: u64,
    buffer: Vec<u8>,
    used: usize,
    read: u64,
}

impl Input<'_> {
    fn left(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    /// Where in the file the next byte is.
    fn place(&self) -> u64 {
        self.at + self.used as u64
    }

    /// Makes sure that there is something, unless the file ends.
    fn fill(&mut self, stage: &mut dyn FnMut(Stage)) -> Result<(), VolumeProblem> {
        if self.used < self.buffer.len() {
            return Ok(());
        }
        self.at += self.used as u64;
        self.used = 0;
        self.buffer.clear();
        let wanted = self.length.saturating_sub(self.at).min(INPUT as u64) as usize;
        stage(Stage::Load);
        self.file
            .append_at(&mut self.buffer, self.at, wanted)
            .map_err(VolumeProblem::io("read"))?;
        stage(Stage::Decode);
        self.read += wanted as u64;
        Ok(())
    }

    /// The next two bytes; zeros beyond the file's end.
    fn two(&self) -> Result<[u8; 2], VolumeProblem> {
        let mut two = [0; 2];
        let there = self.length.saturating_sub(self.place()).min(2) as usize;
        let read = self.file.read_exact_at(&mut two[..there], self.place());
        read.map_err(VolumeProblem::io("read"))?;
        Ok(two)
    }
}

/// A piece in the making.
struct ScannedPiece {
    point: RestartPoint,
    hash: XxHash3_64,
    window: Vec<u8>,
    /// The first bytes, from which the window can be referred to.
    beginning: Vec<u8>,
}

impl ScannedPiece {
    /// Whether it is so long that it may end at a bit. Where data is compressed so well that inflating it costs next to
    /// nothing, points are farther apart.
    fn is_enough(&self, bit: u64, spacing: u64) -> bool {
        let packed = bit.saturating_sub(self.point.first_bit) / 8;
        let length = self.point.length;
        (length >= spacing && packed >= spacing / 16) || length / 8 >= spacing
    }
}

/// Reads from byte `start` on; `length` is the file's. Everything is given to `sink` with its place, in order.
/// Beyond `needed` decompressed bytes it need not go, but does so to the end of the stream, to check it. Restart points
/// are at least `spacing` decompressed bytes apart.
pub(super) fn scan(
    file: &SourceFile,
    (start, length): (u64, u64),
    needed: u64,
    spacing: u64,
    sink: &mut dyn FnMut(u64, &[u8]),
    stage: &mut dyn FnMut(Stage),
) -> Result<Scanned, VolumeProblem> {
    let bad = |BadStream(what): BadStream| VolumeProblem::damaged(what);
    let mut stream = BlockStream::new().map_err(bad)?;
    let buffer = Vec::new();
    let mut input = Input { file, at: start, length, buffer, used: 0, read: 0 };
    let mut made = TableInMaking::new(file, length, spacing);
    loop {
        input.fill(stage)?;
        if input.left().is_empty() {
            return Err(VolumeProblem::damaged("it ends within the compressed stream"));
        }
        let room = made.room(sink);
        let step = stream.step(input.left(), room).map_err(bad)?;
        input.used += step.taken;
        made.took(step.made);
        if step.taken == 0 && step.made == 0 && step.state == BlockState::Within {
            return Err(VolumeProblem::damaged("it does not go on"));
        }
        let place = input.place();
        let bit = |bits: u8| (place * 8).saturating_sub(u64::from(bits));
        match step.state {
            BlockState::Within => made.within(),
            BlockState::Between { bits } => made.between(bit(bits)),
            BlockState::Last { bits } => made.last(bit(bits)),
            BlockState::End => {
                // A stream may have ended in the same call as its last block.
                made.last(bit(0));
                // Another member, as `cat a.gz b.gz` makes it; anything else is no data.
                if input.two()? != [0x1f, 0x8b] {
                    break;
                }
                stream.reset();
            }
        }
        if made.total() > needed.saturating_add(TAIL) {
            made.last(bit(0));
            made.cut();
            break;
        }
    }
    made.finish(sink, input.read)
}

/// What is decompressed, on its way to points and the sink.
struct TableInMaking<'a> {
    file: &'a SourceFile,
    /// The file's.
    length: u64,
    /// Decompressed bytes from one point to the next, at least: no fewer than a window has.
    spacing: u64,
    /// The window, then what was decompressed since.
    buffer: Vec<u8>,
    /// How much of the buffer counts.
    filled: usize,
    /// How much of the buffer the sink and the piece have seen.
    seen: usize,
    /// The place of the buffer's first byte.
    at: u64,
    /// Where the stream that is read began.
    member: u64,
    /// A code of the block that is read, at which the piece may end, if it is a block that is taken apart.
    stop: Option<FixedCode>,
    piece: Option<ScannedPiece>,
    points: Vec<RestartPoint>,
    windows: Vec<u8>,
    packer: WindowPacker,
    sparse: Sparse,
    /// Compressed bytes of a piece's beginning.
    packed: Vec<u8>,
}

impl<'a> TableInMaking<'a> {
    fn new(file: &'a SourceFile, length: u64, spacing: u64) -> TableInMaking<'a> {
        TableInMaking {
            file,
            length,
            spacing: spacing.max(WINDOW as u64),
            buffer: vec![0; WINDOW + OUTPUT],
            filled: 0,
            seen: 0,
            at: 0,
            member: 0,
            stop: None,
            piece: None,
            points: Vec::new(),
            windows: Vec::new(),
            packer: WindowPacker::new(),
            sparse: Sparse::default(),
            packed: Vec::new(),
        }
    }

    fn total(&self) -> u64 {
        self.at + self.filled as u64
    }

    /// Room for more; what is there moves on.
    fn room(&mut self, sink: &mut dyn FnMut(u64, &[u8])) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            sink(self.at + self.unsunk() as u64, &self.buffer[self.unsunk()..self.filled]);
            self.hash();
            let moved = self.filled - WINDOW;
            self.buffer.copy_within(moved.., 0);
            self.at += moved as u64;
            self.filled = WINDOW;
            self.seen = WINDOW;
        }
        // Exactly to the code at which the piece is to end.
        let wanted = self.stop.map_or(u64::MAX, |code| code.from.saturating_sub(self.total()));
        let free = (self.buffer.len() - self.filled) as u64;
        let room = free.min(wanted.max(1)) as usize;
        &mut self.buffer[self.filled..self.filled + room]
    }

    /// The sink has seen the window that the buffer begins with.
    fn unsunk(&self) -> usize {
        if self.at == 0 { 0 } else { WINDOW }
    }

    fn took(&mut self, made: usize) {
        self.filled += made;
    }

    /// Counts what was decompressed into the piece.
    fn hash(&mut self) {
        if let Some(piece) = &mut self.piece {
            let new = &self.buffer[self.seen..self.filled];
            piece.hash.write(new);
            let missing = WINDOW - piece.beginning.len();
            piece.beginning.extend_from_slice(&new[..new.len().min(missing)]);
            piece.point.length += new.len() as u64;
        }
        self.seen = self.filled;
    }

    /// Within a block, perhaps where a piece ends and another begins.
    fn within(&mut self) {
        self.hash();
        let Some(code) = self.stop.filter(|code| code.from == self.total()) else { return };
        if self.piece.as_ref().is_some_and(|piece| piece.is_enough(code.bit, self.spacing)) {
            self.end_piece(code.bit, true);
            self.begin_piece(code.bit, true);
        }
        self.stop = code.at(self.file, self.length, code.from.saturating_add(self.spacing));
    }

    /// Between two blocks: perhaps a piece ends and another begins.
    fn between(&mut self, bit: u64) {
        self.hash();
        let first = FixedCode::first(self.file, bit, self.total());
        self.stop = first.and_then(|code| {
            code.at(self.file, self.length, code.from.saturating_add(self.spacing))
        });
        match &self.piece {
            Some(piece) if !piece.is_enough(bit, self.spacing) => return,
            Some(_) => self.end_piece(bit, false),
            None => self.member = self.total(),
        }
        self.begin_piece(bit, false);
    }

    fn begin_piece(&mut self, bit: u64, begins_within: bool) {
        let window = (self.total() - self.member).min(WINDOW as u64) as usize;
        let point = RestartPoint {
            first_bit: bit,
            end_bit: bit,
            begins_within,
            ends_within: false,
            from: self.total(),
            length: 0,
            checksum: 0,
            window: window as u32,
            packed_from: 0,
            packed_length: 0,
            packed_checksum: 0,
        };
        let window = self.buffer[self.filled - window..self.filled].to_vec();
        let (hash, beginning) = (XxHash3_64::new(), Vec::new());
        self.piece = Some(ScannedPiece { point, hash, window, beginning });
    }

    /// After the last block of a stream.
    fn last(&mut self, bit: u64) {
        self.hash();
        self.stop = None;
        self.end_piece(bit, false);
    }

    fn end_piece(&mut self, bit: u64, ends_within: bool) {
        let Some(ScannedPiece { mut point, hash, mut window, beginning }) = self.piece.take()
        else {
            return;
        };
        (point.end_bit, point.ends_within) = (bit, ends_within);
        point.checksum = hash.finish();
        point.packed_from = self.windows.len() as u64;
        if !window.is_empty() {
            let start = point.read_from() / 8;
            let length = (bit.div_ceil(8) - start).min(BEGINNING) as usize;
            self.packed.clear();
            if self.file.append_at(&mut self.packed, start, length).is_ok() {
                let bits = SplicedBits {
                    packed: &self.packed,
                    first: point.read_from() - start * 8,
                    end: length as u64 * 8,
                    begins_within: point.begins_within,
                    ends_within,
                };
                self.sparse.clear(bits, &mut window, &beginning);
            }
            let packed = self.packer.pack(&window, &mut self.windows);
            point.packed_length = packed.unwrap_or(0) as u32;
        }
        let packed = &self.windows[point.packed_from as usize..];
        point.packed_checksum = XxHash3_64::oneshot(packed);
        self.points.push(point);
    }

    /// The last piece ends within a block, so it is none.
    fn cut(&mut self) {
        self.points.pop();
    }

    fn finish(self, sink: &mut dyn FnMut(u64, &[u8]), read: u64) -> Result<Scanned, VolumeProblem> {
        let unsunk = self.unsunk();
        sink(self.at + unsunk as u64, &self.buffer[unsunk..self.filled]);
        let points = RestartPoints { points: self.points };
        Ok(Scanned { points, windows: self.windows, read })
    }
}
