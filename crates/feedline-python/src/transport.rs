//! Both sides of the transport between processes: convert, wait without the GIL, convert back.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use feedline_ipc::{Arrival, End, Hub, Message, Outgoing, Posted, Received};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::ipc_error;
use crate::memory::SharedBytes;

/// How long the main process sleeps before it looks again: a worker may have been killed between sending and
/// ringing, and a signal may have come just before the sleep.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a worker sleeps before it looks for its parent.
const WORKER_PATIENCE: Duration = Duration::from_secs(1);

/// The time left, in slices.
struct Deadline(Option<Instant>);

impl Deadline {
    fn new(timeout: Option<f64>) -> PyResult<Deadline> {
        let Some(seconds) = timeout else { return Ok(Deadline(None)) };
        let wrong =
            || PyValueError::new_err(format!("timeout must be a number of seconds, got {seconds}"));
        if seconds.is_nan() {
            return Err(wrong());
        }
        match Duration::try_from_secs_f64(seconds.max(0.0)) {
            // Too far away to be counted is for ever.
            Err(_) => Ok(Deadline(None)),
            Ok(time) => Ok(Deadline(Instant::now().checked_add(time))),
        }
    }

    /// The next slice; None if the time is over.
    fn slice(&self, most: Duration) -> Option<Duration> {
        let Some(end) = self.0 else { return Some(most) };
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| left.min(most))
    }
}

/// A worker's number, the payload and the buffers.
type Arrived<'py> = (usize, Bound<'py, PyBytes>, Vec<SharedBytes>);

fn payload<'py>(py: Python<'py>, message: &Message) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, message.payload_len(), |to| {
        message.copy_payload(to);
        Ok(())
    })
}

/// The bytes of a buffer, as address and length.
fn span(buffer: &PyBuffer<u8>) -> PyResult<(*const u8, usize)> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("a buffer must be contiguous"));
    }
    Ok((buffer.buf_ptr().cast(), buffer.len_bytes()))
}

/// The main process's side of the transport.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct TransportHub {
    hub: Hub,
}

#[pymethods]
impl TransportHub {
    #[new]
    #[pyo3(signature = (workers, spares=0))]
    fn new(py: Python<'_>, workers: usize, spares: usize) -> PyResult<TransportHub> {
        let hub = Hub::with_spares(workers, spares).map_err(|e| ipc_error(py, &e))?;
        Ok(TransportHub { hub })
    }

    /// How many cells there are.
    #[getter]
    fn cells(&self) -> usize {
        feedline_ipc::CELLS
    }

    /// A number for the replacement of a worker whose process has ended.
    fn replace(&self, py: Python<'_>, worker: usize) -> PyResult<usize> {
        let found = self.hub.replace(worker).map_err(|e| ipc_error(py, &e))?;
        found.ok_or_else(|| PyValueError::new_err("the hub is closed"))
    }

    /// Memory that its worker has lent, by its place.
    fn borrow(&self, py: Python<'_>, place: u64, nbytes: usize) -> PyResult<SharedBytes> {
        let loan = self.hub.borrow_place(place, nbytes).map_err(|e| ipc_error(py, &e))?;
        let loan = loan.ok_or_else(|| PyValueError::new_err("the hub is closed"))?;
        Ok(SharedBytes::lent(loan))
    }

    /// The worker whose memory is at a place, if it is anybody's.
    fn owner(&self, place: u64) -> Option<usize> {
        self.hub.owner_of(place)
    }

    /// What is in a cell.
    fn load(&self, py: Python<'_>, cell: usize) -> PyResult<u64> {
        self.hub.load(cell).map_err(|e| ipc_error(py, &e))
    }

    /// Puts a value into a cell.
    fn store(&self, py: Python<'_>, cell: usize, value: u64) -> PyResult<()> {
        self.hub.store(cell, value).map_err(|e| ipc_error(py, &e))
    }

    /// Puts a value into a cell if another is there; whether it was.
    fn exchange(&self, py: Python<'_>, cell: usize, expected: u64, value: u64) -> PyResult<bool> {
        self.hub.exchange(cell, expected, value).map_err(|e| ipc_error(py, &e))
    }

    /// What worker number `worker` needs.
    fn worker_end(&self, py: Python<'_>, worker: usize) -> PyResult<TransportEnd> {
        let end = self.hub.worker_end(worker).map_err(|e| ipc_error(py, &e))?;
        let end = end.ok_or_else(|| PyValueError::new_err("the hub is closed"))?;
        Ok(TransportEnd { end })
    }

    /// Sends a payload to a worker. Never waits.
    fn send(&self, py: Python<'_>, worker: usize, payload: PyBuffer<u8>) -> PyResult<()> {
        let (from, len) = span(&payload)?;
        let bytes = match len {
            0 => &[][..],
            // SAFETY: the exporter keeps the bytes in place while we hold the buffer, and the GIL is
            // held, so no Python code changes them.
            _ => unsafe { std::slice::from_raw_parts(from, len) },
        };
        self.hub.send(worker, bytes).map_err(|e| ipc_error(py, &e))
    }

