//! Shards read from front to back.
//!
//! A loader asks for samples nearly in the order in which they lie in the shards: it takes shards in
//! random order and shuffles within a window that passes over them. So each shard has a *cursor*, a
//! place up to which it was read. A sample behind the cursor waits on the [shelf](super::shelf), where
//! the cursor left it when it passed; one before it makes the cursor go on. Each shard is decompressed
//! once per epoch, as long as the window fits on the shelf.
//!
//! # Who moves a cursor
//!
//! ```text
//! load ── on the shelf? ── yes ──► taken
//!              │ no
//!         lock the shard ── on the shelf by now? ── yes ──► taken
//!              │ no
//!         somebody reads? ── yes ──► wait until a sample was put on the shelf, or reading ended;
//!              │ no                  look again
//!         become the reader: unlock, read on, put what is passed on the shelf, waking those who wait
//! ```
//!
//! A reader that puts a sample on the shelf takes the shard's lock for a moment before it wakes the
//! waiters; one that waits looks at the shelf with that lock held. So a sample cannot be put there
//! between looking and waiting without being noticed. A reader waits for nobody, and its turn ends
//! whatever happens to it. The shelf's lock is held for a few instructions only, never while reading.
//!
//! A sample that is asked for again, or was dropped from the shelf, lies behind the cursor: it is read
//! in place where the shard is not compressed, and otherwise by a second cursor from the shard's
//! beginning. That is slow, and right.
//!
//! # Shards in a store
//!
//! A cursor takes an object in pieces of 8 MiB, a few of which are under way. That alone would have everybody wait where a
//! window begins, for its first samples lie all over it. So the loader tells a window ahead which samples come, and
//! pieces up to the farthest of them are begun then. Each shard notes how far that is; once its last sample was passed
//! it begins anew, for all that was told of that pass was told before. Where the note is wrong (an epoch was given up, two
//! overlap, samples are wanted in no window) pieces are begun by the cursor alone, or once too often.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use feedline_core::{Cause, SampleIndex};

use super::TarOptions;
use super::archive::{ArchiveError, StreamTape, Tape};
use super::collection::Collection;
use super::compression::Compression;
use super::shard::{Shard, TableLayout};
use super::shelf::Shelf;
use crate::read_at::make_room;
use crate::source_file::SourceFile;
use crate::sync::lock;
use crate::{Encoded, SourceError, Watch};

/// The window where nothing else is said, unless that many samples are too large.
const WINDOW: u64 = 1024;
/// Cursors of one shard: one for each of two epochs that overlap.
const CURSORS: usize = 2;

/// How far samples are mixed, and what that may cost.
#[derive(Clone, Debug)]
pub struct Streaming {
    /// How many consecutive samples are shuffled with each other; by default 1,024, or fewer where
    /// samples are so large that two windows would not fit into the buffer.
    pub window: Option<u64>,
    /// Bytes of samples that may wait in memory.
    pub buffer: u64,
}

impl Default for Streaming {
    fn default() -> Streaming {
        Streaming { window: None, buffer: 1 << 30 }
    }
}

/// Tar shards, compressed or not, for reading shard by shard.
pub struct Streamed {
    samples: Collection,
    sizes: Vec<u64>,
    window: u64,
    shelf: Mutex<Shelf>,
    passes: Vec<ShardPass>,
    /// Shards whose cursors are open, the one used last at the end.
    live: Mutex<VecDeque<usize>>,
    most_live: usize,
    begun: AtomicU64,
}

/// The reading of one shard.
#[derive(Default)]
struct ShardPass {
    state: Mutex<CursorState>,
    moved: Condvar,
}

#[derive(Default)]
struct CursorState {
    /// Whether somebody is reading.
    busy: bool,
    cursors: Vec<ShardCursor>,
    /// Up to which byte an object was begun to be fetched in this pass.
    expected: u64,
}

/// A place in a shard up to which it was read.
struct ShardCursor {
    /// The shard as it was when the cursor began; another may have its name by now.
    file: Arc<SourceFile>,
    tape: StreamTape<'static, Box<dyn Read + Send>>,
    /// In bytes of the archive.
    at: u64,
    /// The first sample that was not passed yet.
    next: u64,
}

