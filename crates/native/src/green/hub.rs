//! `HubCore`: the greenlet that runs a loop, and the switches to and from green threads.
//!
//! A green thread that waits switches directly to the next ready one, else to the hub, whose tick then continues.
//! While a green thread runs, the loop counts as not running: code that looks for a running loop (asyncio's
//! functions, Django) finds none. Upholds S2: no borrow is held across a switch.

use super::turn::Turn;
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, Object, call, chunks, greenlet};
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::AtomicUsize;

/// More green threads than these seldom pause at once.
const MOST_SPARE: usize = 256;

thread_local! {
    /// The hub whose green threads run in this thread.
    static ACTIVE: RefCell<Option<Py<HubCore>>> = const { RefCell::new(None) };
}

/// Return the hub whose green threads run in this thread now, or None.
#[pyfunction]
pub fn active_hub(py: Python<'_>) -> Option<Bound<'_, HubCore>> {
    ACTIVE.with_borrow(|hub| hub.as_ref().map(|hub| hub.bind(py).clone()))
}

/// In a forked child: the green threads belong to the parent.
#[pyfunction]
pub fn forget_active_hub() {
    drop(ACTIVE.take());
}

/// Connects a loop with green threads. Base class of `oneloop.green.hub.Hub`.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct HubCore {
    pub(super) owner: Py<LoopCore>,
    /// The greenlet that runs, or will run, the loop.
    pub(super) greenlet: LoopCell<Option<Object>>,
    /// The loop's own greenlet is suspended, because a green thread runs.
    pub(super) is_away: LoopCell<bool>,
    /// Green threads that were started and have not ended. Any thread.
    pub(super) alive: AtomicUsize,
    /// Waiters of pauses that are over, which later pauses use: nobody else has ever seen them.
    pub(super) spare: LoopCell<Vec<Object>>,
}

/// The greenlet that continues.
enum Next {
    Hub(Object),
    /// A green thread that has already begun.
    Turn(Turn),
}

impl HubCore {
    pub fn make(py: Python<'_>, owner: Py<LoopCore>) -> PyResult<Self> {
        greenlet::load(py)?;
        chunks::keep(py);
        imports::set_running_loop(py)?;
        imports::running_loop(py)?;
        Ok(Self {
            owner,
            greenlet: LoopCell::new(None),
            is_away: LoopCell::new(false),
            alive: AtomicUsize::new(0),
            spare: LoopCell::default(),
        })
    }

    /// The hub of the loop that runs here, of the calling green thread, or of the thread.
    pub fn here(py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        match Self::of_green_thread(py)? {
            Some(hub) => Ok(hub),
            None => Ok(call::call0(&imports::find_hub(py)?)?.cast_into()?),
        }
    }

