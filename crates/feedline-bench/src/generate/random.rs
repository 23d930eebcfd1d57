//! Random numbers that are the same everywhere and for ever.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, fast and good enough for pictures.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    /// A stream of its own for each pair of keys.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ 0x9e37_79b9_7f4a_7c15);
        let first = random.bits();
        Self(first ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }

    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.bits() % count.max(1)
    }
}
