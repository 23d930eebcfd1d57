//! What a view of a batch's memory keeps alive, and where it looks.

use std::sync::{Arc, Mutex};

use feedline::DType;
use smallvec::SmallVec;

use crate::sync::lock;

/// Where a view looks, and as what.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) address: *mut u8,
    pub(crate) dtype: DType,
    pub(crate) shape: SmallVec<[usize; 6]>,
}

// SAFETY: an address, a dtype and a shape; whoever reads there has to hold the array.
unsafe impl Send for Spot {}
// SAFETY: as above; sharing the description grants no access.
unsafe impl Sync for Spot {}

impl Spot {
    pub(crate) fn of(array: &feedline::Array) -> Spot {
        Spot { address: array.address(), dtype: array.dtype(), shape: array.shape().into() }
    }

    /// Whether the array is there, in the same form.
    pub(crate) fn is_of(&self, array: &feedline::Array) -> bool {
        self.address == array.address()
            && self.dtype == array.dtype()
            && self.shape[..] == *array.shape()
    }
}

/// A share in an array, and through it in its pool block. Whoever has a view has a share; the block
/// goes back to the pool with the last one.
///
/// A view may be made before there is anything to see; its share is filled once, before anybody gets
/// the view, and empty until then.
///
/// (A lock rather than a cell that is set once: setting that is a way through four functions, and each is
/// a miss to a loop whose caches are cold.)
#[derive(Clone)]
pub(crate) struct Hold(Arc<Mutex<Option<feedline::Array>>>);

impl Hold {
    pub(crate) fn of(array: feedline::Array) -> Hold {
        Hold(Arc::new(Mutex::new(Some(array))))
    }

    pub(crate) fn empty() -> Hold {
        Hold(Arc::default())
    }

    /// Fills an empty share. One that is full keeps what it has.
    pub(crate) fn fill(&self, array: feedline::Array) {
        lock(&self.0).get_or_insert(array);
    }

    /// The name of the array.
    pub(crate) fn name(&self) -> String {
        lock(&self.0).as_ref().map_or("", feedline::Array::name).into()
    }

    /// Whether anybody else has a share.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
