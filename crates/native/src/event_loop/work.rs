//! A callback, its arguments and its context: what a handle holds and what a tick runs.

use super::LoopCore;
use crate::ffi::{LoopCell, call, context};
use crate::imports;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{intern, PyTraverseError, PyVisit};
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments by number: nearly every callback of asyncio's own has none or one.
pub enum Args {
    None,
    One(Py<PyAny>),
    Two(Py<PyAny>, Py<PyAny>),
    Many(Py<PyTuple>),
}

impl Args {
    #[inline]
    pub fn from_slice(py: Python<'_>, values: &[Borrowed<'_, '_, PyAny>]) -> PyResult<Self> {
        Ok(match values {
            [] => Self::None,
            [one] => Self::One((*one).to_owned().unbind()),
            [one, two] => Self::Two((*one).to_owned().unbind(), (*two).to_owned().unbind()),
            many => Self::Many(PyTuple::new(py, many.iter().map(|v| (*v).to_owned()))?.unbind()),
        })
    }

    pub fn to_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self::None => Ok(PyTuple::empty(py)),
            Self::One(one) => PyTuple::new(py, [one]),
            Self::Two(one, two) => PyTuple::new(py, [one, two]),
            Self::Many(many) => Ok(many.bind(py).clone()),
        }
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::None => Ok(()),
            Self::One(one) => visit.call(one),
            Self::Two(one, two) => {
                visit.call(one)?;
                visit.call(two)
            }
            Self::Many(many) => visit.call(many),
        }
    }
}

pub struct Call {
    pub callback: Py<PyAny>,
    pub args: Args,
}

impl Call {
    #[inline]
    fn invoke(&self, py: Python<'_>) -> PyResult<()> {
        let callback = self.callback.bind(py);
        match &self.args {
            Args::None => call::call0(callback),
            Args::One(one) => call::call1(callback, one.bind(py)),
            Args::Two(one, two) => call::call2(callback, one.bind(py), two.bind(py)),
            Args::Many(many) => callback.call1(many.bind(py)),
        }
        .map(drop)
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        let args = match &self.args {
            Args::None => Args::None,
            Args::One(one) => Args::One(one.clone_ref(py)),
            Args::Two(one, two) => Args::Two(one.clone_ref(py), two.clone_ref(py)),
            Args::Many(many) => Args::Many(many.clone_ref(py)),
        };
        Self { callback: self.callback.clone_ref(py), args }
    }
}

pub struct Work {
    /// Taken by the run or by a cancellation, whichever is first; back after an exception, for
    /// the report's sake.
    call: LoopCell<Option<Call>>,
    pub context: Py<PyAny>,
    cancelled: AtomicBool,
}

impl Work {
    pub fn new(call: Call, context: Py<PyAny>) -> Self {
        Self { call: LoopCell::new(Some(call)), context, cancelled: AtomicBool::new(false) }
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// True if this call cancelled it, false if it was cancelled already. Frees the callback and
    /// its arguments at once.
    pub fn cancel(&self, py: Python<'_>) -> bool {
        if self.cancelled.swap(true, Ordering::Relaxed) {
            return false;
        }
        drop(self.call.take(py));
        true
    }

    /// Runs the callback once, as `asyncio.Handle._run` does: exceptions go to the loop's handler,
    /// KeyboardInterrupt and SystemExit to the caller (S7).
    #[inline]
    pub fn run(&self, owner: &Bound<'_, LoopCore>, handle: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = owner.py();
        let Some(call) = self.call.take(py) else { return Ok(()) };
        match context::run(self.context.bind(py), || call.invoke(py)) {
            Ok(()) => owner.get().lap(owner, call.callback.bind(py)),
            Err(error) => {
                owner.get().lap(owner, call.callback.bind(py))?;
                self.call.with(py, |slot| *slot = Some(call));
                self.report(owner, handle, error)
            }
        }
    }

    /// Runs the callback and keeps it, for readers and writers that run again and again.
    pub fn run_again(&self, owner: &Bound<'_, LoopCore>, handle: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = owner.py();
        let call = self.call.with(py, |slot| slot.as_ref().map(|call| call.clone_ref(py)));
        let Some(call) = call else { return Ok(()) };
        let outcome = context::run(self.context.bind(py), || call.invoke(py));
        owner.get().lap(owner, call.callback.bind(py))?;
        outcome.or_else(|error| self.report(owner, handle, error))
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

    /// `callback(args) at file:line`, as asyncio describes callbacks; empty once it has run.
    pub fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let call = self.call.with(py, |slot| slot.as_ref().map(|call| call.clone_ref(py)));
        let Some(call) = call else { return Ok(String::new()) };
        imports::format_callback_source(py)?
            .call1((call.callback, call.args.to_tuple(py)?))?
            .extract()
    }

    /// The callback and its arguments, `None` after a cancellation or a run.
    pub fn parts<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>> {
        self.call
            .with(py, |slot| slot.as_ref().map(|call| call.clone_ref(py)))
            .map(|call| Ok((call.callback.into_bound(py), call.args.to_tuple(py)?)))
            .transpose()
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.context)?;
        self.call
            .peek(|slot| match slot {
                Some(call) => {
                    visit.call(&call.callback)?;
                    call.args.visit(visit)
                }
                None => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}

/// Hands an exception to the loop's exception handler; KeyboardInterrupt and SystemExit, and
/// whatever the handler lets through, are returned (S7).
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
    let details = PyDict::new(py);
    details.set_item(intern!(py, "message"), message)?;
    details.set_item(intern!(py, "exception"), error.into_value(py))?;
    for (name, value) in extra {
        details.set_item(name, value)?;
    }
    owner.call_method1(intern!(py, "call_exception_handler"), (details,)).map(drop)
}
