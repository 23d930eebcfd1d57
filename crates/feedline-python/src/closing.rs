//! How loaders end: dropped, or with the interpreter.
//!
//! Both release the GIL, since workers may need it to end.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::sync::lock;

/// How long dropping a loader, or the end of the interpreter, waits for workers that are in a Python
/// function. What they make is not wanted any more, and the user is waiting.
const PARTING: Duration = Duration::from_secs(1);

/// All loaders alive, so that they can be closed before the interpreter goes.
static LOADERS: Mutex<Vec<Weak<feedline::Loader>>> = Mutex::new(Vec::new());

/// Notes a loader, so that it is closed at the end of the interpreter if it is there then.
pub(crate) fn note(loader: &Arc<feedline::Loader>) {
    let mut loaders = lock(&LOADERS);
    loaders.retain(|loader| loader.strong_count() > 0);
    loaders.push(Arc::downgrade(loader));
}

/// Gives up one share of a loader. The last one closes it, waiting for its workers without the GIL.
pub(crate) fn release(loader: Option<Arc<feedline::Loader>>) {
    let Some(mut loader) = loader.and_then(Arc::into_inner).map(Some) else { return };
    let mut close = || loader.take().map(|loader| loader.close_within(PARTING));
    // Without an interpreter there is no GIL to release either.
    if Python::try_attach(|py| py.detach(&mut close)).is_none() {
        close();
    }
}

/// The thread in which the interpreter is about to go.
static GOING: OnceLock<ThreadId> = OnceLock::new();

/// Stops this thread if the loader was closed because the interpreter is about to go: a daemon's wait
/// then just never ends, as Python has it, and no exception is printed over the program's last words.
pub(crate) fn stop_if_at_exit(py: Python<'_>) {
    if GOING.get().is_some_and(|thread| *thread != std::thread::current().id()) {
        py.detach(|| {
            loop {
                std::thread::park();
            }
        });
    }
}

/// Closes all loaders; called when the interpreter is about to go.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let _ = GOING.set(std::thread::current().id());
    let loaders = std::mem::take(&mut *lock(&LOADERS));
    py.detach(|| {
        let loaders: Vec<_> = loaders.iter().filter_map(Weak::upgrade).collect();
        // First all are told, then all are waited for, so that several do not add up.
        for loader in &loaders {
            loader.close_within(Duration::ZERO);
        }
        let deadline = Instant::now() + PARTING;
        for loader in &loaders {
            let left = deadline.saturating_duration_since(Instant::now());
            loader.close_within(left.max(Duration::from_millis(1)));
        }
    });
}