    /// The hub of the calling green thread; None if the caller is none, or runs a loop.
    pub fn of_green_thread(py: Python<'_>) -> PyResult<Option<Bound<'_, Self>>> {
        match active_hub(py).filter(|hub| hub.get().is_away.get(py)) {
            Some(hub) if call::call0(&imports::running_loop(py)?)?.is_none() => Ok(Some(hub)),
            _ => Ok(None),
        }
    }

    /// Keeps the waiter of a pause that is over.
    pub fn keep_spare(&self, py: Python<'_>, waiter: Object) {
        let unused = self.spare.with(py, |spare| match spare.len() {
            ..MOST_SPARE => {
                spare.push(waiter);
                None
            }
            _ => Some(waiter),
        });
        drop(unused);
    }

    /// Whether a hub runs green threads in this thread.
    pub fn is_active() -> bool {
        ACTIVE.with_borrow(Option::is_some)
    }

    pub fn owner<'py>(&self, py: Python<'py>) -> &Bound<'py, LoopCore> {
        self.owner.bind(py)
    }

    /// Whether the hub currently runs the loop's own greenlet.
    pub fn is_at_home(&self, py: Python<'_>) -> bool {
        !self.is_away.get(py)
    }

    fn hub_greenlet(slf: &Bound<'_, Self>) -> Option<Object> {
        let py = slf.py();
        slf.get().greenlet.with(py, |hub| hub.as_ref().map(|hub| hub.clone_ref(py)))
    }

    /// Whether the greenlet that ran the loop has ended, as when the program stops the loop.
    pub fn has_ended(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match Self::hub_greenlet(slf) {
            None => Ok(true),
            Some(hub) => hub.bind(slf.py()).getattr(intern!(slf.py(), "dead"))?.is_truthy(),
        }
    }

    /// The loop is closed, or belongs to the parent process, so no green thread is woken any more.
    pub fn is_over(&self) -> bool {
        let owner = self.owner.get();
        owner.is_closed_now() || owner.is_parents()
    }

    /// Whether the calling greenlet may wait.
    pub fn may_park(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        // If any loop is running, the caller is a coroutine or a callback. A greenlet started by one of those is not
        // a green thread either.
        let runs = !call::call0(&imports::running_loop(py)?)?.is_none();
        Ok(!runs && (!this.owner.get().is_running() || this.is_away.get(py)))
    }

    /// BlockingSwitchOutError for the hub, because nothing could continue in its place.
    pub fn check_may_wait(slf: &Bound<'_, Self>) -> PyResult<()> {
        if Self::may_park(slf)? { Ok(()) } else { Self::check_step(slf) }
    }

    /// BlockingSwitchOutError for a coroutine or a callback that may not block.
    pub fn check_step(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.call_method0(intern!(py, "_may_block_in_step"))?.is_truthy()? {
            return Ok(());
        }
        let refused = slf.call_method0(intern!(py, "_parking_refused"));
        Err(refused.map_or_else(|error| error, PyErr::from_value))
    }

    /// Lets others continue until one of them switches back here. The error is an exception thrown into this
    /// greenlet. `next_turn` takes the turn of another green thread out of the loop's ready queue.
    #[inline(never)]
    pub fn park(
        slf: &Bound<'_, Self>,
        current: &Bound<'_, PyAny>,
        next_turn: impl FnOnce(&Bound<'_, LoopCore>) -> PyResult<Option<Turn>>,
    ) -> PyResult<()> {
        match Self::next(slf, current, next_turn)? {
            Next::Hub(hub) => greenlet::switch(hub.bind(slf.py())).map(drop),
            Next::Turn(turn) if turn.target.as_ref().is(current) => match turn.error {
                None => Ok(()),
                Some(error) => Err(PyErr::from_value(error.bind(slf.py()).clone())),
            },
            Next::Turn(turn) => turn.go(slf.py()).map(drop),
        }
    }

    /// The greenlet to continue with when the caller waits.
    #[inline(never)]
    fn next(
        slf: &Bound<'_, Self>,
        current: &Bound<'_, PyAny>,
        next_turn: impl FnOnce(&Bound<'_, LoopCore>) -> PyResult<Option<Turn>>,
    ) -> PyResult<Next> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner.bind(py);
        if this.is_away.get(py) && this.greenlet.with(py, |hub| hub.is_some()) {
            owner.get().lap(owner, current)?;
            if let Some(turn) = next_turn(owner)? {
                return Ok(Next::Turn(turn));
            }
        }
        Ok(Next::Hub(match Self::hub_greenlet(slf).filter(|_| owner.get().is_running()) {
            Some(hub) => hub,
            None => Object::new(slf.call_method0(intern!(py, "_make_greenlet"))?),
        }))
    }

    /// Called by the loop's tick: resumes a green thread, and those it switches to.
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

    /// Like `resume`, inside a callback of the loop; the end of that callback sends gathered data.
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
            // The hub was told to end.
            Err(error) if error.is_instance(py, &imports::hub_destroyed(py)?) => Err(error),
            // An exception has ended a greenlet. Those of `oneloop.green` report theirs themselves.
            Err(error) => {
                slf.call_method1(intern!(py, "_handle_uncaught"), (error.value(py),)).map(drop)
            }
        }
    }
}
