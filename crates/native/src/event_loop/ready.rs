//! The kinds of what may wait in the ready queue and in the heap of timers.
//!
//! The tick treats each kind in one match and holds no borrow while it runs (S2).

use super::work::report_native;
use super::{Handle, LoopCore, TimerHandle};
use crate::ffi::{prefetch, recycled};
use oneloop_engine::Event;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// What a native completion does with its object.
pub type Run = for<'py> fn(&Bound<'py, LoopCore>, &Bound<'py, PyAny>) -> PyResult<()>;

pub enum Ready {
    Handle(Py<Handle>),
    /// An `asyncio.Handle` or `asyncio.TimerHandle`: debug mode has the standard library's.
    Stock(Py<PyAny>),
    /// A native completion: a transport's start or end, for instance.
    Native(Py<PyAny>, Run),
    /// A green thread's turn, to which another one may switch straight.
    Green(Py<PyAny>, Run),
    /// What a tick that an exception has ended had still to serve, and that tick's number.
    Event(Event, u64),
    /// And to run.
    Timer(Timer),
}

impl Ready {
    #[inline]
    pub fn run(self, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        let py = owner.py();
        match self {
            Self::Handle(handle) => Handle::run(handle.bind(py), owner),
            Self::Stock(handle) => run_stock(owner, handle.bind(py)),
            // What it lets out is meant to leave the loop.
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

    /// The loop is being closed: handles that the program keeps let go of their callbacks, since
    /// the collector could not.
    pub fn forget(self, py: Python<'_>) {
        match self {
            Self::Handle(handle) => handle.get().work.forget(py),
            Self::Timer(timer) => timer.forget(py),
            Self::Stock(_) | Self::Native(..) | Self::Green(..) | Self::Event(..) => {}
        }
    }

    /// The loop stops, and may become garbage with what waits in it: the collector looks at it from now on.
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

/// Debug mode: Python code measures the callback and reports the slow ones.
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
    /// Asks for its memory.
    #[inline]
    pub fn fetch(&self) {
        if let Self::Native(handle) = self {
            prefetch::fetch(handle);
        }
    }

    /// Once its own memory is there: asks for what running it will touch besides.
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

    /// Tells the handle that it has left the heap.
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

    /// As for `Ready`.
    pub fn forget(self, py: Python<'_>) {
        if let Self::Native(handle) = &self {
            handle.get().popped(py);
            handle.get().work.forget(py);
        }
    }

    /// As for `Ready`.
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
