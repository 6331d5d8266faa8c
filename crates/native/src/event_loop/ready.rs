//! The kinds of entries in the ready queue and in the timers. `running` runs them.

use super::handle::Handle;
use super::timer_handle::TimerHandle;
use crate::ffi::{prefetch, recycled};
use oneloop_engine::Event;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// The function that a native completion calls with its loop `L` and its object.
pub type Run<L> = for<'py> fn(&Bound<'py, L>, &Bound<'py, PyAny>) -> PyResult<()>;

/// An entry in the ready queue of a loop `L`.
pub enum Ready<L> {
    Handle(Py<Handle>),
    /// An `asyncio.Handle` or `asyncio.TimerHandle`: debug mode uses the standard library's.
    Stock(Py<PyAny>),
    /// A native completion, for example a transport's first or last callback.
    Native(Py<PyAny>, Run<L>),
    /// A turn of a green thread. Another green thread may switch directly to it.
    Green(Py<PyAny>, Run<L>),
    /// An event left over from a tick that an exception has ended, with that tick's number.
    Event(Event, u64),
    /// A timer left over from such a tick.
    Timer(Timer),
}

impl<L> Ready<L> {
    /// The loop is being closed: handles that the program keeps drop their callbacks, because the garbage collector
    /// does not track them and could not free them.
    pub fn forget(self, py: Python<'_>) {
        match self {
            Self::Handle(handle) => handle.get().work.forget(py),
            Self::Timer(timer) => timer.forget(py),
            Self::Stock(_) | Self::Native(..) | Self::Green(..) | Self::Event(..) => {}
        }
    }

    /// The loop stops and may become garbage together with its queue: the garbage collector tracks the entry from now
    /// on.
    pub fn track(&self, py: Python<'_>) {
        match self {
            Self::Handle(handle) => recycled::track(py, handle),
            Self::Timer(timer) => timer.track(py),
            Self::Stock(_) | Self::Native(..) | Self::Green(..) | Self::Event(..) => {}
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Handle(handle) => visit.call(handle),
            Self::Stock(object) | Self::Native(object, _) | Self::Green(object, _) => {
                visit.call(object)
            }
            Self::Timer(timer) => timer.visit(visit),
            Self::Event(..) => Ok(()),
        }
    }
}

pub enum Timer {
    Native(Py<TimerHandle>),
    Stock(Py<PyAny>),
}

impl Timer {
    /// Prefetches its memory.
    #[inline]
    pub fn fetch(&self) {
        if let Self::Native(handle) = self {
            prefetch::fetch(handle);
        }
    }

    /// Prefetches the other memory that running it touches. Call it once its own memory has arrived.
    #[inline]
    pub fn fetch_context(&self) {
        if let Self::Native(handle) = self {
            handle.get().work.fetch_context();
        }
    }

    pub fn is_cancelled(&self, py: Python<'_>) -> bool {
        match self {
            Self::Native(handle) => handle.get().work.is_cancelled(),
            Self::Stock(handle) => handle
                .bind(py)
                .getattr(intern!(py, "_cancelled"))
                .and_then(|flag| flag.is_truthy())
                .unwrap_or(false),
        }
    }

    /// Drops the loop's reference to the handle.
    #[inline]
    pub fn drop_ref(self, py: Python<'_>) {
        match self {
            Self::Native(handle) => handle.drop_ref(py),
            Self::Stock(handle) => handle.drop_ref(py),
        }
    }

    /// Like `Ready::forget`.
    pub fn forget(self, py: Python<'_>) {
        if let Self::Native(handle) = &self {
            handle.get().leave(py);
            handle.get().work.forget(py);
        }
    }

    /// Like `Ready::track`.
    pub fn track(&self, py: Python<'_>) {
        if let Self::Native(handle) = self {
            recycled::track(py, handle);
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Native(handle) => visit.call(handle),
            Self::Stock(object) => visit.call(object),
        }
    }
}
