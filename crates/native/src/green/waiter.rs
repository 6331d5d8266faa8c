//! `Waiter`: one wait of one green thread, and its result.
//!
//! ```text
//! pending → parked → queued → ended
//!       ↘ resolved ↗     (before the wait)
//! ```
//! If an exception ends the wait, the green thread first detaches from the waiter, so that a later wake-up has no
//! effect.

use super::hidden::wait_in_step;
use super::hub::HubCore;
use super::turn::Turn;
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, Object, greenlet, references};
use crate::imports;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};

#[derive(Default)]
enum Outcome {
    #[default]
    Pending,
    Value(Object),
    /// An exception.
    Error(Object),
}

#[derive(Default)]
struct State {
    /// The greenlet that waits.
    greenlet: Option<Object>,
    outcome: Outcome,
    /// It is in the loop's ready queue.
    is_queued: bool,
    /// Raised in the greenlet, whatever it waits for.
    thrown: Option<Object>,
    /// The greenlet has not begun.
    starts: bool,
}

/// A wait of a green thread of `hub`. It ends once, with a value or an exception, from any thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Waiter {
    hub: Py<HubCore>,
    state: LoopCell<State>,
}

impl Waiter {
    pub fn make(hub: &Bound<'_, HubCore>) -> Self {
        Self { hub: hub.clone().unbind(), state: LoopCell::default() }
    }

