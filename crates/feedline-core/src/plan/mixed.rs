//! Mixed: several datasets, concatenated, drawn from by weight.
//!
//! Every part gets an exact quota of the epoch, and the epoch is a permutation of all quotas. Within a
//! part the samples come in shuffled passes that go on from epoch to epoch: a part with a quota below
//! its length is seen completely before anything in it comes again, and one with a larger quota wraps
//! around into a freshly shuffled pass.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};
use super::error::PlanError;
use super::key::{Key, Purpose};
use super::order::Part;
use super::shuffle::Shuffle;
use super::weights;

pub(crate) struct Mixed {
    parts: Arc<[PartQuota]>,
    samples: u64,
}

struct PartQuota {
    /// The part's first sample in the concatenation.
    first: u64,
    len: u64,
    /// Where the part's quota begins in the unpermuted epoch.
    quota_start: u64,
    quota: u64,
}

impl Mixed {
    pub(crate) fn new(n: u64, parts: &[Part], samples: Option<u64>) -> Result<Self, PlanError> {
        let sum = parts.iter().map(|part| u128::from(part.len)).sum();
        if sum != u128::from(n) {
            return Err(PlanError::PartLengths { parts: parts.len(), sum, expected: n });
        }
        let largest = weights::largest(parts.iter().map(|part| part.weight))?;
        if let Some(part) = parts.iter().position(|part| part.len == 0 && part.weight > 0.0) {
            return Err(PlanError::EmptyPart { part, weight: parts[part].weight });
        }
        let samples = match samples {
            Some(0) => return Err(PlanError::ZeroSamples),
            Some(samples) => samples,
            None => n,
        };
        let (mut first, mut quota_start) = (0, 0);
        let kept = parts.iter().zip(quotas(parts, largest, samples)).map(|(part, quota)| {
            let kept = PartQuota { first, len: part.len, quota_start, quota };
            first += part.len;
            quota_start += quota;
            kept
        });
        Ok(Self { parts: kept.collect(), samples })
    }
}

/// Splits `samples` in proportion to the weights, by largest remainder (Hamilton's method): the sum is
/// exact and no part is off by a whole sample. In integers, because an epoch may exceed 2^53.
fn quotas(parts: &[Part], largest: f64, samples: u64) -> Vec<u64> {
    // Scaling by a power of two changes no mantissa, so that weights such as 1 and 3 stay exact.
    let power = f64::from_bits(largest.to_bits() & 0x7FF << 52).max(f64::MIN_POSITIVE);
    let scale = |weight: f64| (weight / power * (1u64 << 52) as f64).round() as u128;
    let shares: Vec<u128> = parts.iter().map(|part| scale(part.weight)).collect();
    let total: u128 = shares.iter().sum();
    let wide = |share: &u128| share * u128::from(samples);
    let mut quotas: Vec<u64> = shares.iter().map(|share| (wide(share) / total) as u64).collect();
    let missing = samples - quotas.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    // The sort is stable: of equal remainders the earlier part's counts first.
    by_remainder.sort_by_key(|&i| std::cmp::Reverse(wide(&shares[i]) % total));
    for &i in by_remainder.iter().take(missing as usize) {
        quotas[i] += 1;
    }
    quotas
}

impl CheckedOrder for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn tables(&self) -> &'static str {
        "parts"
    }

    fn positions(&self) -> u64 {
        self.samples
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        let running = self.parts.iter().zip(0..).map(|(part, number)| {
            let begin = u128::from(epoch) * u128::from(part.quota);
            let key = Key::of(seed, Purpose::PartPass, 0).index(number);
            let first_pass = begin / u128::from(part.len.max(1));
            let pass = |pass| shuffle_of_pass(part.len, key, pass);
            PartProgress {
                begin,
                key,
                first_pass,
                passes: [pass(first_pass), pass(first_pass + 1)],
            }
        });
        Arc::new(MixedOrder {
            parts: self.parts.clone(),
            running: running.collect(),
            arrangement: Shuffle::new(self.samples, Key::of(seed, Purpose::Mixture, epoch)),
        })
    }

    fn table_bytes(&self) -> usize {
        size_of_val::<[PartQuota]>(&self.parts)
    }
}

fn shuffle_of_pass(len: u64, key: Key, pass: u128) -> Shuffle {
    Shuffle::compact(len, key.epoch(pass as u64).lane((pass >> 64) as u64))
}

struct MixedOrder {
    parts: Arc<[PartQuota]>,
    running: Box<[PartProgress]>,
    arrangement: Shuffle,
}

/// Where a part stands in one epoch.
struct PartProgress {
    /// How many samples of the part all epochs before have taken.
    begin: u128,
    key: Key,
    first_pass: u128,
    /// The first two passes of the epoch; further ones occur only when the quota exceeds the length
    /// and are made when asked for.
    passes: [Shuffle; 2],
}

impl MixedOrder {
    /// The part at a place of the unpermuted epoch, which of its passes that is, and where in it.
    fn find(&self, place: u64) -> (&PartQuota, &PartProgress, u128, u64) {
        // Parts without quota begin where the next one does, so the last that begins here is meant.
        let number = self.parts.partition_point(|part| part.quota_start <= place) - 1;
        let (part, running) = (&self.parts[number], &self.running[number]);
        let ordinal = running.begin + u128::from(place - part.quota_start);
        let (pass, offset) = divide(ordinal, part.len);
        (part, running, pass, offset)
    }

    fn sample(&self, place: u64) -> u64 {
        let (part, running, pass, offset) = self.find(place);
        let offset = match running.passes.get((pass - running.first_pass) as usize) {
            Some(shuffle) => shuffle.apply(offset),
            None => shuffle_of_pass(part.len, running.key, pass).apply(offset),
        };
        part.first + offset
    }
}

/// Quotient and remainder, in 64 bits where possible: a 128-bit division is a slow call.
fn divide(ordinal: u128, len: u64) -> (u128, u64) {
    match u64::try_from(ordinal) {
        Ok(small) => (u128::from(small / len), small % len),
        Err(_) => (ordinal / u128::from(len), (ordinal % u128::from(len)) as u64),
    }
}

impl Arrangement for MixedOrder {
    fn at(&self, position: u64) -> SampleIndex {
        SampleIndex(self.sample(self.arrangement.apply(position)))
    }

    fn map(&self, positions: &mut [SampleIndex]) {
        self.arrangement.apply_all(positions);
        for slot in positions {
            slot.0 = self.sample(slot.0);
        }
    }

    /// A part may come to the end of a pass and begin the next.
    fn repeats(&self) -> bool {
        true
    }

    /// Within one pass no sample comes twice.
    fn repeat(&self, position: u64) -> u64 {
        let place = self.arrangement.apply(position);
        let (_, running, pass, _) = self.find(place);
        if pass == running.first_pass { 0 } else { place.saturating_add(1) }
    }

    fn table_bytes(&self) -> usize {
        size_of_val::<[PartProgress]>(&self.running) + self.arrangement.heap_bytes()
    }
}
