//! `create_future` and `create_task`: makes asyncio's own classes without a Python frame.

use super::LoopCore;
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, BareMethod, FastMethod};
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::CStr;

struct CreateFuture;

impl BareMethod for CreateFuture {
    type Class = LoopCore;
    const NAME: &'static CStr = c"create_future";
    const DOC: &'static CStr =
        c"create_future($self, /)\n--\n\nMake an asyncio.Future that belongs to this loop.";

    fn call<'py>(this: Borrowed<'_, 'py, LoopCore>) -> PyResult<Bound<'py, PyAny>> {
        imports::future(this.py())?.call((), Some(&only_loop(this)?))
    }
}

struct CreateTask;

impl FastMethod for CreateTask {
    type Class = LoopCore;
    const NAME: &'static CStr = c"create_task";
    const DOC: &'static CStr = c"create_task($self, coro, /, **kwargs)\n--\n\nMake a task of a coroutine.\n\nTakes the keyword arguments that asyncio's loop takes in the running Python version (name,\ncontext, eager_start...), and asks the task factory if there is one. RuntimeError on a closed loop.";

    fn call<'py>(
        this: Borrowed<'_, 'py, LoopCore>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let core = this.get();
        let slf = this.to_owned().into_any();
        // With a task factory, or in debug mode with its tracebacks: call the standard library's code.
        if core.is_debug() || !slf.getattr(intern!(py, "_task_factory"))?.is_none() {
            return arguments.call_after(&imports::stock_create_task(py)?, &slf);
        }
        core.check_closed()?;
        arguments.call_with_loop(&imports::task(py)?, &only_loop(this)?)
    }
}

/// The keyword arguments `{"loop": loop}` of every new future and task, made once.
#[inline]
fn only_loop<'py>(this: Borrowed<'_, 'py, LoopCore>) -> PyResult<Bound<'py, PyDict>> {
    let py = this.py();
    let core = this.get();
    if let Some(made) = core.only_loop.with(py, |made| made.as_ref().map(|d| d.bind(py).clone())) {
        return Ok(made);
    }
    let made = fallible::dict(py)?;
    made.set_item(intern!(py, "loop"), this)?;
    let kept = made.clone().unbind();
    let old = core.only_loop.with(py, |slot| slot.replace(kept));
    drop(old);
    Ok(made)
}

pub(crate) fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add_bare::<CreateFuture>(py)?;
    method::add::<CreateTask>(py)
}