impl Streamed {
    /// Opens the shards as [`Shards::open`](super::Shards::open) does, compressed ones too.
    pub fn open(
        paths: &[PathBuf],
        options: &TarOptions,
        streaming: &Streaming,
        watch: Watch<'_>,
    ) -> Result<Streamed, SourceError> {
        let samples = Collection::open(paths, options, false, watch)?;
        let window = choose_window(&samples, streaming)?;
        let sizes: Vec<u64> = samples.shards.iter().map(Shard::len).collect();
        let passes = sizes.iter().map(|_| ShardPass::default()).collect();
        // Read-ahead may reach into a third and fourth window.
        let waiting = usize::try_from(window).unwrap_or(usize::MAX).saturating_mul(4);
        Ok(Streamed {
            most_live: shards_in(&sizes, window.saturating_mul(2)),
            samples,
            sizes,
            window,
            shelf: Mutex::new(Shelf::new(streaming.buffer, waiting)),
            passes,
            live: Mutex::new(VecDeque::new()),
            begun: AtomicU64::new(0),
        })
    }

    /// How many consecutive samples are shuffled with each other.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// How often a shard was read from its beginning so far: as often as there are shards in each
    /// epoch, if the buffer is large enough for what is asked for.
    #[must_use]
    pub fn shards_begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Reads sample `sample` of a shard into `raw`, as the shard's only reader.
    fn read(
        &self,
        shard: usize,
        sample: u64,
        number: u64,
        cursors: Vec<ShardCursor>,
        raw: &mut Vec<u8>,
    ) -> Result<Vec<ShardCursor>, ArchiveError> {
        let mut cursors = cursors;
        let source = &self.samples.shards[shard];
        let nearest = cursors.iter().enumerate().filter(|(_, cursor)| cursor.next <= sample);
        let nearest = nearest.max_by_key(|(_, cursor)| cursor.next).map(|(at, _)| at);
        let mut cursor = match nearest {
            Some(at) => cursors.remove(at),
            None if !cursors.is_empty() && source.compression == Compression::None => {
                let file = source.file()?;
                let read = source.layout(sample).pieces().try_for_each(|piece| {
                    file.append_at(raw, piece.start, (piece.end - piece.start) as usize)
                });
                source.unchanged(&file)?;
                read?;
                return Ok(cursors);
            }
            None => {
                self.begun.fetch_add(1, Ordering::Relaxed);
                let file = Arc::new(source.file()?);
                let reader = source.compression.reader(Arc::clone(&file), None)?;
                let tape = StreamTape { reader, stop: None };
                ShardCursor { file, tape, at: 0, next: 0 }
            }
        };
        // What is further behind is no longer wanted.
        let from = sample.saturating_sub(self.window.saturating_mul(2)).max(cursor.next);
        for passed in from..sample {
            let there = SampleIndex(number - (sample - passed));
            if self.samples.complete(there).is_err() || lock(&self.shelf).has(there.0) {
                continue;
            }
            let mut buffer = lock(&self.shelf).buffer();
            cursor.read(source, passed, &mut buffer)?;
            lock(&self.shelf).put(there.0, buffer);
            let pass = &self.passes[shard];
            drop(lock(&pass.state));
            pass.moved.notify_all();
        }
        cursor.read(source, sample, raw)?;
        cursor.next = sample + 1;
        if cursor.next < source.len() {
            if cursors.len() >= CURSORS {
                cursors.remove(0);
            }
            cursors.push(cursor);
        }
        Ok(cursors)
    }

    /// Notes that a shard has been read, and closes the cursors of one that was not for long.
    fn keep_few_open(&self, shard: usize) {
        let mut live = lock(&self.live);
        live.retain(|other| *other != shard);
        live.push_back(shard);
        if live.len() > self.most_live
            && let Some(oldest) = live.pop_front()
            && let Ok(mut state) = self.passes[oldest].state.try_lock()
            && !state.busy
        {
            state.cursors.clear();
        }
    }
}

impl ShardCursor {
    /// Appends a sample that lies at or behind the cursor, and makes sure that it is the shard's.
    fn read(&mut self, shard: &Shard, sample: u64, raw: &mut Vec<u8>) -> Result<(), ArchiveError> {
        let read = self.go_on(shard.layout(sample), raw);
        // Whatever came of it, first whether it was the right file.
        shard.unchanged(&self.file)?;
        read
    }

