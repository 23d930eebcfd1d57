//! Views made ahead, several at a time.
//!
//! To make a tensor runs through some two hundred cache lines of torch's code in sixty pages. Right
//! after a training step, or beside workers that fill whole batches, none of them is cached, and what
//! takes two microseconds when it is repeated takes twenty or thirty. The pool's blocks are used again
//! and again in the same form; so when a block comes by for the second time, the views for its next
//! turns are made with this one's.
//!
//! A view that waits shows whatever is in the memory, or memory that is gone, so nobody may see it: it
//! is here only, and the garbage collector, which shows all objects to those who ask, is not told of it.
//! It holds no block. When a batch is delivered in its block, it is given the array to hold and goes out;
//! it is an ordinary view then, and never comes back.
//!
//! Making a view may run Python code and let other threads in, so the lock is not held meanwhile.

use std::sync::Mutex;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::hold::{Hold, Spot};
use crate::sync::lock;

/// How many views are made at once. The more, the less the first one's misses matter.
const AT_ONCE: usize = 32;

/// How many arrays of blocks are remembered. Loaders have a few; a loop that keeps its batches sees new
/// ones all the time.
const REMEMBERED: usize = 64;

/// Views that wait for batches to be delivered in their blocks.
#[derive(Default)]
pub(crate) struct Prepared(Mutex<WaitingViews>);

#[derive(Default)]
struct WaitingViews {
    places: Vec<WaitingView>,
    /// Which one is forgotten for the next new one.
    oldest: usize,
}

/// One array of one block.
struct WaitingView {
    spot: Spot,
    views: Vec<PreparedView>,
}

/// A view that waits.
struct PreparedView {
    /// `None` once it has gone out.
    object: Option<Py<PyAny>>,
    /// That part of it that the garbage collector knew of: itself, or what it is based on.
    hidden: Option<Py<PyAny>>,
    hold: Hold,
}

/// Makes a view of a place that keeps a share.
pub(crate) trait MakeView {
    fn make<'py>(&self, py: Python<'py>, spot: &Spot, hold: Hold) -> PyResult<Bound<'py, PyAny>>;

    /// Whether views like this one, made now, are as good later.
    fn keeps(&self, view: &Bound<'_, PyAny>) -> PyResult<bool>;

    /// The part of a view that the garbage collector may know of.
    fn known_part<'py>(&self, view: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;
}

impl Prepared {
    /// A view of the array.
    pub(crate) fn view<'py>(
        &self,
        py: Python<'py>,
        array: feedline::Array,
        maker: &impl MakeView,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut places = lock(&self.0);
        let Some(place) = places.find(&array) else {
            let spot = Spot::of(&array);
            let forgotten = places.remember(spot.clone());
            drop(places);
            drop(forgotten);
            return maker.make(py, &spot, Hold::of(array));
        };
        if let Some(view) = place.views.pop() {
            drop(places);
            return Ok(view.give(py, array));
        }
        let spot = place.spot.clone();
        drop(places);
        let now = maker.make(py, &spot, Hold::of(array))?;
        // From here on nothing may fail: the batch that was asked for is there.
        if !maker.keeps(&now).unwrap_or(false) {
            return Ok(now);
        }
        let mut views = Vec::with_capacity(AT_ONCE - 1);
        while views.len() < AT_ONCE - 1 {
            match PreparedView::made(py, &spot, maker) {
                Ok(Some(view)) => views.push(view),
                _ => break,
            }
        }
        let mut places = lock(&self.0);
        // Another thread may have been here meanwhile.
        match places.places.iter_mut().find(|place| place.spot == spot) {
            Some(place) if place.views.is_empty() => place.views = views,
            _ => {
                drop(places);
                drop(views);
            }
        }
        Ok(now)
    }
}

impl WaitingViews {
    fn find(&mut self, array: &feedline::Array) -> Option<&mut WaitingView> {
        self.places.iter_mut().find(|place| place.spot.is_of(array))
    }

    /// Returns what is forgotten, to be dropped without the lock.
    fn remember(&mut self, spot: Spot) -> Option<WaitingView> {
        let place = WaitingView { spot, views: Vec::new() };
        // The same address in another form: the block serves something else now.
        let same = self.places.iter().position(|other| other.spot.address == place.spot.address);
        if same.is_none() && self.places.len() < REMEMBERED {
            self.places.push(place);
            return None;
        }
        let slot = same.unwrap_or(self.oldest);
        if same.is_none() {
            self.oldest = (slot + 1) % REMEMBERED;
        }
        Some(std::mem::replace(&mut self.places[slot], place))
    }
}

impl PreparedView {
    /// Makes one, unless its maker copies.
    fn made(py: Python<'_>, spot: &Spot, maker: &impl MakeView) -> PyResult<Option<PreparedView>> {
        let hold = Hold::empty();
        let object = maker.make(py, spot, hold.clone())?;
        // Who copied the bytes has no share any more, and would show old ones later.
        if !hold.is_shared() {
            return Ok(None);
        }
        let part = maker.known_part(&object)?;
        // SAFETY: the GIL is held and the object alive.
        let is_known = unsafe { ffi::PyObject_GC_IsTracked(part.as_ptr()) != 0 };
        if is_known {
            // SAFETY: as above; it is tracked again before anybody else has it or it is freed (`show`).
            unsafe { ffi::PyObject_GC_UnTrack(part.as_ptr().cast()) };
        }
        let hidden = is_known.then(|| part.unbind());
        Ok(Some(PreparedView { object: Some(object.unbind()), hidden, hold }))
    }

    /// Shows the array from now on.
    fn give(mut self, py: Python<'_>, array: feedline::Array) -> Bound<'_, PyAny> {
        self.hold.fill(array);
        self.show(py);
        self.object.take().expect("goes out once").into_bound(py)
    }

    fn show(&mut self, _py: Python<'_>) {
        if let Some(part) = self.hidden.take() {
            // SAFETY: the GIL is held; `made` untracked the object, and nobody else knew it since.
            unsafe { ffi::PyObject_GC_Track(part.as_ptr().cast()) }
        }
    }
}

impl Drop for PreparedView {
    fn drop(&mut self) {
        // Some types expect to be tracked when they are freed. Without an interpreter nothing is freed.
        if self.hidden.is_some() && Python::try_attach(|py| self.show(py)).is_none() {
            std::mem::forget((self.object.take(), self.hidden.take()));
        }
    }
}
