//! Huffman tables that answer with more than a code.

/// Bits that are looked at together. Eleven hold two average symbols of a photograph; tables of twelve no longer
/// share the nearest cache with the pixels.
pub(super) const LOOK: u32 = 11;
const ENTRIES: usize = 1 << LOOK;
/// Far enough to end any block.
const END: u8 = 64;

/// A table as files have it: how many codes of each length, and their symbols in order.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Spec {
    counts: [u8; 16],
    symbols: [u8; 256],
    length: usize,
}

impl Spec {
    /// None for a table that is impossible.
    pub(super) fn new(bits: &[u8; 17], values: &[u8; 256]) -> Option<Self> {
        let mut counts = [0; 16];
        counts.copy_from_slice(&bits[1..]);
        let length: usize = counts.iter().map(|&n| usize::from(n)).sum();
        let mut space = 1i32;
        for &count in &counts {
            space = space * 2 - i32::from(count);
            if space < 0 {
                return None;
            }
        }
        if length > 256 {
            return None;
        }
        let mut symbols = [0; 256];
        symbols[..length].copy_from_slice(&values[..length]);
        Some(Self { counts, symbols, length })
    }
}

/// Codes to symbols: at once for those of up to [`LOOK`] bits, by counting for longer ones.
struct Codes {
    spec: Spec,
    /// `{ symbol: 8, length: 8 }`; length 0 where the code is longer.
    short: Box<[u16; ENTRIES]>,
    /// For each length the first number beyond its codes, at 16 bits, and what to add to a code of this length to
    /// find its symbol.
    limits: [(u32, i32); 17],
}

impl Codes {
    fn new(spec: &Spec) -> Self {
        let mut codes =
            Self { spec: spec.clone(), short: Box::new([0; ENTRIES]), limits: [(0, 0); 17] };
        let (mut code, mut at) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = usize::from(spec.counts[length as usize - 1]);
            codes.limits[length as usize].1 = at as i32 - code as i32;
            for _ in 0..count {
                if length <= LOOK {
                    let entry = u16::from(spec.symbols[at]) << 8 | length as u16;
                    let first = (code << (LOOK - length)) as usize;
                    // Within the table because `Spec` has made sure that codes fit their length.
                    codes.short[first..first + (1 << (LOOK - length))].fill(entry);
                }
                code += 1;
                at += 1;
            }
            codes.limits[length as usize].0 = code << (16 - length);
            code <<= 1;
        }
        codes
    }

    /// Length and symbol of the code at the top of `bits`.
    #[inline(always)]
    fn find(&self, bits: u64) -> Option<(u32, u8)> {
        let entry = self.short[(bits >> (64 - LOOK)) as usize];
        if entry != 0 {
            return Some((u32::from(entry & 0xff), (entry >> 8) as u8));
        }
        self.find_long(bits)
    }

    #[cold]
    fn find_long(&self, bits: u64) -> Option<(u32, u8)> {
        let top = (bits >> 48) as u32;
        let length = (LOOK + 1..=16).find(|&length| top < self.limits[length as usize].0)?;
        let code = (top >> (16 - length)) as i32;
        let at = usize::try_from(code + self.limits[length as usize].1).ok()?;
        (at < self.spec.length).then(|| (length, self.spec.symbols[at]))
    }
}

/// The value that `size` bits at the top of `bits` stand for.
#[inline(always)]
pub(super) fn extend(bits: u64, size: u32) -> i32 {
    if size == 0 {
        return 0;
    }
    let raw = (bits >> (64 - size)) as i32;
    // A leading zero bit means a negative value.
    if bits >> 63 == 0 { raw - (1 << size) + 1 } else { raw }
}

/// For DC differences.
pub(super) struct Dc(Codes);

impl Dc {
    pub(super) fn new(spec: &Spec) -> Box<Self> {
        Box::new(Self(Codes::new(spec)))
    }

    pub(super) fn is_for(&self, spec: &Spec) -> bool {
        self.0.spec == *spec
    }

    /// Length of the code and number of bits behind it, at most 16.
    #[inline(always)]
    pub(super) fn find(&self, bits: u64) -> Option<(u32, u32)> {
        let (length, symbol) = self.0.find(bits)?;
        Some((length, u32::from(symbol.min(16))))
    }
}

/// One or two coefficients:
/// `{ value2: 16, advance of both: 8, length1: 8, value1: 16, advance1: 8, length of both: 8 }`, where an
/// advance is how far the place moves in zigzag order. All 0 where not even one fits into the look.
#[derive(Clone, Copy)]
pub(super) struct CoefficientPair(pub(super) u64);

