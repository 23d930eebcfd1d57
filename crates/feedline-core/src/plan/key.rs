//! Keys name random streams; a stream turns its key into numbers.

use super::philox;

/// What a stream is for. Streams of different purposes never share a number, whatever their
/// coordinates. The values are part of every order ever planned: add new ones, never renumber.
#[derive(Copy, Clone, Debug)]
#[repr(u64)]
pub(crate) enum Purpose {
    Sample = 0,
    Shuffle = 1,
    Shard = 2,
    Window = 3,
    Weighted = 4,
    Race = 5,
    BatchOrder = 6,
    Bucket = 7,
    ShortBatch = 8,
    Mixture = 9,
    PartPass = 10,
    Substitute = 11,
    SubstituteRetry = 12,
    Batch = 13,
    Buffer = 14,
    Repeat = 15,
}

/// The name of one random stream: seed, purpose, and three coordinates.
///
/// Different names give independent streams; the same name gives the same stream for ever, on every
/// machine.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    words: [u64; 2],
    epoch: u64,
    index: u64,
    lane: u64,
}

impl Key {
    /// The key of the dataset's shuffle in `epoch`.
    pub fn new(seed: u64, epoch: u64) -> Self {
        Self::of(seed, Purpose::Shuffle, epoch)
    }

    #[inline]
    pub(crate) fn of(seed: u64, purpose: Purpose, epoch: u64) -> Self {
        Self { words: [seed, purpose as u64], epoch, index: 0, lane: 0 }
    }

    #[inline]
    pub(crate) fn epoch(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    #[inline]
    pub(crate) fn index(self, index: u64) -> Self {
        Self { index, ..self }
    }

    #[inline]
    pub(crate) fn lane(self, lane: u64) -> Self {
        Self { lane, ..self }
    }

    /// Four random words: block `block` of this key's stream.
    #[inline]
    pub(crate) fn block(&self, block: u64) -> [u64; 4] {
        philox::block(self.words, [block, self.epoch, self.index, self.lane])
    }

    #[inline]
    pub(crate) fn stream(self) -> Stream {
        Stream { key: self, next_block: 0, buffer: [0; 4], used: 4 }
    }
}

/// A random stream keyed by `(seed, epoch, sample index)`, for native random operations.
///
/// The numbers depend on nothing else: not on the worker, not on the rank, not on what was drawn for
/// another sample. They are bit-stable for ever; tests pin them.
///
/// ```
/// use feedline_core::plan::Stream;
///
/// let mut stream = Stream::new(7, 0, 42);
/// let left = stream.below(33); // an offset of a crop, every one equally likely
/// let flip = stream.unit_f64() < 0.5;
/// # let _ = (left, flip);
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    key: Key,
    next_block: u64,
    buffer: [u64; 4],
    used: usize,
}

impl Stream {
    /// The stream of one sample in one epoch.
    #[inline]
    pub fn new(seed: u64, epoch: u64, sample_index: u64) -> Self {
        Key::of(seed, Purpose::Sample, epoch).index(sample_index).stream()
    }

    /// The stream of a sample that may come more than once in the epoch; see [`SampleKey`](crate::SampleKey).
    #[inline]
    pub(crate) fn of_repeat(seed: u64, epoch: u64, repeat: u64) -> Self {
        Key::of(seed, Purpose::Repeat, epoch).index(repeat).stream()
    }

    /// Stream number `lane` of the same sample, from its beginning: for what draws behind something else that
    /// draws. Number 0 is the one of [`Stream::new`].
    #[inline]
    #[must_use]
    pub fn in_lane(self, lane: u64) -> Self {
        self.key.lane(lane).stream()
    }

    /// The stream of a whole batch, named by its first sample.
    #[inline]
    pub(crate) fn of_batch(seed: u64, epoch: u64, first_sample: u64) -> Self {
        Key::of(seed, Purpose::Batch, epoch).index(first_sample).stream()
    }

    /// A stream of one pass over an iterable dataset, for what changes the order of its samples; `number` tells
    /// several of them apart.
    #[inline]
    pub fn of_pass(seed: u64, epoch: u64, rank: u64, number: u64) -> Self {
        Key::of(seed, Purpose::Buffer, epoch).index(rank).lane(number).stream()
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        if self.used == self.buffer.len() {
            self.buffer = self.key.block(self.next_block);
            self.next_block = self.next_block.wrapping_add(1);
            self.used = 0;
        }
        let word = self.buffer[self.used];
        self.used += 1;
        word
    }

    /// A number in `0..n`, every one exactly equally likely; 0 if `n` is 0.
    ///
    /// D. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // n is positive here, for nothing is smaller than 0.
            let rejected = n.wrapping_neg() % n;
            while (product as u64) < rejected {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `[0, 1)`: a multiple of 2^-53, every one equally likely.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        unit(self.next_u64())
    }
}

/// The top 53 bits of `word` as a number in `[0, 1)`.
#[inline]
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}
