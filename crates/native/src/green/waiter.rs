//! `Waiter`: one wait of one green thread, and what it ends with.
//!
//! ```text
//! pending → parked → queued → ended
//!       ↘ resolved ↗     (before anybody waited)
//! ```
//! A green thread that is thrown out of its wait lets go of the waiter first, so that what wakes it later finds nobody.

use super::HubCore;
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, Object, greenlet};
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

/// What a green thread goes on with.
pub struct Turn {
    pub target: Object,
    /// It is raised there.
    pub error: Option<Object>,
    /// It has not begun.
    starts: bool,
}

impl Turn {
    /// Of a greenlet that has not begun, and whose parent is the hub's.
    pub fn beginning(target: Object) -> Self {
        Self { target, error: None, starts: false }
    }

    /// Goes on there until somebody switches back here.
    pub fn take<'py>(&self, hub: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = hub.py();
        if self.starts {
            greenlet::set_parent(self.target.bind(py), hub)?;
        }
        self.go(py)
    }

    /// The same for one that has begun.
    pub fn go<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.error {
            None => greenlet::switch(self.target.bind(py)),
            Some(error) => greenlet::throw(self.target.bind(py), error.bind(py)),
        }
    }
}

#[derive(Default)]
struct State {
    /// Who waits.
    greenlet: Option<Object>,
    outcome: Outcome,
    /// It stands in the loop's ready queue.
    is_queued: bool,
    /// Raised where the greenlet waits, whatever it waits for.
    thrown: Option<Object>,
    /// The greenlet has not begun.
    starts: bool,
}

/// A wait of a green thread of `hub`, to be ended with a value or an exception, once. Any thread may end it.
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

    /// Who is to go on, if he still waits; the waiter has left the ready queue.
    pub fn leave_queue(&self, py: Python<'_>) -> Option<Turn> {
        let (target, error, starts) = self.state.with(py, |state| {
            state.is_queued = false;
            // Who starts is not held any longer: the greenlet keeps this waiter.
            let target = if state.starts {
                state.greenlet.take()
            } else {
                state.greenlet.as_ref().map(|greenlet| greenlet.clone_ref(py))
            };
            (target, state.thrown.take(), state.starts)
        });
        let target = target?;
        // A greenlet that has ended would pass it on to its parent.
        let is_dead = |target: &Object| {
            target.bind(py).getattr(intern!(py, "dead")).and_then(|dead| dead.is_truthy())
        };
        if error.is_some() && is_dead(&target).unwrap_or(true) {
            return None;
        }
        Some(Turn { target, error, starts })
    }

    /// False if it had ended already.
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
            this.hub.get().queue(slf);
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

    /// The value that it was woken with, if it was; nobody waits for it any more.
    pub fn taken<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.outcome(py).and_then(Result::ok).map(|value| value.into_bound(py))
    }

    /// Waits until the waiter, which is in the ready queue, has left it.
    pub fn await_turn(slf: &Bound<'_, Self>, current: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        loop {
            let parked = HubCore::park(this.hub.bind(py), current);
            if parked.is_err() || !this.state.with(py, |state| state.is_queued) {
                let waited = this.state.with(py, |state| state.greenlet.take());
                drop(waited);
                return parked;
            }
        }
    }

    /// Puts an exception for a greenlet into the ready queue.
    pub fn throw_soon(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) {
        let error = Object::new(error.clone());
        slf.get().state.with(slf.py(), |state| state.thrown = Some(error));
        Self::resume_soon(slf);
    }

    /// Puts a greenlet that goes on by itself into the ready queue.
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

    /// Wait, and have what it ends with; at once if it has ended. Afterwards it can be used again.
    ///
    /// Raises:
    ///     RuntimeError: another green thread waits already, or the hub itself would have to wait.
    pub fn get(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Some(outcome) = this.outcome(py) {
            return outcome;
        }
        let current = greenlet::current(py)?;
        let hub = this.hub.bind(py);
        HubCore::check_may_park(hub)?;
        let is_free = this.state.with(py, |state| {
            let is_free = state.greenlet.is_none();
            if is_free {
                state.greenlet = Some(Object::new(current.clone()));
            }
            is_free
        });
        if !is_free {
            return Err(PyRuntimeError::new_err("another green thread waits here already"));
        }
        loop {
            let parked = HubCore::park(hub, &current);
            if parked.is_err() || this.is_ended(py) {
                let waited = this.state.with(py, |state| state.greenlet.take());
                drop(waited);
                parked?;
                return this.outcome(py).unwrap_or_else(|| Ok(py.None()));
            }
            // Somebody has switched here who was not meant to.
        }
    }

    /// Whether it has ended, and nobody has had the result yet.
    fn is_ended(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| !matches!(state.outcome, Outcome::Pending))
    }

    /// End the wait with a value. False if it had ended already. Any thread.
    #[pyo3(signature = (value = None, /))]
    pub fn wake(slf: &Bound<'_, Self>, value: Option<&Bound<'_, PyAny>>) -> bool {
        let value = value.map_or_else(|| slf.py().None().into_bound(slf.py()), Clone::clone);
        Self::end(slf, Outcome::Value(Object::new(value)))
    }

    /// End the wait with an exception. False if it had ended already. Any thread.
    #[pyo3(signature = (error, /))]
    fn fail(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) -> bool {
        Self::end(slf, Outcome::Error(Object::new(error.clone())))
    }

    /// Nobody waits any more: what ends the wait later wakes nobody.
    fn let_go(&self, py: Python<'_>) {
        let waited = self.state.with(py, |state| state.greenlet.take());
        drop(waited);
    }

    /// Whether it has ended, and nobody has had the result yet.
    fn done(&self, py: Python<'_>) -> bool {
        self.is_ended(py)
    }

    /// Whoever waits; None if nobody does.
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

/// Whether others may switch straight to the greenlet. It begins where the hub's stack ends: from another one's, it would
/// have that one's depth of recursion, and copy its stack with each switch.
pub fn has_begun(object: &Bound<'_, PyAny>) -> bool {
    let begins = |waiter: &Waiter| waiter.state.with(object.py(), |state| state.starts);
    object.cast::<Waiter>().is_ok_and(|waiter| !begins(waiter.get()))
}

/// As `Waiter.wake()`, for those that know objects alone.
pub fn wake(object: &Bound<'_, PyAny>) -> PyResult<()> {
    Waiter::resume_soon(object.cast::<Waiter>()?);
    Ok(())
}

/// The loop's turn for a green thread.
pub fn run(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let waiter = object.cast::<Waiter>()?;
    match waiter.get().leave_queue(owner.py()) {
        Some(turn) => HubCore::resume(waiter.get().hub.bind(owner.py()), &turn),
        None => Ok(()),
    }
}
