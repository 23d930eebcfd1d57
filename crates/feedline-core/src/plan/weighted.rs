//! Weighted with replacement: each position draws a sample by weight, independently.

use std::sync::Arc;

use super::SampleIndex;
use super::arrangement::{Arrangement, CheckedOrder};
use super::error::PlanError;
use super::key::{Key, Purpose};
use super::weights;

/// An alias table: the weights cut into `n` columns of equal height, each shared by at most two
/// samples, so that a draw is one column and one comparison.
///
/// A. J. Walker, "An Efficient Method for Generating Discrete Random Variables with General
/// Distributions", ACM TOMS 3(3), 1977; built in linear time as in M. D. Vose, "A Linear Algorithm For
/// Generating Random Numbers With a Given Distribution", IEEE TSE 17(9), 1991.
pub(crate) struct Weighted {
    columns: Arc<[AliasColumn]>,
    samples: u64,
}

/// `{ share of the column's own sample in 2^-32, the sample that has the rest }`, 8 bytes.
#[derive(Copy, Clone)]
struct AliasColumn {
    own: u32,
    alias: u32,
}

impl Weighted {
    pub(crate) fn new(n: u64, table: &[f64], samples: u64) -> Result<Self, PlanError> {
        let largest = weights::check_table(table, n, samples)?;
        Ok(Self { columns: columns(table, largest).into(), samples })
    }
}

fn columns(table: &[f64], largest: f64) -> Vec<AliasColumn> {
    let total: f64 = table.iter().map(|weight| weight / largest).sum();
    let height = |weight: f64| weight / largest / total * table.len() as f64;
    let mut columns: Vec<AliasColumn> =
        (0..table.len()).map(|i| AliasColumn { own: u32::MAX, alias: i as u32 }).collect();
    let mut heights: Vec<f64> = table.iter().map(|&weight| height(weight)).collect();
    let (mut low, mut high): (Vec<u32>, Vec<u32>) =
        (0..table.len()).map(|i| i as u32).partition(|&i| heights[i as usize] < 1.0);
    while let (Some(&giver), Some(taker)) = (high.last(), low.pop()) {
        let missing = 1.0 - heights[taker as usize];
        columns[taker as usize] =
            AliasColumn { own: fraction(heights[taker as usize]), alias: giver };
        heights[giver as usize] -= missing;
        if heights[giver as usize] < 1.0 {
            high.pop();
            low.push(giver);
        }
    }
    // Rounding can leave columns that count as low with nobody to fill them; they are full but for the
    // rounding. Not so a sample of weight 0: it must stay impossible, so the heaviest takes its column.
    let heaviest = table.iter().position(|&weight| weight == largest).unwrap_or(0) as u32;
    for i in low {
        if table[i as usize] == 0.0 {
            columns[i as usize] = AliasColumn { own: 0, alias: heaviest };
        }
    }
    columns
}

/// A share in `[0, 1)` in units of 2^-32; a positive one stays possible however small it is.
fn fraction(share: f64) -> u32 {
    let rounded = (share * (1u64 << 32) as f64).round() as u32;
    rounded.max(u32::from(share > 0.0))
}

impl CheckedOrder for Weighted {
    fn name(&self) -> &'static str {
        "weighted with replacement"
    }

    fn tables(&self) -> &'static str {
        "weights, or how many samples are drawn,"
    }

    fn positions(&self) -> u64 {
        self.samples
    }

    fn epoch(&self, seed: u64, epoch: u64) -> Arc<dyn Arrangement> {
        let key = Key::of(seed, Purpose::Weighted, epoch);
        Arc::new(WeightedDraws { columns: self.columns.clone(), key })
    }

    fn table_bytes(&self) -> usize {
        size_of_val::<[AliasColumn]>(&self.columns)
    }
}

struct WeightedDraws {
    columns: Arc<[AliasColumn]>,
    key: Key,
}

impl Arrangement for WeightedDraws {
    fn at(&self, position: u64) -> SampleIndex {
        let mut stream = self.key.index(position).stream();
        let place = stream.below(self.columns.len() as u64);
        let AliasColumn { own, alias } = self.columns[place as usize];
        let level = (stream.next_u64() >> 32) as u32;
        SampleIndex(if level < own { place } else { u64::from(alias) })
    }

    fn repeats(&self) -> bool {
        true
    }

    /// Each draw is one of its own: to find out which is a sample's first would take a look at all before it.
    fn repeat(&self, position: u64) -> u64 {
        position.saturating_add(1)
    }

    /// Looks through the columns, because positions could draw one heavy sample for ever.
    fn other_than(&self, failed: SampleIndex, start: u64, _: u64) -> Option<SampleIndex> {
        let columns = self.columns.len() as u64;
        let start = start % columns;
        (start..columns).chain(0..start).find_map(|place| {
            let AliasColumn { own, alias } = self.columns[place as usize];
            let own = (own > 0).then_some(SampleIndex(place));
            own.into_iter().chain([SampleIndex(u64::from(alias))]).find(|&s| s != failed)
        })
    }

    fn table_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up what the columns give to each sample and compares with the weights.
    #[test]
    fn columns_hold_exactly_the_weights() {
        for table in [
            vec![1.0],
            vec![1.0, 1.0, 1.0],
            vec![0.0, 3.0, 0.0, 1e-3, 5.0],
            vec![1e308, 1e308, 1e-308, 0.0],
            (0..1000).map(|i| f64::from(i % 17)).collect(),
        ] {
            let largest = table.iter().copied().fold(0.0, f64::max);
            let mut got = vec![0.0; table.len()];
            for (i, column) in columns(&table, largest).iter().enumerate() {
                let own = f64::from(column.own) / (1u64 << 32) as f64;
                got[i] += own;
                got[column.alias as usize] += 1.0 - own;
            }
            let total: f64 = table.iter().map(|weight| weight / largest).sum();
            for (weight, got) in table.iter().zip(got) {
                let expected = weight / largest / total * table.len() as f64;
                assert!((got - expected).abs() < 1e-6, "{got} for {expected} in {table:?}");
                assert!(*weight > 0.0 || got == 0.0, "a sample of weight 0 can be drawn");
            }
        }
    }
}
