//! Where the classes of a mask are: some voxels of each, kept so that crops can be centred on them without
//! reading the mask.

use feedline_ops::Draw;

use crate::voxels::{Voxel, of_any_type};
use crate::{Label, NoLabel, Shape, Voxels};

/// Some voxels of each class of a mask, and how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foreground {
    classes: Vec<ClassVoxels>,
}

/// Voxels of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassVoxels {
    /// The class.
    pub label: Label,
    /// How many voxels it has.
    pub count: u64,
    /// Some of them, all equally likely to be among them, as numbers in the order of memory.
    pub kept: Vec<u64>,
}

/// A class while its voxels are counted.
struct ClassCount {
    class: ClassVoxels,
    /// The next voxel, counted in those of the class, that takes the place of a kept one.
    next: u64,
    /// Of the algorithm: how large the smallest random number among the kept ones is.
    weight: f64,
}

impl Foreground {
    /// Of a whole mask: at most `most` voxels of each class (nnU-Net keeps 10,000). What is kept depends on the
    /// mask and the seed alone.
    pub fn of(
        mask: Voxels<'_>,
        shape: Shape,
        most: usize,
        seed: u64,
    ) -> Result<Foreground, NoLabel> {
        let voxels = crate::count(shape).min(mask.len());
        let mut random = crate::Fast::new(seed);
        let mut counted: Vec<ClassCount> = Vec::new();
        // Of each label, as an unsigned number, which of the counted classes it is.
        let mut places = vec![None; 1 << Label::BITS];
        let most = most.max(1);
        let mut run = |label: Label, start: u64, length: u64| {
            let place = *places[usize::from(label.cast_unsigned())].get_or_insert_with(|| {
                let class = ClassVoxels { label, count: 0, kept: Vec::new() };
                counted.push(ClassCount { class, next: 0, weight: 1.0 });
                counted.len() - 1
            });
            counted[place].add(start, length, most, &mut random);
        };
        of_any_type!(mask, slice => {
            let slice = &slice[..voxels];
            let mut at = 0;
            while at < slice.len() {
                let value = slice[at];
                let label = value.label().ok_or(NoLabel { value: value.number() })?;
                let same = slice[at..].iter().take_while(|other| **other == value).count();
                run(label, at as u64, same as u64);
                at += same;
            }
        });
        let mut classes: Vec<_> = counted.into_iter().map(|one| one.class).collect();
        classes.sort_by_key(|class| class.label);
        Ok(Foreground { classes })
    }

    /// Of classes as [`Foreground::classes`] gave them.
    #[must_use]
    pub fn of_classes(mut classes: Vec<ClassVoxels>) -> Foreground {
        classes.retain(|class| class.count > 0 && !class.kept.is_empty());
        classes.sort_by_key(|class| class.label);
        Foreground { classes }
    }

    /// Every class there is, background (0) too, by its number.
    #[must_use]
    pub fn classes(&self) -> &[ClassVoxels] {
        &self.classes
    }
}

impl ClassCount {
    /// A run of voxels of the class: Li's reservoir sampling ("algorithm L").
    fn add(&mut self, start: u64, length: u64, most: usize, random: &mut crate::Fast) {
        let before = self.class.count;
        self.class.count += length;
        let mut at = before;
        while at < self.class.count && self.class.kept.len() < most {
            self.class.kept.push(start + (at - before));
            at += 1;
            if self.class.kept.len() == most {
                self.next = at - 1;
                self.skip(most, random);
            }
        }
        while self.class.kept.len() == most && self.next < self.class.count {
            let place = random.below(most);
            self.class.kept[place] = start + (self.next - before);
            self.skip(most, random);
        }
    }

    fn skip(&mut self, most: usize, random: &mut crate::Fast) {
        self.weight *= (random.open_unit().ln() / most as f64).exp();
        let over = (random.open_unit().ln() / (-self.weight).ln_1p()).floor();
        // A count beyond all voxels, should the weight have become nothing.
        let over = if over.is_finite() { over.min(1e18) as u64 } else { 1 << 60 };
        self.next = self.next.saturating_add(over).saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_voxel_of_a_small_class_is_kept() {
        let mask: [i16; 12] = [0, 0, 3, 0, 1, 1, 0, 3, 3, 0, 0, 0];
        let found = Foreground::of(Voxels::I16(&mask), [2, 2, 3], 100, 1).unwrap();
        let labels: Vec<_> = found.classes().iter().map(|c| (c.label, c.count)).collect();
        assert_eq!(labels, [(0, 7), (1, 2), (3, 3)]);
        assert_eq!(found.classes()[2].kept, [2, 7, 8]);
    }

    #[test]
    fn voxels_of_a_large_class_are_equally_likely() {
        let mut mask = vec![0u8; 4000];
        mask[1000..3000].fill(1);
        let mut early = 0;
        for seed in 0..400 {
            let found = Foreground::of(Voxels::U8(&mask), [4, 10, 100], 50, seed).unwrap();
            let class = &found.classes()[1];
            assert_eq!((class.count, class.kept.len()), (2000, 50));
            assert!(class.kept.iter().all(|place| (1000..3000).contains(place)));
            early += class.kept.iter().filter(|place| **place < 1500).count();
        }
        // 20,000 draws with a probability of 1/4: a deviation of 61.
        assert!((early as f64 - 5000.0).abs() < 5.0 * 61.3, "{early}");
    }

    #[test]
    fn every_label_there_can_be_is_a_class() {
        // Each twice, in another order the second time.
        let mask: Vec<i16> = (i16::MIN..=i16::MAX).chain((i16::MIN..=i16::MAX).rev()).collect();
        let found = Foreground::of(Voxels::I16(&mask), [2, 256, 256], 10, 0).unwrap();
        let labels: Vec<_> = found.classes().iter().map(|class| class.label).collect();
        assert_eq!(labels, (i16::MIN..=i16::MAX).collect::<Vec<_>>());
        for (i, class) in found.classes().iter().enumerate() {
            assert_eq!(class.kept, [i as u64, (1 << 17) - 1 - i as u64], "{}", class.label);
        }
    }

    #[test]
    fn what_is_no_label_is_refused() {
        let refused = Foreground::of(Voxels::F32(&[0.0, 0.5]), [1, 1, 2], 5, 0);
        assert_eq!(refused, Err(NoLabel { value: 0.5 }));
    }
}
