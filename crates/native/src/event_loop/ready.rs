//! The kinds of entries in the ready queue and in the heap of timers.
//!
//! The tick handles each kind in one match and holds no borrow while the entry runs (S2).

use super::work::report_native;
use super::{Handle, LoopCore, TimerHandle};
use crate::ffi::{prefetch, recycled};
use oneloop_engine::Event;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// The function that a native completion calls with its object.
pub type Run = for<'py> fn(&Bound<'py, LoopCore>, &Bound<'py, PyAny>) -> PyResult<()>;

pub enum Ready {
    Handle(Py<Handle>),
    /// An `asyncio.Handle` or `asyncio.TimerHandle`: debug mode uses the standard library's.
    Stock(Py<PyAny>),
    /// A native completion, for example a transport's first or last callback.
    Native(Py<PyAny>, Run),
    /// A turn of a green thread. Another green thread may switch directly to it.
    Green(Py<PyAny>, Run),
    /// An event left over from a tick that an exception has ended, with that tick's number.
    Event(Event, u64),
    /// A timer left over from such a tick.
    Timer(Timer),
}

impl Ready {
    #[inline]
    pub fn run(self, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        let py = owner.py();
        match self {
            Self::Handle(handle) => Handle::run(handle.bind(py), owner),
            Self::Stock(handle) => run_stock(owner, handle.bind(py)),
            // Exceptions from here are meant to leave the loop.
            Self::Green(object, run) => run(owner, object.bind(py)),
            Self::Native(object, run) => {
                let object = object.bind(py);
                run(owner, object).or_else(|error| report_native(owner, object, error))
            }
            Self::Event(event, tick) => owner.get().serve_event(owner, event, tick),
            Self::Timer(timer) if timer.is_cancelled(py) => Ok(()),
            Self::Timer(timer) => timer.run(owner),
        }
    }

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

/// Debug mode: Python code measures the callback and reports slow ones.
pub fn run_stock(owner: &Bound<'_, LoopCore>, handle: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let callback = handle.getattr(intern!(py, "_callback"))?;
    let outcome = owner.call_method1(intern!(py, "_run_debug_handle"), (handle,));
    outcome.map(drop).and(owner.get().lap_reported(owner, &callback))
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

    /// Marks the handle as removed from the heap.
    pub fn popped(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Self::Native(handle) => {
                handle.get().popped(py);
                Ok(())
            }
            Self::Stock(handle) => handle.bind(py).setattr(intern!(py, "_scheduled"), false),
        }
    }

    #[inline]
    pub fn run(self, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        match self {
            Self::Native(handle) => TimerHandle::run(handle.bind(owner.py()), owner),
            Self::Stock(handle) => run_stock(owner, handle.bind(owner.py())),
        }
    }

    /// Like `Ready::forget`.
    pub fn forget(self, py: Python<'_>) {
        if let Self::Native(handle) = &self {
            handle.get().popped(py);
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
