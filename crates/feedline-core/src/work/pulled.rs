//! The bytes of samples that were taken from an iterator, until their workers come for them.

use std::sync::Mutex;

use crate::flow::Charge;
use crate::sync::lock_std as lock;

use super::dataset::Cause;

/// The samples of a lot: the bytes of each, or why there are none.
pub(crate) struct Pulled(Vec<Mutex<Option<PulledSample>>>);

/// What was taken, and where its bytes are booked.
type PulledSample = (Result<Vec<u8>, Cause>, Charge);

impl Pulled {
    pub(crate) fn new(entries: impl Iterator<Item = PulledSample>) -> Pulled {
        Pulled(entries.map(|entry| Mutex::new(Some(entry))).collect())
    }

    /// Gives the bytes of a slot away, once. From then on they are what its worker is at.
    pub(crate) fn take(&self, slot: u32, raw: &mut Vec<u8>) -> Result<(), Cause> {
        let entry = lock(&self.0[slot as usize]).take();
        let (bytes, _booked) = entry.ok_or("its bytes were taken before")?;
        *raw = bytes?;
        Ok(())
    }
}
