//! `ClientTurns`: which of several threads runs a loop of plain code.
//!
//! A response may be read by another thread than the one that has sent its request, so several threads may wait for
//! the same loop. One of them leads: it runs the loop until it is stopped. Then all look whether their own wait is over,
//! and one whose wait is not leads next. Nobody holds anything while the program's own code runs, but for what runs within
//! the loop: a signal's handler that waits for a thread which waits for this loop waits for ever.
//!
//! Native, because a signal's handler may raise between any two instructions of Python code, and a thread that left the
//! lead half given up would stop all others.

use crate::event_loop::LoopCore;
use crate::ffi::values::Value;
#[cfg(Py_3_13)]
use crate::ffi::wakeup;
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

    /// Runs the loop within its run. What that one has set stays as it was.
    fn run_nested(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = run.py();
        let owner = self.owner.bind(py);
        let name = intern!(py, "_thread_id");
        let thread = owner.getattr(name)?;
        let ran = without_wakeup_fd(owner, || call::call0(run))?;
        let restored = owner.setattr(name, thread);
        // What has stopped this run may have been meant for the one around it.
        let stopped = owner
            .getattr(intern!(py, "stop"))
            .and_then(|stop| owner.call_method1(intern!(py, "call_soon_threadsafe"), (stop,)));
        let ended = self.end_run(py, Some((thread::ident(), fork::generation())));
        ran.and(restored).and(stopped.map(drop)).and(ended)
    }
}

/// Calls `run` while the process's wakeup descriptor is not the loop's. A handler that runs between the loop's look for
/// signals and its sleep finds it set, and the run within would take it for the program's.
#[cfg(Py_3_13)]
fn without_wakeup_fd<T>(owner: &Bound<'_, LoopCore>, run: impl FnOnce() -> T) -> PyResult<T> {
    let py = owner.py();
    let socket = owner.getattr(intern!(py, "_csock"))?;
    // A loop that is told of the signals of another one keeps the descriptor.
    if socket.is_none() || owner.getattr(intern!(py, "_may_be_told"))?.is_truthy()? {
        return Ok(run());
    }
    let ours: i32 = socket.call_method0(intern!(py, "fileno"))?.extract()?;
    // Another one's is never out of place without this one there, which passes on what it is told.
    let found = wakeup::swap(py, ours);
    if found != ours {
        wakeup::swap(py, found);
        return Ok(run());
    }
    wakeup::swap(py, -1);
    let result = run();
    wakeup::swap(py, found);
    Ok(result)
}

/// These versions have no wakeup descriptor while the loop sleeps.
#[cfg(not(Py_3_13))]
fn without_wakeup_fd<T>(_owner: &Bound<'_, LoopCore>, run: impl FnOnce() -> T) -> PyResult<T> {
    Ok(run())
}

#[pymethods]
impl ClientTurns {
    #[new]
    fn new(owner: Py<LoopCore>) -> Self {
        Self { owner, state: LoopCell::default() }
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
            .peek(|s| s.waiting.iter().try_for_each(|place| place.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.with(py, |s| std::mem::take(&mut s.waiting)));
    }
}
