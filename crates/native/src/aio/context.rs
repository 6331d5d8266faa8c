//! `Context`: requests go in, events come out; any thread may use it.
//!
//! What is Python's: arguments, exceptions, the life of the object. The state is in `shared`. Closing is
//! refused while another thread waits, because the kernel's context would go away under it; in the
//! child of a fork everything but `close()` is refused (S6).

use super::engine::{self, Room};
use super::event::Event;
use super::request::Request;
use super::shared::{Shared, closed};
use super::wait::{Deadline, Wanted};
use crate::errors;
use oneloop_engine::files::operation::Completion;
use oneloop_engine::files::polled::Polled;
use pyo3::exceptions::{PyResourceWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::CString;
use std::time::Duration;

/// How long `close()` waits for what is in flight.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// The same for a context that nobody has closed.
const FREE_LIMIT: Duration = Duration::from_secs(1);

/// A context for file operations that a program polls for itself.
///
/// Any thread may use it, also while another one waits in `get_events()`.
///
/// Args:
///     max_jobs: how many requests may be in flight at once.
///     engine: "ring" (io_uring), "aio" (Linux kernel AIO), or None for the best that works. Kernel
///         AIO is asynchronous for files that are opened with O_DIRECT, and for polls; with others
///         `submit()` blocks.
///
/// Raises:
///     OSError: the kernel, or its sandbox, refuses the engine; the text says what to do.
///     ValueError: no such engine, or `max_jobs` is not positive.
#[pyclass(frozen, weakref, module = "oneloop.aio")]
pub struct Context {
    shared: Shared,
    max_jobs: u32,
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (max_jobs, engine=None))]
    fn new(max_jobs: i64, engine: Option<&str>) -> PyResult<Self> {
        let max_jobs = u32::try_from(max_jobs).ok().filter(|jobs| *jobs > 0).ok_or_else(|| {
            PyValueError::new_err(format!("a context for {max_jobs} jobs cannot be had"))
        })?;
        let (polled, engine) = engine::open(Room::Exact(max_jobs), engine)?;
        Ok(Self { shared: Shared::new(polled, engine), max_jobs })
    }

    /// A context that behaves as one of kernel AIO on both engines, for programs that were made for
    /// that: io_setup(2) is told `max_jobs`, `room` requests are taken, and buffered files are read and
    /// written in order, which may block `submit()`.
    #[staticmethod]
    fn _as_kernel_aio(max_jobs: u32, room: u32, engine: Option<&str>) -> PyResult<Self> {
        let (polled, engine) = engine::open(Room::Kernel(max_jobs, room), engine)?;
        Ok(Self { shared: Shared::new(polled, engine), max_jobs })
    }

    /// Hand requests to the kernel, in order.
    ///
    /// Their buffers stay pinned, and they themselves alive, until `get_events()` has returned their
    /// events, whatever the program drops.
    ///
    /// Returns:
    ///     How many were taken: fewer than given if there is no room for more, or the next one is
    ///     wrong. The rest may be submitted again.
    ///
    /// Raises:
    ///     OSError: the kernel took none, and this is what it said of the first. BlockingIOError
    ///         (EAGAIN): `max_jobs` are in flight.
    ///     ValueError: a request is in flight already, or the context is closed.
    #[pyo3(signature = (*requests))]
    fn submit(&self, requests: &Bound<'_, PyTuple>) -> PyResult<usize> {
        let py = requests.py();
        let requests: Vec<Bound<'_, Request>> = requests
            .iter()
            .map(|one| one.cast_into().map_err(PyErr::from))
            .collect::<PyResult<_>>()?;
        if !self.shared.with(py, |state| state.polled.is_some())? {
            return Err(closed());
        }
        let mut operations = Vec::with_capacity(requests.len());
        let mut offered = 0;
        let prepared = requests.iter().try_for_each(|request| {
            request.get().offer(py, self.shared.id())?;
            offered += 1;
            operations.push(Request::operation(request)?);
            Ok(())
        });
        match prepared {
            Ok(()) if requests.is_empty() => Ok(0),
            Ok(()) => self.shared.enter(py, &requests, operations),
            Err(e) => {
                requests[..offered].iter().for_each(|request| request.get().land(py));
                Err(e)
            }
        }
    }

    /// Return the events of requests that have ended, in the order in which they ended.
    ///
    /// Args:
    ///     min_jobs: wait until there are that many; 0 does not wait.
    ///     max_jobs: return at most that many.
    ///     timeout: seconds after which to return what there is; 0 does not wait, None waits for ever.
    ///
    /// Raises:
    ///     ValueError: the numbers do not fit, or the context is closed.
    ///     KeyboardInterrupt, or what else a signal handler raises; no event is lost.
    #[pyo3(signature = (min_jobs, max_jobs, timeout=None))]
    fn get_events<'py>(
        &self,
        py: Python<'py>,
        min_jobs: i64,
        max_jobs: i64,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let wanted = Wanted::new(min_jobs, max_jobs)?;
        let deadline = Deadline::after(timeout)?;
        let mut got = Vec::new();
        if let Err(e) = self.shared.wait(py, wanted, deadline, &mut got) {
            // What was collected before is for the next call.
            self.shared.with(py, |state| {
                for completion in got.into_iter().rev() {
                    state.collected.push_front(completion);
                }
            })?;
            return Err(e);
        }
        let mut events = Vec::with_capacity(got.len());
        for Completion { owner, result, second_result, .. } in got {
            let request = owner.release();
            request.bind(py).get().land(py);
            events.push(Bound::new(py, Event::new(request, result, second_result))?);
        }
        PyTuple::new(py, events)
    }

    /// Ask the kernel to end a request early. Its event comes in any case, and tells what has become
    /// of it: -ECANCELED, or the result if it was too late. Disk operations cannot be cancelled once
    /// they have begun.
    ///
    /// Raises:
    ///     ValueError: the request is not in flight in this context, or the context is closed.
    fn cancel(&self, py: Python<'_>, request: &Bound<'_, Request>) -> PyResult<()> {
        let Some(key) = request.get().key(py, self.shared.id()) else {
            self.shared.with(py, |_| ())?;
            return Err(PyValueError::new_err("the request is not in flight in this context"));
        };
        let asked =
            self.shared.with(py, |state| state.polled.as_mut().map(|polled| polled.cancel(key)))?;
        match asked.ok_or_else(closed)? {
            // It cannot be cancelled (EINVAL), or has ended and only its event is missing (ENOENT).
            Err(e) if !matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                Err(errors::os_error("cancel", &e))
            }
            _ => Ok(()),
        }
    }

    /// End the context: cancel what waits, let writes finish, at most for 10 seconds, and drop the
    /// events that nobody has asked for. A second call does nothing.
    ///
    /// Raises:
    ///     RuntimeError: another thread is waiting in `get_events()`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, CLOSE_LIMIT)
    }

    /// True after `close()`.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.is_closed(py)
    }

    /// The engine that does the work: "ring" or "aio".
    #[getter]
    fn engine(&self) -> &'static str {
        self.shared.engine()
    }

    /// How many requests may be in flight at once.
    #[getter]
    fn max_jobs(&self) -> u32 {
        self.max_jobs
    }

    /// How many requests the kernel has.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared.with(py, |state| state.polled.as_ref().map_or(0, Polled::in_flight))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.closed(py)? { " closed" } else { "" };
        Ok(format!("<Context engine={} max_jobs={}{state}>", self.shared.engine(), self.max_jobs))
    }
}

impl Context {
    fn end(&self, py: Python<'_>, limit: Duration) -> PyResult<()> {
        match self.shared.end(py, limit)? {
            0 => Ok(()),
            leaked => warn(
                py,
                format!(
                    "{leaked} requests of a closed oneloop.aio.Context did not end: their buffers are \
                 never freed"
                ),
            ),
        }
    }
}

/// By the interpreter's own function, which also works when it is going down.
fn warn(py: Python<'_>, text: String) -> PyResult<()> {
    let text = CString::new(text)?;
    PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1)
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.shared.is_ended() {
            return;
        }
        Python::attach(|py| {
            // Freeing may happen while an exception is on its way: keep it.
            let pending = PyErr::take(py);
            let text = format!("unclosed oneloop.aio.Context for {} jobs", self.max_jobs);
            let warned = if self.shared.is_foreign() { Ok(()) } else { warn(py, text) };
            for outcome in [warned, self.end(py, FREE_LIMIT)] {
                if let Err(error) = outcome {
                    // Warnings turned into errors cannot be raised from here, as in __del__.
                    error.write_unraisable(py, None);
                }
            }
            if let Some(error) = pending {
                error.restore(py);
            }
        });
    }
}
