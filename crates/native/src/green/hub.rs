//! `HubCore`: the greenlet that runs a loop, and the way to and from green threads.
//!
//! A green thread that waits switches straight to the next one that is ready, else to the hub, whose tick goes on. The
//! loop counts as not running for the code of green threads: what looks for a running loop (asyncio's functions, Django)
//! finds none there. Upholds S2: nothing is borrowed across a switch.

use super::waiter::{self, Turn, Waiter};
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, Object, call, chunks, greenlet};
use crate::imports;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::cell::RefCell;

use std::sync::atomic::{AtomicUsize, Ordering};
thread_local! {
    /// Whose green threads run.
    static ACTIVE: RefCell<Option<Py<HubCore>>> = const { RefCell::new(None) };
}

/// The hub whose green threads run in this thread now; None if none do.
#[pyfunction]
fn active_hub(py: Python<'_>) -> Option<Bound<'_, HubCore>> {
    ACTIVE.with_borrow(|hub| hub.as_ref().map(|hub| hub.bind(py).clone()))
}

/// In a forked child: the green threads are the parent's.
#[pyfunction]
fn forget_active_hub() {
    drop(ACTIVE.take());
}

/// A loop's way to green threads and back; base class of `oneloop.green.hub.Hub`.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct HubCore {
    owner: Py<LoopCore>,
    /// Runs the loop, or will.
    greenlet: LoopCell<Option<Object>>,
    /// The loop's own greenlet is suspended: a green thread runs.
    is_away: LoopCell<bool>,
    /// Green threads that were started and have not ended. Any thread.
    pub(super) alive: AtomicUsize,
}

/// Who goes on.
enum Next {
    Hub(Object),
    /// One that has begun.
    Turn(Turn),
}

impl HubCore {
    /// That of the loop that runs here, of the green thread that calls, or of the thread.
    pub fn here(py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        match active_hub(py).filter(|hub| hub.get().is_away.get(py)) {
            Some(hub) if call::call0(&imports::running_loop(py)?)?.is_none() => Ok(hub),
            _ => Ok(call::call0(&imports::find_hub(py)?)?.cast_into()?),
        }
    }

