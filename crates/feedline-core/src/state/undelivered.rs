//! Which positions of the running epoch a rank has still to deliver, kept up batch by batch.

use std::collections::VecDeque;

use crate::plan::Remaining;

/// The positions that are not delivered. In planned order it is one number; in `ready` order a flag for
/// each position of the window.
#[derive(Debug, Default)]
pub(crate) struct Undelivered {
    /// Everything before it is delivered; it is not.
    first: u64,
    /// Whether `first + i` is delivered. The front is never set, nor is anything behind the back.
    delivered: VecDeque<bool>,
}

impl From<&Remaining> for Undelivered {
    fn from(rest: &Remaining) -> Self {
        let first = rest.nth(0);
        let mut delivered = VecDeque::from(vec![true; (rest.start() - first) as usize]);
        rest.gaps().iter().for_each(|gap| delivered[(gap - first) as usize] = false);
        Undelivered { first, delivered }
    }
}

impl Undelivered {
    /// Everything up to `end` is delivered, one after the other.
    pub(crate) fn up_to(&mut self, end: u64) {
        self.first = end;
        self.delivered.clear();
    }

    /// These positions are delivered.
    pub(crate) fn mark(&mut self, positions: &[u64]) {
        for position in positions {
            let Some(at) = position.checked_sub(self.first) else { continue };
            let at = at as usize;
            if self.delivered.len() <= at {
                self.delivered.resize(at + 1, false);
            }
            self.delivered[at] = true;
        }
        while self.delivered.front() == Some(&true) {
            self.delivered.pop_front();
            self.first += 1;
        }
    }

    /// As plain data.
    pub(crate) fn remaining(&self) -> Remaining {
        if self.delivered.is_empty() {
            return Remaining::from(self.first);
        }
        let end = self.first + self.delivered.len() as u64;
        let flags = (self.first..).zip(&self.delivered);
        let gaps = flags.filter(|(_, delivered)| !**delivered).map(|(position, _)| position);
        Remaining::new(gaps.collect(), end).expect("ascending and below the end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_gone_and_the_rest_is_not() {
        let mut left = Undelivered::default();
        left.mark(&[0, 2, 5]);
        assert_eq!(left.remaining(), Remaining::new(vec![1, 3, 4], 6).unwrap());
        left.mark(&[1, 3]);
        assert_eq!(left.remaining(), Remaining::new(vec![4], 6).unwrap());
        let mut again = Undelivered::from(&left.remaining());
        again.mark(&[4]);
        assert_eq!(again.remaining(), Remaining::from(6));
        again.up_to(9);
        assert_eq!(again.remaining(), Remaining::from(9));
    }
}
