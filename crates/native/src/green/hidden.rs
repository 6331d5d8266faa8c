//! `Hidden`: a loop that a green thread runs, while that waits and others run.
//!
//! No loop counts as running then and no task as current, and the hooks for asynchronous generators are the hub's. A
//! selector waits between two steps of its loop, a blocking call within one.

use super::hub::{HubCore, active_hub};
use crate::event_loop::Aside;
use crate::ffi::call;
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

type Hooks<'py> = [Bound<'py, PyAny>; 2];

struct Hidden<'py> {
    aside: Aside<'py>,
    hooks: Hooks<'py>,
    /// How many frames of the place where a coroutine was made are kept.
    depth: Bound<'py, PyAny>,
    set_hooks: Bound<'py, PyAny>,
    set_depth: Bound<'py, PyAny>,
}

impl<'py> Hidden<'py> {
    fn hide(py: Python<'py>) -> PyResult<Self> {
        let set_hooks = imports::set_asyncgen_hooks(py)?;
        let set_depth = imports::set_origin_tracking_depth(py)?;
        let hooks = call::call0(&imports::asyncgen_hooks(py)?)?;
        let hooks = [hooks.get_item(0)?, hooks.get_item(1)?];
        let depth = call::call0(&imports::origin_tracking_depth(py)?)?;
        let [first, last] = hub_hooks(py)?;
        let off = 0_u8.into_pyobject(py)?.into_any();
        let aside = Aside::set(py.None().bind(py))?;
        let hidden = Self { aside, hooks, depth, set_hooks, set_depth };
        let set = call::call2(&hidden.set_hooks, &first, &last)
            .and_then(|_| call::call1(&hidden.set_depth, &off));
        match set {
            Ok(_) => Ok(hidden),
            Err(error) => hidden.show().and(Err(error)),
        }
    }

    /// Other green threads may have changed all of it.
    fn show(self) -> PyResult<()> {
        let [first, last] = &self.hooks;
        let depth = call::call1(&self.set_depth, &self.depth).map(drop);
        let hooks = call::call2(&self.set_hooks, first, last).map(drop);
        self.aside.end().and(hooks).and(depth)
    }
}

/// The hooks of the hub's own loop, if that runs.
fn hub_hooks(py: Python<'_>) -> PyResult<Hooks<'_>> {
    let none = || py.None().into_bound(py);
    let Some(hub) = active_hub(py) else {
        return Ok([none(), none()]);
    };
    let owner = hub.get().owner(py);
    if !owner.get().is_running() {
        return Ok([none(), none()]);
    }
    Ok([
        owner.getattr(intern!(py, "_asyncgen_firstiter_hook"))?,
        owner.getattr(intern!(py, "_asyncgen_finalizer_hook"))?,
    ])
}

/// Waits in a coroutine or a callback, if that may block.
#[cold]
#[inline(never)]
pub fn wait_in_step<T>(
    hub: &Bound<'_, HubCore>,
    wait: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    HubCore::check_step(hub)?;
    hidden(hub.py(), wait)
}

/// Waits with the loop hidden that runs here.
pub fn hidden<T>(py: Python<'_>, wait: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let hidden = Hidden::hide(py)?;
    let waited = wait();
    let shown = hidden.show();
    waited.and_then(|value| shown.map(|()| value))
}

/// Call a function that waits, with the loop hidden that runs here: no loop counts as running, and no task as current.
#[pyfunction]
#[pyo3(signature = (function, /, *args, **kwargs))]
pub fn call_hidden<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    hidden(function.py(), || call::call_tuple(function, args, kwargs))
}
