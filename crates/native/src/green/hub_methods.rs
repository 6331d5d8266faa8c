//! What Python code calls of a `HubCore`, and of the hub of the calling green thread.

use super::hidden::{self, hidden, wait_in_step};
use super::hub::{self, HubCore};
use super::turn::Turn;
use super::waiter::Waiter;
use crate::event_loop::LoopCore;
use crate::ffi::values::Value;
use crate::ffi::{Object, greenlet};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::sync::atomic::Ordering;

#[pymethods]
impl HubCore {
    #[new]
    #[pyo3(signature = (owner, *_args, **_kwargs))]
    fn new(
        py: Python<'_>,
        owner: Py<LoopCore>,
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyResult<Self> {
        Self::make(py, owner)
    }

    /// How many green threads were started and have not ended.
    #[getter]
    fn alive(&self) -> Value<usize> {
        Value(self.alive.load(Ordering::Relaxed))
    }

    /// The greenlet that runs, or will run, the loop; None before the first green thread.
    #[getter]
    fn greenlet(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.greenlet.with(py, |hub| hub.as_ref().map(|hub| hub.as_ref().clone_ref(py)))
    }

    #[setter]
    fn set_greenlet(&self, py: Python<'_>, hub: Option<Py<PyAny>>) {
        let old = self.greenlet.with(py, |slot| std::mem::replace(slot, hub.map(Object::from)));
        drop(old);
    }

    /// Whether a green thread runs while the loop waits for it.
    #[getter]
    fn is_away(&self, py: Python<'_>) -> bool {
        self.is_away.get(py)
    }

    /// Start a greenlet of this thread, which has not begun, in the loop's next tick. Returns the waiter for
    /// `cancel_start`.
    fn start<'py>(
        slf: &Bound<'py, Self>,
        greenlet: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Waiter>> {
        let waiter = Waiter::of(slf, greenlet, true)?;
        Waiter::resume_soon(&waiter);
        Ok(waiter)
    }

    /// Begin a greenlet of this thread in a callback of the loop, at once. Returns when it waits or has ended.
    fn run_now(slf: &Bound<'_, Self>, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::resume_within(slf, &Turn::unbegun(Object::new(greenlet.clone())))
    }

    /// Let other ready green threads run first.
    pub fn pause(slf: &Bound<'_, Self>) -> PyResult<()> {
        if Self::may_park(slf)? {
            return Waiter::pause(slf);
        }
        wait_in_step(slf, || Waiter::pause(slf))
    }

    /// Raise an exception in a waiting greenlet of this thread, in the loop's next tick. Does nothing if it has ended
    /// by then.
    fn throw_soon<'py>(
        slf: &Bound<'py, Self>,
        greenlet: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Waiter>> {
        let waiter = Waiter::of(slf, greenlet, false)?;
        Waiter::throw_soon(&waiter, error);
        Ok(waiter)
    }

    /// Raise an exception in a waiting greenlet of this thread, at once. Returns in the loop's next tick.
    fn throw_now(
        slf: &Bound<'_, Self>,
        greenlet: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        hidden(slf.py(), || {
            let current = greenlet::current(slf.py())?;
            let waiter = Waiter::of(slf, &current, false)?;
            Waiter::resume_soon(&waiter);
            greenlet::throw(greenlet, error)?;
            Waiter::await_turn_again(&waiter, &current)
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.greenlet
            .peek(|hub| hub.as_ref().map_or(Ok(()), |hub| hub.visit(&visit)))
            .unwrap_or(Ok(()))?;
        self.spare
            .peek(|spare| spare.iter().try_for_each(|waiter| waiter.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((self.greenlet.take(py), self.spare.take(py)));
    }
}

/// Return the hub of the calling green thread, of the loop that runs here, or of the thread, which is made at first
/// use.
#[pyfunction]
fn get_hub(py: Python<'_>) -> PyResult<Bound<'_, HubCore>> {
    HubCore::here(py)
}

/// Let other green threads and coroutines run, for at least `seconds`.
///
/// With `ref=False` this does not count as something to wait for: LoopExit is raised if nothing else is left.
///
/// Raises:
///     BlockingSwitchOutError: called in a coroutine that may not block, which must await `asyncio.sleep` instead.
#[pyfunction]
#[pyo3(signature = (seconds = 0.0, r#ref = true))]
fn sleep(py: Python<'_>, seconds: f64, r#ref: bool) -> PyResult<()> {
    if seconds <= 0.0 {
        return match HubCore::of_green_thread(py)? {
            Some(hub) => Waiter::pause(&hub),
            None => HubCore::pause(&HubCore::here(py)?),
        };
    }
    let hub = HubCore::here(py)?;
    let waiter = Bound::new(py, Waiter::make(&hub))?;
    let wake = waiter.getattr(intern!(py, "wake"))?;
    let timer = if r#ref {
        hub.get().owner(py).call_method1(intern!(py, "call_later"), (seconds, wake))?
    } else {
        let gevent_loop = hub.getattr(intern!(py, "loop"))?;
        gevent_loop.call_method1(intern!(py, "unref_timer"), (seconds, wake))?
    };
    let slept = Waiter::get(&waiter);
    timer.call_method0(intern!(py, "cancel"))?;
    slept.map(drop)
}

pub fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(hub::active_hub, module)?)?;
    module.add_function(wrap_pyfunction!(hub::forget_active_hub, module)?)?;
    module.add_function(wrap_pyfunction!(hidden::call_hidden, module)?)?;
    module.add_function(wrap_pyfunction!(get_hub, module)?)?;
    module.add_function(wrap_pyfunction!(sleep, module)?)
}
