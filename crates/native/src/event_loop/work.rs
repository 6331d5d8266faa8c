//! A callback, its arguments and its context, as stored in a handle. `running` runs them.

use crate::ffi::fallible;
use crate::ffi::{LoopCell, Object, call, prefetch};
use crate::imports;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments by count: nearly all of asyncio's own callbacks have none or one.
pub enum Args {
    None,
    One(Object),
    Two(Object, Object),
    /// A tuple.
    Many(Object),
}

impl Args {
    #[inline]
    pub fn from_slice(py: Python<'_>, values: &[Borrowed<'_, '_, PyAny>]) -> PyResult<Self> {
        Ok(match values {
            [] => Self::None,
            [one] => Self::One(Object::new((*one).to_owned())),
            [one, two] => Self::Two(Object::new((*one).to_owned()), Object::new((*two).to_owned())),
            many => {
                let many = fallible::tuple_of(py, many.iter().map(|v| (*v).to_owned()))?;
                Self::Many(Object::new(many.into_any()))
            }
        })
    }

    pub fn to_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self::None => Ok(PyTuple::empty(py)),
            Self::One(one) => fallible::tuple(py, [one.bind(py).clone()]),
            Self::Two(one, two) => {
                fallible::tuple(py, [one.bind(py).clone(), two.bind(py).clone()])
            }
            Self::Many(many) => Ok(many.bind(py).cast::<PyTuple>()?.clone()),
        }
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::None => Ok(()),
            Self::One(one) | Self::Many(one) => one.visit(visit),
            Self::Two(one, two) => {
                one.visit(visit)?;
                two.visit(visit)
            }
        }
    }
}

pub struct Call {
    pub callback: Object,
    pub args: Args,
}

impl Call {
    #[inline]
    pub fn invoke(&self, py: Python<'_>) -> PyResult<()> {
        let callback = self.callback.bind(py);
        match &self.args {
            Args::None => call::call0(callback),
            Args::One(one) => call::call1(callback, one.bind(py)),
            Args::Two(one, two) => call::call2(callback, one.bind(py), two.bind(py)),
            Args::Many(many) => callback.call1(many.bind(py).cast::<PyTuple>()?),
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

/// What remains of a callback.
#[derive(Default)]
enum Slot {
    Call(Call),
    /// It has failed. Kept as text, so that the report keeps no objects alive.
    Failed(Box<str>),
    #[default]
    Empty,
}

pub struct Work {
    /// Taken by the run or by a cancellation, whichever comes first.
    slot: LoopCell<Slot>,
    /// Dropped when the work has run or has left its queue. A cancellation leaves it, because freeing a context costs
    /// more than the rest of the cancellation.
    context: LoopCell<Option<Object>>,
    cancelled: AtomicBool,
}

impl Work {
    pub fn new(call: Call, context: Object) -> Self {
        Self {
            slot: LoopCell::new(Slot::Call(call)),
            context: LoopCell::new(Some(context)),
            cancelled: AtomicBool::new(false),
        }
    }

    /// The context in which the callback will run; `None` once it was dropped.
    pub fn context<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.context.with(py, |slot| slot.as_ref().map(|context| context.bind(py).clone()))
    }

    /// Takes the callback and its context out, for the run. `None` if it was cancelled, or has run.
    #[inline]
    pub fn take(&self, py: Python<'_>) -> Option<(Call, Object)> {
        let context = self.context.take(py);
        match (self.slot.take(py), context) {
            (Slot::Call(call), Some(context)) => Some((call, context)),
            _ => None,
        }
    }

    /// Puts back what `take` has returned: the exception handler sees the handle unchanged, and runs in its context.
    pub fn put_back(&self, py: Python<'_>, call: Call, context: Object) {
        self.slot.with(py, |slot| *slot = Slot::Call(call));
        self.context.with(py, |slot| *slot = Some(context));
    }

    /// It has failed, and was reported.
    pub fn end_failed(&self, py: Python<'_>, described: String) {
        self.forget(py);
        self.slot.with(py, |slot| *slot = Slot::Failed(described.into()));
    }

    /// Drops everything without cancelling: it has left its queue, or its loop closes.
    pub fn forget(&self, py: Python<'_>) {
        drop(self.slot.take(py));
        drop(self.context.take(py));
    }

    /// Prefetches the memory that running it touches.
    pub fn fetch_context(&self) {
        self.context.peek(|context| context.iter().for_each(|c| prefetch::fetch(c.as_ref())));
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns true if this call cancelled it, false if it was already cancelled. Frees the callback and its
    /// arguments immediately.
    pub fn cancel(&self, py: Python<'_>) -> bool {
        // The GIL makes these two one step; an atomic exchange would cost more than the rest.
        if self.cancelled.load(Ordering::Relaxed) {
            return false;
        }
        self.cancelled.store(true, Ordering::Relaxed);
        drop(self.slot.take(py));
        true
    }

    pub fn call(&self, py: Python<'_>) -> Option<Call> {
        self.slot.with(py, |slot| match slot {
            Slot::Call(call) => Some(call.clone_ref(py)),
            Slot::Failed(_) | Slot::Empty => None,
        })
    }

    /// `callback(args) at file:line`, in asyncio's format; empty once it has run.
    pub fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let failed = self.slot.with(py, |slot| match slot {
            Slot::Failed(described) => Some(described.to_string()),
            _ => None,
        });
        let Some(call) = self.call(py) else { return Ok(failed.unwrap_or_default()) };
        imports::format_callback_source(py)?
            .call1((call.callback.bind(py), call.args.to_tuple(py)?))?
            .extract()
    }

    /// The callback and its arguments; `None` after a cancellation or a run.
    pub fn parts<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>> {
        self.call(py)
            .map(|call| Ok((call.callback.bind(py).clone(), call.args.to_tuple(py)?)))
            .transpose()
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(Err(error)) =
            self.context.peek(|slot| slot.as_ref().map_or(Ok(()), |context| context.visit(visit)))
        {
            return Err(error);
        }
        self.slot
            .peek(|slot| match slot {
                Slot::Call(call) => {
                    call.callback.visit(visit)?;
                    call.args.visit(visit)
                }
                Slot::Failed(_) | Slot::Empty => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}
