//! Runs what waits in a loop: the entries of its ready queue, its timers, and the callbacks of handles.
//!
//! The tick handles each kind of entry in one match and holds no borrow while the entry runs (S2). What fails goes to the
//! loop's exception handler (S7).

use super::core::LoopCore;
use super::handle::Handle;
use super::ready::{Ready, Timer};
use super::timer_handle::TimerHandle;
use super::work::Work;
use crate::ffi::{context, fallible};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;

impl Ready<LoopCore> {
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
            Self::Timer(timer) => timer.run(owner),
        }
    }
}

impl Timer {
    /// Runs it unless it was cancelled.
    #[inline]
    pub fn run(self, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        if self.is_cancelled(owner.py()) {
            return Ok(());
        }
        match self {
            Self::Native(handle) => TimerHandle::run(handle.bind(owner.py()), owner),
            Self::Stock(handle) => run_stock(owner, handle.bind(owner.py())),
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

impl Handle {
    #[inline]
    pub fn run(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        let this = slf.get();
        this.turnstile.pass(|| this.work.run(owner, slf.as_any()))
    }
}

impl TimerHandle {
    #[inline]
    pub fn run(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        slf.get().leave(slf.py());
        slf.get().work.run(owner, slf.as_any())
    }
}

impl Work {
    /// Runs the callback once, like `asyncio.Handle._run`: exceptions go to the loop's handler, KeyboardInterrupt and
    /// SystemExit to the caller (S7).
    #[inline]
    pub fn run(&self, owner: &Bound<'_, LoopCore>, handle: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = owner.py();
        let Some((call, context)) = self.take(py) else { return Ok(()) };
        match context::run(context.bind(py), || call.invoke(py)) {
            Ok(()) => owner.get().lap(owner, call.callback.bind(py)),
            Err(error) => {
                let ended = owner.get().lap(owner, call.callback.bind(py));
                self.put_back(py, call, context);
                let described = self.describe(py).unwrap_or_default();
                let reported = self.report(owner, handle, error);
                self.end_failed(py, described);
                reported.and(ended)
            }
        }
    }

    /// Runs the callback and keeps it, for readers and writers that run repeatedly.
    pub fn run_again(
        &self,
        owner: &Bound<'_, LoopCore>,
        handle: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let (Some(call), Some(context)) = (self.call(py), self.context(py)) else { return Ok(()) };
        let outcome = context::run(&context, || call.invoke(py));
        let ended = owner.get().lap(owner, call.callback.bind(py));
        outcome.or_else(|error| self.report(owner, handle, error)).and(ended)
    }

    fn report(
        &self,
        owner: &Bound<'_, LoopCore>,
        handle: &Bound<'_, PyAny>,
        error: PyErr,
    ) -> PyResult<()> {
        let message = match self.describe(owner.py()) {
            Ok(text) => format!("Exception in callback {text}"),
            Err(_) => "Exception in callback".to_owned(),
        };
        report(owner, &message, error, &[(intern!(owner.py(), "handle"), handle)])
    }
}

/// Passes an exception to the loop's exception handler. Returns KeyboardInterrupt, SystemExit, and exceptions that
/// the handler lets through (S7).
pub fn report(
    owner: &Bound<'_, LoopCore>,
    message: &str,
    error: PyErr,
    extra: &[(&Bound<'_, pyo3::types::PyString>, &Bound<'_, PyAny>)],
) -> PyResult<()> {
    let py = owner.py();
    if error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py) {
        return Err(error);
    }
    let details = fallible::dict(py)?;
    details.set_item(intern!(py, "message"), fallible::text(py, message)?)?;
    details.set_item(intern!(py, "exception"), error.into_value(py))?;
    for (name, value) in extra {
        details.set_item(name, value)?;
    }
    owner.call_method1(intern!(py, "call_exception_handler"), (details,)).map(drop)
}

/// Reports the failure of a native callback that has no caller to raise it to; the loop continues (S7).
pub fn report_native(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    error: PyErr,
) -> PyResult<()> {
    report(owner, "Exception in native callback", error, &[(intern!(owner.py(), "source"), object)])
}