    /// The turn of a greenlet that waits for nothing else.
    pub fn of<'py>(
        hub: &Bound<'py, HubCore>,
        greenlet: &Bound<'py, PyAny>,
        starts: bool,
    ) -> PyResult<Bound<'py, Self>> {
        let waiter = Bound::new(hub.py(), Self::make(hub))?;
        let greenlet = Some(Object::new(greenlet.clone()));
        waiter
            .get()
            .state
            .with(hub.py(), |state| (state.greenlet, state.starts) = (greenlet, starts));
        Ok(waiter)
    }

    /// Queues the calling greenlet, which may wait, and lets others run first.
    pub fn pause(hub: &Bound<'_, HubCore>) -> PyResult<()> {
        let py = hub.py();
        let current = greenlet::current(py)?;
        let waiter = match hub.get().spare.with(py, Vec::pop) {
            Some(spare) => {
                let spare = spare.bind(py).clone().cast_into_exact::<Self>()?;
                let waiting = Object::new(current.clone());
                spare.get().state.with(py, |state| state.greenlet = Some(waiting));
                spare
            }
            None => Self::of(hub, &current, false)?,
        };
        Self::resume_soon(&waiter);
        let waited = Self::await_turn(&waiter, &current);
        // One whose pause an exception has ended is still in the ready queue.
        if references(waiter.as_unbound()) == 1 {
            drop(waiter.get().state.take(py));
            hub.get().keep_spare(py, Object::new(waiter.into_any()));
        }
        waited
    }

    /// The greenlet to continue, if it still waits. Called when the waiter has left the ready queue.
    fn leave_queue(&self, py: Python<'_>) -> Option<Turn> {
        let (target, error, starts) = self.state.with(py, |state| {
            state.is_queued = false;
            // A greenlet that starts is no longer referenced here, because it references this waiter.
            let target = if state.starts {
                state.greenlet.take()
            } else {
                state.greenlet.as_ref().map(|greenlet| greenlet.clone_ref(py))
            };
            (target, state.thrown.take(), state.starts)
        });
        let target = target?;
        // A dead greenlet would raise it in its parent.
        let is_dead = |target: &Object| {
            target.bind(py).getattr(intern!(py, "dead")).and_then(|dead| dead.is_truthy())
        };
        if error.is_some() && is_dead(&target).unwrap_or(true) {
            return None;
        }
        Some(Turn { target, error, starts })
    }

    /// Returns false if it had already ended.
    fn end(slf: &Bound<'_, Self>, outcome: Outcome) -> bool {
        let (py, this) = (slf.py(), slf.get());
        if this.hub.get().is_over() {
            return false;
        }
        let (unused, queues) = this.state.with(py, |state| {
            if !matches!(state.outcome, Outcome::Pending) {
                return (Some(outcome), false);
            }
            state.outcome = outcome;
            let queues = state.greenlet.is_some() && !state.is_queued;
            state.is_queued |= queues;
            (None, queues)
        });
        if queues {
            let owner = this.hub.get().owner(py).get();
            owner.run_green_soon(py, slf.clone().into_any().unbind(), run);
        }
        unused.is_none()
    }

    fn outcome(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        match self.state.with(py, |state| std::mem::take(&mut state.outcome)) {
            Outcome::Pending => None,
            Outcome::Value(value) => Some(Ok(value.bind(py).clone().unbind())),
            Outcome::Error(error) => Some(Err(PyErr::from_value(error.bind(py).clone()))),
        }
    }

    pub fn hub<'py>(&self, py: Python<'py>) -> &Bound<'py, HubCore> {
        self.hub.bind(py)
    }

    /// The value it was woken with, if any; nobody waits for it any more.
    pub fn taken<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.outcome(py).and_then(Result::ok).map(|value| value.into_bound(py))
    }

    /// Waits until the waiter, which is in the ready queue, has left it.
    pub fn await_turn(slf: &Bound<'_, Self>, current: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        loop {
            let parked = HubCore::park(this.hub.bind(py), current, next_turn);
            if parked.is_err() || !this.state.with(py, |state| state.is_queued) {
                let waited = this.state.with(py, |state| state.greenlet.take());
                drop(waited);
                return parked;
            }
        }
    }

    /// Like `await_turn`, after another greenlet has switched here: it may have left the ready queue.
    pub fn await_turn_again(slf: &Bound<'_, Self>, current: &Bound<'_, PyAny>) -> PyResult<()> {
        if slf.get().state.with(slf.py(), |state| state.is_queued) {
            return Self::await_turn(slf, current);
        }
        slf.get().let_go(slf.py());
        Ok(())
    }

    /// Waits in a greenlet that may park.
    fn wait(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let current = greenlet::current(py)?;
        let hub = this.hub.bind(py);
        let is_free = this.state.with(py, |state| {
            let is_free = state.greenlet.is_none();
            if is_free {
                state.greenlet = Some(Object::new(current.clone()));
            }
            is_free
        });
        if !is_free {
            return Err(PyRuntimeError::new_err("another green thread is already waiting here"));
        }
        loop {
            let parked = HubCore::park(hub, &current, next_turn);
            if parked.is_err() || this.is_ended(py) {
                let waited = this.state.with(py, |state| state.greenlet.take());
                drop(waited);
                parked?;
                return this.outcome(py).unwrap_or_else(|| Ok(py.None()));
            }
            if !HubCore::has_ended(hub)? {
                let waited = this.state.with(py, |state| state.greenlet.take());
                drop(waited);
                return Err(invalid_switch(&current));
            }
            // The hub's greenlet has ended, and a new one continues the loop.
        }
    }

    /// Queues an exception to be raised in a greenlet.
    pub fn throw_soon(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) {
        let error = Object::new(error.clone());
        slf.get().state.with(slf.py(), |state| state.thrown = Some(error));
        Self::resume_soon(slf);
    }

    /// Queues a greenlet to continue.
    pub fn resume_soon(slf: &Bound<'_, Self>) {
        Self::end(slf, Outcome::Value(Object::new(slf.py().None().into_bound(slf.py()))));
    }
}

#[pymethods]
impl Waiter {
    #[new]
    fn new(hub: &Bound<'_, HubCore>) -> Self {
        Self::make(hub)
    }

