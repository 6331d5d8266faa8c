//! `Context`: requests go in, events come out; any thread may use it.
//!
//! This file handles arguments, exceptions and the object's lifetime; the state is in `shared`. Closing is refused
//! while another thread waits, because the kernel's context would be destroyed under it. In a forked child only
//! `close()` is allowed (S6).

use super::engine::{self, Room};
use super::event::Event;
use super::request::Request;
use super::shared::{Shared, closed};
use super::wait::{Deadline, Wanted};
use crate::errors;
use crate::ffi::fallible;
use crate::ffi::thread_exit::guard_thread;
use crate::ffi::values::Value;
use oneloop_engine::files::operation::Completion;
use oneloop_engine::files::polled::Polled;
use pyo3::exceptions::{PyResourceWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::CString;
use std::time::Duration;

/// How long `close()` waits for requests in flight.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// Like `CLOSE_LIMIT`, for a context that was not closed.
const FREE_LIMIT: Duration = Duration::from_secs(1);

/// A context for file operations that a program polls itself.
///
/// Any thread may use it, even while another one waits in `get_events()`.
///
/// Args:
///     max_jobs: the maximum number of requests in flight.
///     engine: "ring" (io_uring), "aio" (Linux kernel AIO), or None for the best that works. Kernel AIO is
///         asynchronous for files that are opened with O_DIRECT, and for polls; with others `submit()` blocks.
///
/// Raises:
///     OSError: the kernel, or its sandbox, refuses the engine; the text says what to do.
///     ValueError: an unknown engine, or `max_jobs` is not positive.
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
            PyValueError::new_err(format!("max_jobs must be from 1 to 4294967295, got {max_jobs}"))
        })?;
        let (polled, engine) = engine::open(Room::Exact(max_jobs), engine)?;
        Ok(Self { shared: Shared::new(polled, engine), max_jobs })
    }

    /// Make a context that behaves like one of kernel AIO on both engines, for programs written for it: io_setup(2)
    /// is called with `max_jobs`, up to `room` requests are accepted, and buffered files are read and written in
    /// order, which may block `submit()`.
    #[staticmethod]
    fn _as_kernel_aio(max_jobs: u32, room: u32, engine: Option<&str>) -> PyResult<Self> {
        let (polled, engine) = engine::open(Room::Kernel(max_jobs, room), engine)?;
        Ok(Self { shared: Shared::new(polled, engine), max_jobs })
    }

    /// Submit requests to the kernel, in order.
    ///
    /// The requests stay alive and their buffers pinned until `get_events()` has returned their events, even if the
    /// program drops them.
    ///
    /// Returns:
    ///     How many were accepted: fewer than given if there is no room for more, or the next one is invalid. The rest
    ///     may be submitted again.
    ///
    /// Raises:
    ///     OSError: the kernel accepted none; this is its error for the first. BlockingIOError (EAGAIN): `max_jobs`
    ///         are in flight.
    ///     ValueError: a request is already in flight, or the context is closed.
    #[pyo3(signature = (*requests))]
    fn submit(&self, requests: &Bound<'_, PyTuple>) -> PyResult<Value<usize>> {
        guard_thread();
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
        .map(Value)
    }

    /// Return the events of requests that have ended, in the order in which they ended.
    ///
    /// Args:
    ///     min_jobs: wait until there are this many; 0 does not wait.
    ///     max_jobs: return at most this many.
    ///     timeout: seconds after which to return the events available; 0 does not wait, None waits forever.
    ///
    /// Raises:
    ///     ValueError: the arguments are invalid, or the context is closed.
    ///     KeyboardInterrupt, or another exception of a signal handler; no event is lost.
    #[pyo3(signature = (min_jobs, max_jobs, timeout=None))]
    fn get_events<'py>(
        &self,
        py: Python<'py>,
        min_jobs: i64,
        max_jobs: i64,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        guard_thread();
        let wanted = Wanted::new(min_jobs, max_jobs)?;
        let deadline = Deadline::after(timeout)?;
        let mut got = Vec::new();
        if let Err(e) = self.shared.wait(py, wanted, deadline, &mut got) {
            // Events that were already collected are for the next call.
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
            events.push(Bound::new(py, Event::new(request, result, second_result))?.into_any());
        }
        fallible::tuple_of(py, events.into_iter())
    }

    /// Ask the kernel to end a request early. Its event still arrives, and has -ECANCELED, or the result if it was
    /// too late. Disk operations cannot be cancelled once they have begun.
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
            // It cannot be cancelled (EINVAL), or has ended and only its event is outstanding (ENOENT).
            Err(e) if !matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                Err(errors::os_error("cancel", &e))
            }
            _ => Ok(()),
        }
    }

    /// Close the context: cancel waiting requests, let writes finish for up to 10 seconds, and drop events that were
    /// not fetched. A second call does nothing.
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

    /// The engine: "ring" or "aio".
    #[getter]
    fn engine(&self) -> Value<&'static str> {
        Value(self.shared.engine())
    }

    /// The maximum number of requests in flight.
    #[getter]
    fn max_jobs(&self) -> Value<u32> {
        Value(self.max_jobs)
    }

    /// The number of requests in flight.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<Value<usize>> {
        self.shared.with(py, |state| state.polled.as_ref().map_or(0, Polled::in_flight)).map(Value)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        let state = if self.closed(py)? { " closed" } else { "" };
        Ok(Value(format!(
            "<Context engine={} max_jobs={}{state}>",
            self.shared.engine(),
            self.max_jobs
        )))
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

/// Uses the interpreter's own function, which also works during shutdown.
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
            // Freeing may happen while an exception is propagating: keep it.
            let pending = PyErr::take(py);
            let text = format!("unclosed oneloop.aio.Context for {} jobs", self.max_jobs);
            let warned = if self.shared.is_foreign() { Ok(()) } else { warn(py, text) };
            for outcome in [warned, self.end(py, FREE_LIMIT)] {
                if let Err(error) = outcome {
                    // If warnings are errors, they cannot be raised from here, as in __del__.
                    error.write_unraisable(py, None);
                }
            }
            if let Some(error) = pending {
                error.restore(py);
            }
        });
    }
}