    /// Waits for a message of any worker: its number, the payload and the buffers; None after `timeout`
    /// seconds, or when the hub is closed.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Arrived<'py>>> {
        let deadline = Deadline::new(timeout)?;
        let mut received = self.hub.try_receive();
        loop {
            match received.map_err(|e| ipc_error(py, &e))? {
                Received::Message(mut message) => {
                    let payload = payload(py, &message)?;
                    let buffers =
                        message.take_buffers().into_iter().map(SharedBytes::lent).collect();
                    return Ok(Some((message.worker(), payload, buffers)));
                }
                Received::Closed => return Ok(None),
                Received::Signal | Received::Nothing => py.check_signals()?,
            }
            let Some(slice) = deadline.slice(PATIENCE) else { return Ok(None) };
            received = py.detach(|| self.hub.receive(slice));
        }
    }

    /// Lets go of all memory that is not viewed any more. Never waits.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.hub.close());
    }
}

/// A worker's side of the transport.
#[pyclass(frozen, module = "feedline._feedline")]
pub struct TransportEnd {
    end: End,
}

#[pymethods]
impl TransportEnd {
    /// The end of a hub whose descriptor was passed to this process, and which is taken over.
    #[staticmethod]
    fn open(py: Python<'_>, fd: i32, worker: usize) -> PyResult<TransportEnd> {
        if fd < 0 {
            return Err(PyValueError::new_err(format!("{fd} is no descriptor")));
        }
        // SAFETY: the caller hands an open descriptor over that nobody else will close.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(TransportEnd { end: End::open(fd, worker).map_err(|e| ipc_error(py, &e))? })
    }

    /// The descriptor to duplicate for the worker's process.
    fn fileno(&self) -> i32 {
        self.end.as_fd().as_raw_fd()
    }

    /// The worker's number.
    #[getter]
    fn worker(&self) -> usize {
        self.end.worker()
    }

    /// Waits for the next payload; None after `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let deadline = Deadline::new(timeout)?;
        // At least one look, also without time.
        let mut slice = Some(deadline.slice(WORKER_PATIENCE).unwrap_or_default());
        while let Some(limit) = slice {
            let received = py.detach(|| self.end.receive(limit));
            match received.map_err(|e| ipc_error(py, &e))? {
                Arrival::Done(message) => return payload(py, &message).map(Some),
                Arrival::Nothing | Arrival::Signal => py.check_signals()?,
            }
            slice = deadline.slice(WORKER_PATIENCE);
        }
        Ok(None)
    }

    /// Memory that goes to the main process without a copy when it is sent.
    fn allocate(&self, py: Python<'_>, nbytes: usize) -> PyResult<SharedBytes> {
        Ok(SharedBytes::own(self.end.allocate(nbytes).map_err(|e| ipc_error(py, &e))?))
    }

    /// Lends memory of this end's to the main process; its place.
    fn lend(&self, py: Python<'_>, memory: &SharedBytes) -> PyResult<u64> {
        let extent = memory.extent();
        let extent = extent.ok_or_else(|| PyValueError::new_err("it was not allocated here"))?;
        extent.lend().map_err(|e| ipc_error(py, &e))
    }

    /// Takes memory back that was lent and that the main process was not told of.
    fn take_back(&self, py: Python<'_>, place: u64) -> PyResult<()> {
        self.end.take_back(place).map_err(|e| ipc_error(py, &e))
    }

    /// Memory that some worker has lent, by its place, to be written to.
    fn open_place(&self, py: Python<'_>, place: u64, nbytes: usize) -> PyResult<SharedBytes> {
        let opened = self.end.open_place(place, nbytes).map_err(|e| ipc_error(py, &e))?;
        Ok(SharedBytes::opened(opened))
    }

    /// What is in a cell.
    fn load(&self, py: Python<'_>, cell: usize) -> PyResult<u64> {
        self.end.load(cell).map_err(|e| ipc_error(py, &e))
    }

    /// Puts a value into a cell.
    fn store(&self, py: Python<'_>, cell: usize, value: u64) -> PyResult<()> {
        self.end.store(cell, value).map_err(|e| ipc_error(py, &e))
    }

    /// Puts a value into a cell if another is there; whether it was.
    fn exchange(&self, py: Python<'_>, cell: usize, expected: u64, value: u64) -> PyResult<bool> {
        self.end.exchange(cell, expected, value).map_err(|e| ipc_error(py, &e))
    }

    /// Sends a payload with its buffers; waits while there is no room.
    fn send(
        &self,
        py: Python<'_>,
        payload: PyBuffer<u8>,
        buffers: Vec<PyBuffer<u8>>,
    ) -> PyResult<()> {
        let mut message = self.pack(py, &payload, &buffers)?;
        drop((payload, buffers));
        loop {
            let posted = py.detach(|| message.post(WORKER_PATIENCE));
            message = match posted.map_err(|e| ipc_error(py, &e))? {
                Posted::Done => return Ok(()),
                Posted::Nothing(again) | Posted::Signal(again) => again,
            };
            py.check_signals()?;
        }
    }
}

impl TransportEnd {
    fn pack(
        &self,
        py: Python<'_>,
        payload: &PyBuffer<u8>,
        buffers: &[PyBuffer<u8>],
    ) -> PyResult<Outgoing> {
        let (from, len) = span(payload)?;
        let spans = buffers.iter().map(span).collect::<PyResult<Vec<_>>>()?;
        let bytes = match len {
            0 => &[][..],
            // SAFETY: the exporter keeps the bytes in place while we hold the buffer; the payload was made
            // for this call alone.
            _ => unsafe { std::slice::from_raw_parts(from, len) },
        };
        // SAFETY: the exporters keep the bytes in place while we hold the buffers.
        let packed = unsafe { self.end.pack(bytes, &spans) };
        packed.map_err(|e| ipc_error(py, &e))
    }
}