    /// Wait, and return the result; immediately if it has already ended. Afterwards the waiter can be used again.
    ///
    /// Raises:
    ///     RuntimeError: another green thread is already waiting, or the caller is the hub.
    pub fn get(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(outcome) = this.outcome(py) {
            return outcome;
        }
        let hub = this.hub.bind(py);
        if HubCore::may_park(hub)? {
            return Self::wait(slf);
        }
        // Asking whether it may wait runs Python code: it may have ended meanwhile.
        wait_in_step(hub, || this.outcome(py).unwrap_or_else(|| Self::wait(slf)))
    }

    /// Whether it has ended and the result was not taken yet.
    pub fn is_ended(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| !matches!(state.outcome, Outcome::Pending))
    }

    /// End the wait with a value. Returns False if it had already ended. May be called from any thread.
    #[pyo3(signature = (value = None, /))]
    pub fn wake(slf: &Bound<'_, Self>, value: Option<&Bound<'_, PyAny>>) -> bool {
        let value = value.map_or_else(|| slf.py().None().into_bound(slf.py()), Clone::clone);
        Self::end(slf, Outcome::Value(Object::new(value)))
    }

    /// End the wait with an exception. Returns False if it had already ended. May be called from any thread.
    #[pyo3(signature = (error, /))]
    fn fail(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) -> bool {
        Self::end(slf, Outcome::Error(Object::new(error.clone())))
    }

    /// Detach the greenlet: a later end of the wait wakes nobody.
    pub fn let_go(&self, py: Python<'_>) {
        let waited = self.state.with(py, |state| state.greenlet.take());
        drop(waited);
    }

    /// Whether it has ended and the result was not taken yet.
    fn done(&self, py: Python<'_>) -> bool {
        self.is_ended(py)
    }

    /// The greenlet that waits, or None.
    #[getter]
    fn greenlet(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.with(py, |state| state.greenlet.as_ref().map(|g| g.as_ref().clone_ref(py)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.hub)?;
        let visited = self.state.peek(|state| {
            if let Some(greenlet) = &state.greenlet {
                greenlet.visit(&visit)?;
            }
            if let Some(error) = &state.thrown {
                error.visit(&visit)?;
            }
            match &state.outcome {
                Outcome::Pending => Ok(()),
                Outcome::Value(object) | Outcome::Error(object) => object.visit(&visit),
            }
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.take(py));
    }
}

/// The error in a greenlet that something else than the end of its wait has resumed.
fn invalid_switch(greenlet: &Bound<'_, PyAny>) -> PyErr {
    let made = imports::invalid_switch_error(greenlet.py()).and_then(|kind| {
        let name = greenlet.repr()?;
        kind.call1((format!(
            "Invalid switch into {name}: it waits, and this does not end its wait"
        ),))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Whether other green threads may switch directly to the greenlet. A greenlet must begin at the end of the hub's
/// stack: started from another one's stack, it would inherit that one's recursion depth and copy its stack at each
/// switch.
fn has_begun(object: &Bound<'_, PyAny>) -> bool {
    let begins = |waiter: &Waiter| waiter.state.with(object.py(), |state| state.starts);
    object.cast::<Waiter>().is_ok_and(|waiter| !begins(waiter.get()))
}

/// Takes the next turn of another green thread out of the loop's ready queue.
fn next_turn(owner: &Bound<'_, LoopCore>) -> PyResult<Option<Turn>> {
    let py = owner.py();
    while let Some(next) = owner.get().next_green(py, has_begun) {
        if let Some(turn) = next.bind(py).cast::<Waiter>()?.get().leave_queue(py) {
            return Ok(Some(turn));
        }
    }
    Ok(None)
}

/// Like `Waiter.wake()`, for code that only has an object.
pub fn wake(object: &Bound<'_, PyAny>) -> PyResult<()> {
    Waiter::resume_soon(object.cast::<Waiter>()?);
    Ok(())
}

/// The entry in the ready queue: runs a green thread.
fn run(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let waiter = object.cast::<Waiter>()?;
    match waiter.get().leave_queue(owner.py()) {
        Some(turn) => HubCore::resume(waiter.get().hub.bind(owner.py()), &turn),
        None => Ok(()),
    }
}