/// Symbols to pass over:
/// `{ advance1: 8, length1: 8, ends the block: 1, advance of all: 7, length of all: 8 }`. All 0 where not even
/// one code fits into the look.
#[derive(Clone, Copy)]
pub(super) struct SkippedSymbols(pub(super) u32);

/// For AC coefficients.
pub(super) struct Ac {
    codes: Codes,
    pairs: Box<[CoefficientPair; ENTRIES]>,
    passes: Box<[SkippedSymbols; ENTRIES]>,
}

/// How far a symbol moves, and how many bits follow it.
fn step(symbol: u8) -> (u8, u32) {
    match (symbol >> 4, symbol & 15) {
        (15, 0) => (16, 0),
        // The end of the block; libjpeg takes the unused symbols without a size for it as well.
        (_, 0) => (END, 0),
        (run, size) => (run + 1, u32::from(size)),
    }
}

impl Ac {
    pub(super) fn new(spec: &Spec) -> Box<Self> {
        let codes = Codes::new(spec);
        // Single symbols first: `{ value: 16, advance: 8, length: 8 }`, 0 where code and value do not fit.
        let mut single = [0u32; ENTRIES];
        for (look, entry) in single.iter_mut().enumerate() {
            let code = codes.short[look];
            let (length, symbol) = (u32::from(code & 0xff), (code >> 8) as u8);
            let (advance, size) = step(symbol);
            if length != 0 && length + size <= LOOK {
                let bits = (look as u64).checked_shl(64 - LOOK + length).unwrap_or(0);
                let value = extend(bits, size) as u16;
                *entry = u32::from(value) << 16 | u32::from(advance) << 8 | (length + size);
            }
        }
        let mut pairs = Box::new([CoefficientPair(0); ENTRIES]);
        let mut passes = Box::new([SkippedSymbols(0); ENTRIES]);
        for look in 0..ENTRIES {
            pairs[look] = pair(&single, look);
            passes[look] = pass(&codes, look);
        }
        Box::new(Self { codes, pairs, passes })
    }

    pub(super) fn is_for(&self, spec: &Spec) -> bool {
        self.codes.spec == *spec
    }

    #[inline(always)]
    pub(super) fn pair(&self, bits: u64) -> CoefficientPair {
        self.pairs[(bits >> (64 - LOOK)) as usize]
    }

    #[inline(always)]
    pub(super) fn pass(&self, bits: u64) -> SkippedSymbols {
        self.passes[(bits >> (64 - LOOK)) as usize]
    }

    /// Length of the next code, how far it moves and how many bits follow.
    #[inline(always)]
    pub(super) fn find(&self, bits: u64) -> Option<(u32, u8, u32)> {
        let (length, symbol) = self.codes.find(bits)?;
        let (advance, size) = step(symbol);
        Some((length, advance, size))
    }
}

fn pair(single: &[u32; ENTRIES], look: usize) -> CoefficientPair {
    let first = u64::from(single[look]);
    let (length, advance, value) = (first & 0xff, first >> 8 & 0xff, first >> 16);
    if length == 0 {
        return CoefficientPair(0);
    }
    let both = |length_2: u64, advance_2: u64, value_2: u64| {
        CoefficientPair(
            value_2 << 48
                | (advance + advance_2) << 40
                | length << 32
                | value << 16
                | advance << 8
                | (length + length_2),
        )
    };
    let second = u64::from(single[look << length & (ENTRIES - 1)]);
    let known = u64::from(LOOK) - length;
    if advance == u64::from(END) || second == 0 || second & 0xff > known {
        // Alone: written twice to the same place.
        return both(0, 0, value);
    }
    both(second & 0xff, second >> 8 & 0xff, second >> 16)
}

fn pass(codes: &Codes, look: usize) -> SkippedSymbols {
    let (mut length, mut advance, mut end) = (0u32, 0u32, 0u32);
    let mut first = 0u32;
    while length < LOOK {
        let code = codes.short[look << length & (ENTRIES - 1)];
        let (code_length, symbol) = (u32::from(code & 0xff), (code >> 8) as u8);
        if code_length == 0 || code_length > LOOK - length {
            break;
        }
        let (moves, size) = step(symbol);
        if moves != END && advance + u32::from(moves) > 63 {
            break;
        }
        length += code_length + size;
        if first == 0 {
            first = u32::from(moves) << 8 | length;
        }
        if moves == END {
            end = 1;
            break;
        }
        advance += u32::from(moves);
    }
    if first == 0 {
        return SkippedSymbols(0);
    }
    SkippedSymbols(first << 16 | end << 15 | advance << 8 | length)
}
