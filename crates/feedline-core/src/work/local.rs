//! What one worker has of its own.

use crate::assemble::Parcel;

/// One worker's own things, reused from sample to sample.
pub(crate) struct Local {
    pub(crate) worker: usize,
    pub(crate) raw: Vec<u8>,
    pub(crate) parcel: Parcel,
}

impl Local {
    pub(crate) fn new(worker: usize) -> Local {
        Local { worker, raw: Vec::new(), parcel: Parcel::default() }
    }
}
