//! `ClientTurns`: which of several threads runs a loop of plain code.
//!
//! A response may be read by another thread than the one that has sent its request, so several threads may wait for
//! the same loop. One of them leads: it runs the loop until it is stopped. Then all look whether their own wait is over,
//! and one whose wait is not leads next. Nobody holds anything while the program's own code runs, but for what runs within
//! the loop: a signal's handler that waits for a thread which waits for this loop waits for ever.
//!
//! Native, because a signal's handler may raise between any two instructions of Python code, and a thread that left the
//! lead half given up would stop all others.

use crate::event_loop::{Aside, LoopCore};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, call};
use oneloop_engine::sys::{fork, thread};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};

#[derive(Default)]
struct State {
    /// The thread that leads, and its process; a forked child has only one of the threads.
    leader: Option<(u64, u32)>,
    /// How often the loop has been run.
    runs: u64,
    /// Locks, which are released when the loop has been run.
    waiting: Vec<Object>,
    /// The handle that stops the run around a nested one.
    stop: Option<Object>,
}

enum Turn {
    Mine,
    /// A signal's handler, or a finalizer, within a run of this thread.
    Nested,
    /// The loop has been run since the caller looked.
    Over,
    Others,
}

/// Who runs a loop of plain code. Any thread may use it.
#[pyclass(frozen, module = "oneloop._native")]
pub struct ClientTurns {
    owner: Py<LoopCore>,
    state: LoopCell<State>,
}

impl ClientTurns {
    fn turn(&self, py: Python<'_>, seen: u64) -> Turn {
        let me = (thread::ident(), fork::generation());
        self.state.with(py, |s| match s.leader {
            Some(leader) if leader == me => Turn::Nested,
            _ if s.runs != seen => Turn::Over,
            Some((_, generation)) if generation == me.1 => Turn::Others,
            _ => {
                s.leader = Some(me);
                Turn::Mine
            }
        })
    }

    /// The loop has been run. `leader`: who leads now.
    fn end_run(&self, py: Python<'_>, leader: Option<(u64, u32)>) -> PyResult<()> {
        let waiting = self.state.with(py, |s| {
            s.leader = leader;
            s.runs += 1;
            std::mem::take(&mut s.waiting)
        });
        let mut outcome = Ok(());
        for place in waiting {
            let released = place.bind(py).call_method0(intern!(py, "release"));
            outcome = outcome.and(released.map(drop));
        }
        outcome
    }

    /// Runs the loop within its run, which goes on where it was.
    fn run_nested(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = run.py();
        // That of the one before, which would only stop this one.
        self.cancel_stop(py)?;
        let ran = call::call0(run);
        // What has stopped this run may have been meant for the one around it.
        let owner = self.owner.bind(py);
        let stopped = owner
            .getattr(intern!(py, "stop"))
            .and_then(|stop| owner.call_method1(intern!(py, "call_soon_threadsafe"), (stop,)))
            .map(|handle| {
                let handle = Object::new(handle);
                drop(self.state.with(py, |s| s.stop.replace(handle)));
            });
        let ended = self.end_run(py, Some((thread::ident(), fork::generation())));
        ran.and(stopped).and(ended)
    }

    fn cancel_stop(&self, py: Python<'_>) -> PyResult<()> {
        match self.state.with(py, |s| s.stop.take()) {
            Some(handle) => handle.bind(py).call_method0(intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    /// Gives the process's wakeup descriptor back to the loop that had it. What was interrupted is done again.
    fn leave_signals(owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        let py = owner.py();
        let leave = || -> PyResult<()> {
            if owner.getattr(intern!(py, "_may_be_told"))?.is_truthy()? {
                owner.call_method0(intern!(py, "_end_run"))?;
            }
            Ok(())
        };
        leave().or_else(|error| leave().and(Err(error)))
    }
}

#[pymethods]
impl ClientTurns {
    #[new]
    fn new(owner: Py<LoopCore>) -> Self {
        Self { owner, state: LoopCell::default() }
    }

    /// Run the loop until it is stopped. If another one runs here, it and its task are set aside meanwhile: a call that
    /// blocks in a coroutine is a mistake, but one that works with other clients.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let owner = self.owner.bind(py);
        let aside = Aside::set(owner)?;
        let ran = LoopCore::_run(owner);
        ran.and(aside.end()).and(Self::leave_signals(owner))
    }

    /// How often the loop has been run. Ask for it before you look whether a wait is over.
    #[getter]
    fn runs(&self, py: Python<'_>) -> Value<u64> {
        Value(self.state.with(py, |s| s.runs))
    }

    /// Run the loop, by a call of `run`. Returns False if another thread does so: `follow` it. If the loop has been run
    /// more often than `seen`, nothing is called: look again.
    fn lead(&self, run: &Bound<'_, PyAny>, seen: u64) -> PyResult<bool> {
        let py = run.py();
        match self.turn(py, seen) {
            Turn::Others => Ok(false),
            Turn::Over => Ok(true),
            Turn::Mine => {
                let ran = call::call0(run);
                let ended = self.end_run(py, None);
                ran.and(ended.map(|()| true))
            }
            Turn::Nested => self.run_nested(run).map(|()| true),
        }
    }

    /// Whether to wait for another thread that runs the loop: `place`, a lock that is held, is released then.
    fn follow(&self, place: Bound<'_, PyAny>, seen: u64) -> bool {
        let py = place.py();
        let generation = fork::generation();
        let place = Object::new(place);
        let unused = self.state.with(py, |s| {
            let is_led = s.leader.is_some_and(|(_, theirs)| theirs == generation);
            if !is_led || s.runs != seen {
                return Some(place);
            }
            s.waiting.push(place);
            None
        });
        unused.is_none()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.state
            .peek(|s| s.waiting.iter().chain(&s.stop).try_for_each(|held| held.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.with(py, |s| (std::mem::take(&mut s.waiting), s.stop.take())));
    }
}
