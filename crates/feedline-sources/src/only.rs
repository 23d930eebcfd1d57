//! Some fields of a dataset's samples.

use std::sync::Arc;

use feedline_core::Dataset;

/// The dataset with these fields only, by number and in this order; `None` where that would cost as much
/// as whole samples.
#[must_use]
pub fn only(dataset: &Arc<dyn Dataset>, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
    if fields.iter().copied().eq(0..dataset.fields().len()) {
        return Some(Arc::clone(dataset));
    }
    dataset.only(fields)
}