    fn go_on(&mut self, layout: TableLayout<'_>, raw: &mut Vec<u8>) -> Result<(), ArchiveError> {
        let other = |what: &str| ArchiveError::Changed { what: what.to_string() };
        for piece in layout.pieces() {
            let skipped = piece.start.checked_sub(self.at);
            let skipped = skipped.ok_or_else(|| other("its members lie elsewhere"))?;
            if self.tape.skip(skipped)? < skipped {
                return Err(other("it ends too early"));
            }
            let len = piece.end - piece.start;
            make_room(raw, len as usize)?;
            let read = self.tape.reader.by_ref().take(len).read_to_end(raw)?;
            if (read as u64) < len {
                return Err(other("it ends too early"));
            }
            self.at = piece.end;
        }
        Ok(())
    }
}

/// The turn of a shard's reader; ends when it is dropped, also by a panic.
struct ReaderTurn<'a>(&'a ShardPass);

impl Drop for ReaderTurn<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).busy = false;
        self.0.moved.notify_all();
    }
}

impl Encoded for Streamed {
    fn len(&self) -> u64 {
        self.samples.len()
    }

    fn parts(&self) -> &[String] {
        &self.samples.parts
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let (shard, sample) = self.samples.complete(index)?;
        if lock(&self.shelf).take(index.0, raw) {
            return Ok(());
        }
        let pass = &self.passes[shard];
        let mut state = lock(&pass.state);
        loop {
            if lock(&self.shelf).take(index.0, raw) {
                return Ok(());
            }
            if !state.busy {
                break;
            }
            state = pass.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy = true;
        let cursors = std::mem::take(&mut state.cursors);
        drop(state);
        let turn = ReaderTurn(pass);
        let cursors = self.read(shard, sample, index.0, cursors, raw)?;
        let is_over = sample + 1 == self.samples.shards[shard].len();
        let open = !cursors.is_empty();
        let mut state = lock(&pass.state);
        state.cursors = cursors;
        if is_over {
            state.expected = 0;
        }
        drop(state);
        drop(turn);
        if open {
            self.keep_few_open(shard);
        }
        Ok(())
    }

    fn part<'a>(
        &'a self,
        index: SampleIndex,
        raw: &'a [u8],
        part: usize,
    ) -> Result<&'a [u8], Cause> {
        self.samples.part(index, raw, part)
    }

    /// A window, where shards are far away.
    fn look_ahead(&self) -> usize {
        let is_far = self.samples.shards.iter().any(|shard| shard.object().is_some());
        if is_far { usize::try_from(self.window).unwrap_or(usize::MAX) } else { 0 }
    }

    fn expect(&self, indices: &[SampleIndex]) {
        for (shard, sample) in indices.iter().filter_map(|i| self.samples.complete(*i).ok()) {
            let source = &self.samples.shards[shard];
            let Some(object) = source.object() else { continue };
            let mut state = lock(&self.passes[shard].state);
            let reach = source.reach(sample);
            if reach > state.expected {
                state.expected = object.expect_forward(state.expected..reach);
            }
        }
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        Some(self.samples.bytes(index))
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.samples.origin(index)
    }

    fn windows(&self) -> Option<(&[u64], u64)> {
        Some((&self.sizes, self.window))
    }
}

/// The window that was asked for, if two of the heaviest fit into the buffer; or the default one, made
/// so small that they do.
fn choose_window(samples: &Collection, streaming: &Streaming) -> Result<u64, SourceError> {
    let wanted = streaming.window.unwrap_or(WINDOW).min(samples.len());
    let mut sizes: Vec<u64> =
        (0..samples.len()).map(|i| samples.bytes(SampleIndex(i)).min(samples.max_bytes)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let (mut fits, mut needed) = (0, 0_u64);
    for size in sizes.iter().take(usize::try_from(wanted).unwrap_or(usize::MAX)) {
        needed = needed.saturating_add(size.saturating_mul(2));
        if needed <= streaming.buffer {
            fits += 1;
        }
    }
    match streaming.window {
        Some(window) if fits < wanted => {
            Err(SourceError::Window { window, needed, buffer: streaming.buffer })
        }
        Some(window) => Ok(window.max(1)),
        None => Ok(fits.max(1)),
    }
}

/// Of how many shards `count` consecutive samples may be, whatever the shards' order.
fn shards_in(sizes: &[u64], count: u64) -> usize {
    let mut sizes: Vec<u64> = sizes.iter().copied().filter(|size| *size > 0).collect();
    sizes.sort_unstable();
    let mut sum = 0_u64;
    let whole = sizes.iter().take_while(|size| {
        sum = sum.saturating_add(**size);
        sum <= count
    });
    // And those at either end that are not whole.
    whole.count() + 2
}