    pub fn owner<'py>(&self, py: Python<'py>) -> &Bound<'py, LoopCore> {
        self.owner.bind(py)
    }

    /// Whether the hub runs the loop's own greenlet now.
    pub fn is_at_home(&self, py: Python<'_>) -> bool {
        !self.is_away.get(py)
    }

    fn hub_greenlet(slf: &Bound<'_, Self>) -> Option<Object> {
        let py = slf.py();
        slf.get().greenlet.with(py, |hub| hub.as_ref().map(|hub| hub.clone_ref(py)))
    }

    /// Nobody is woken any more: the loop is closed.
    pub fn is_over(&self) -> bool {
        self.owner.get().is_closed_now()
    }

    /// Any thread: a green thread goes on soon.
    pub fn queue(&self, waiter: &Bound<'_, Waiter>) {
        let py = waiter.py();
        self.owner.get().run_green_soon(py, waiter.clone().into_any().unbind(), waiter::run);
    }

    /// Whether the greenlet that calls may wait.
    pub fn may_park(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        // Where any loop runs, a coroutine or a callback calls. A greenlet that was begun by one is no green thread either.
        let runs = !call::call0(&imports::running_loop(py)?)?.is_none();
        Ok(!runs && (!this.owner.get().is_running() || this.is_away.get(py)))
    }

    /// RuntimeError for the hub: who would go on meanwhile?
    pub fn check_may_park(slf: &Bound<'_, Self>) -> PyResult<()> {
        if !Self::may_park(slf)? {
            let py = slf.py();
            return Err(slf
                .call_method0(intern!(py, "_parking_refused"))
                .map_or_else(|error| error, PyErr::from_value));
        }
        Ok(())
    }

    /// Lets others go on until somebody switches back here; an error is what they have thrown.
    #[inline(never)]
    pub fn park(slf: &Bound<'_, Self>, current: &Bound<'_, PyAny>) -> PyResult<()> {
        match Self::next(slf, current)? {
            Next::Hub(hub) => greenlet::switch(hub.bind(slf.py())).map(drop),
            Next::Turn(turn) if turn.target.as_ref().is(current) => match turn.error {
                None => Ok(()),
                Some(error) => Err(PyErr::from_value(error.bind(slf.py()).clone())),
            },
            Next::Turn(turn) => turn.go(slf.py()).map(drop),
        }
    }

    /// Who goes on when the greenlet that calls waits.
    #[inline(never)]
    fn next(slf: &Bound<'_, Self>, current: &Bound<'_, PyAny>) -> PyResult<Next> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner.bind(py);
        if this.is_away.get(py) && this.greenlet.with(py, |hub| hub.is_some()) {
            owner.get().lap(owner, current)?;
            while let Some(next) = owner.get().next_green(py, waiter::has_begun) {
                let next = next.bind(py).cast::<Waiter>()?;
                if let Some(turn) = next.get().leave_queue(py) {
                    return Ok(Next::Turn(turn));
                }
            }
        }
        Ok(Next::Hub(match Self::hub_greenlet(slf).filter(|_| owner.get().is_running()) {
            Some(hub) => hub,
            None => Object::new(slf.call_method0(intern!(py, "_make_greenlet"))?),
        }))
    }

    /// By the loop's tick: a green thread has its turn, and those that it switches to.
    pub fn resume(slf: &Bound<'_, Self>, turn: &Turn) -> PyResult<()> {
        let resumed = Self::resume_within(slf, turn);
        if let Err(error) = &resumed
            && error.is_instance(slf.py(), &imports::hub_destroyed(slf.py())?)
        {
            return resumed;
        }
        let owner = slf.get().owner.bind(slf.py());
        owner.get().lap(owner, turn.target.bind(slf.py()))?;
        resumed
    }

    /// The same within a callback of the loop's, whose end is what sends what was gathered.
    pub fn resume_within(slf: &Bound<'_, Self>, turn: &Turn) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let current = Object::new(greenlet::current(py)?);
        let hub = current.clone_ref(py);
        let old = this.greenlet.with(py, |slot| slot.replace(hub));
        drop(old);
        let set_running_loop = imports::set_running_loop(py)?;
        let running = call::call0(&imports::running_loop(py)?)?;
        call::call1(&set_running_loop, py.None().bind(py))?;
        this.is_away.set(py, true);
        let outer = ACTIVE.replace(Some(slf.clone().unbind()));
        let switched = turn.take(current.bind(py));
        drop(ACTIVE.replace(outer));
        this.is_away.set(py, false);
        call::call1(&set_running_loop, &running)?;
        match switched {
            Ok(_) => Ok(()),
            // The hub is told to end.
            Err(error) if error.is_instance(py, &imports::hub_destroyed(py)?) => Err(error),
            // A greenlet has ended with it; those of `oneloop.green` report theirs.
            Err(error) => {
                slf.call_method1(intern!(py, "_handle_uncaught"), (error.value(py),)).map(drop)
            }
        }
    }
}

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
        greenlet::load(py)?;
        chunks::keep(py);
        imports::set_running_loop(py)?;
        imports::running_loop(py)?;
        Ok(Self {
            owner,
            greenlet: LoopCell::new(None),
            is_away: LoopCell::new(false),
            alive: AtomicUsize::new(0),
        })
    }

    /// How many green threads were started and have not ended.
    #[getter]
    fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// The greenlet that runs the loop, or will; None before the first green thread.
    #[getter]
    fn greenlet(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.greenlet.with(py, |hub| hub.as_ref().map(|hub| hub.as_ref().clone_ref(py)))
    }

    #[setter]
    fn set_greenlet(&self, py: Python<'_>, hub: Option<Py<PyAny>>) {
        let old = self.greenlet.with(py, |slot| std::mem::replace(slot, hub.map(Object::from)));
        drop(old);
    }

    /// Whether a green thread runs, and the loop waits for it.
    #[getter]
    fn is_away(&self, py: Python<'_>) -> bool {
        self.is_away.get(py)
    }

    /// Have a greenlet of this thread, which has not begun, begin in the loop's next tick. Returns what `cancel_start` takes.
    fn start<'py>(
        slf: &Bound<'py, Self>,
        greenlet: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Waiter>> {
        let waiter = Waiter::of(slf, greenlet, true)?;
        Waiter::resume_soon(&waiter);
        Ok(waiter)
    }

    /// Let the others that are ready go first.
    pub fn pause(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let current = greenlet::current(py)?;
        Self::check_may_park(slf)?;
        let waiter = Waiter::of(slf, &current, false)?;
        Waiter::resume_soon(&waiter);
        Waiter::await_turn(&waiter, &current)
    }

    /// Have an exception raised in a greenlet of this thread, where it waits, in the loop's next tick; nothing if it has
    /// ended by then.
    fn throw_soon<'py>(
        slf: &Bound<'py, Self>,
        greenlet: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Waiter>> {
        let waiter = Waiter::of(slf, greenlet, false)?;
        Waiter::throw_soon(&waiter, error);
        Ok(waiter)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.greenlet
            .peek(|hub| hub.as_ref().map_or(Ok(()), |hub| hub.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.greenlet.take(py));
    }
}

/// The hub whose green thread calls, that of the loop that runs here, or the thread's own, made at its first use.
#[pyfunction]
fn get_hub(py: Python<'_>) -> PyResult<Bound<'_, HubCore>> {
    HubCore::here(py)
}

/// Let other green threads and coroutines go on, for at least so many seconds.
///
/// Without `ref`, that does not count as something to wait for: LoopExit is raised where nothing else is left.
///
/// Raises:
///     BlockingSwitchOutError: in a coroutine, which awaits `asyncio.sleep` instead.
#[pyfunction]
#[pyo3(signature = (seconds = 0.0, r#ref = true))]
fn sleep(py: Python<'_>, seconds: f64, r#ref: bool) -> PyResult<()> {
    let hub = HubCore::here(py)?;
    if seconds <= 0.0 {
        return HubCore::pause(&hub);
    }
    let waiter = Bound::new(py, Waiter::make(&hub))?;
    let wake = waiter.getattr(intern!(py, "wake"))?;
    let timer = if r#ref {
        hub.get().owner(py).call_method1(intern!(py, "call_later"), (seconds, wake))?
    } else {
        let quiet = hub.getattr(intern!(py, "loop"))?;
        quiet.call_method1(intern!(py, "quiet_alarm"), (seconds, wake))?
    };
    let slept = Waiter::get(&waiter);
    timer.call_method0(intern!(py, "cancel"))?;
    slept.map(drop)
}

pub fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(active_hub, module)?)?;
    module.add_function(wrap_pyfunction!(forget_active_hub, module)?)?;
    module.add_function(wrap_pyfunction!(get_hub, module)?)?;
    module.add_function(wrap_pyfunction!(sleep, module)?)
}
