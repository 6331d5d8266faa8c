//! `Shared`: the state that a context's threads share, behind one mutex.
//!
//! The mutex is held for at most one system call. A thread releases the GIL before it waits for the mutex, and never
//! holds the mutex during a call into Python (S2): Python objects are moved out of the closures and dropped outside.
//! Waiting for events needs no mutex. In a forked child the mutex is not used, because another thread may have held
//! it (S6).

use super::request::{ContextId, Request};
use super::wait::{Deadline, Wanted};
use crate::errors;
use crate::ffi::detach::detached;
use crate::ffi::pinned::Pinned;
use oneloop_engine::files::operation::{Completion, Operation};
use oneloop_engine::files::polled::{Events, Polled, Waiter};
use oneloop_engine::sys::fork;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
/// The maximum number of events of one wait.
const EVENTS_PER_WAIT: usize = 1024;

pub type Owner = Pinned<Py<Request>>;

pub struct State {
    /// `None` once closed.
    pub polled: Option<Polled<Owner>>,
    /// Collected but not yet returned, because a signal came in between.
    pub collected: VecDeque<Completion<Owner>>,
    /// The number of threads in a wait.
    pub waiting: usize,
}

pub struct Shared {
    state: Mutex<State>,
    engine: &'static str,
    id: ContextId,
    /// `fork::generation` of the process that made it (S6).
    forks: u32,
}

impl Shared {
    pub fn new(polled: Polled<Owner>, engine: &'static str) -> Self {
        let state = State { polled: Some(polled), collected: VecDeque::new(), waiting: 0 };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { state: Mutex::new(state), engine, id, forks: fork::generation() }
    }

    /// "ring" or "aio".
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    pub fn is_foreign(&self) -> bool {
        self.forks != fork::generation()
    }

    pub fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        if self.is_foreign() {
            return Ok(self.state.try_lock().is_ok_and(|state| state.polled.is_none()));
        }
        self.with(py, |state| state.polled.is_none())
    }

    /// Like `is_closed`, for an exclusive owner.
    pub fn is_ended(&mut self) -> bool {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).polled.is_none()
    }

    /// Its identity in requests.
    pub fn id(&self) -> ContextId {
        self.id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on the state. `f` must not run Python code or drop Python objects.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut State) -> R + Send,
    ) -> PyResult<R> {
        if self.is_foreign() {
            return Err(PyRuntimeError::new_err(
                "this context belongs to the parent process: a forked child must make its own",
            ));
        }
        if let Ok(mut state) = self.state.try_lock() {
            return Ok(f(&mut state));
        }
        Ok(detached(py, || f(&mut self.lock())))
    }

    /// Submits operations to the kernel without the GIL, because that may block.
    pub fn enter(
        &self,
        py: Python<'_>,
        requests: &[Bound<'_, Request>],
        operations: Vec<Operation<Owner>>,
    ) -> PyResult<usize> {
        let submission = detached(py, || match &mut self.lock().polled {
            Some(polled) => Ok(polled.submit(operations)),
            // Dropped outside of the closure.
            None => Err(operations),
        });
        let submission = match submission {
            Ok(submission) => submission,
            Err(operations) => {
                give_back(py, operations);
                return Err(closed());
            }
        };
        give_back(py, submission.refused);
        for (request, key) in requests.iter().zip(&submission.taken) {
            request.get().take_off(py, self.id, *key);
        }
        match submission.error {
            Some(e) if submission.taken.is_empty() => {
                Err(errors::os_error(&format!("submit to {}", self.engine), &e))
            }
            // The kernel's error recurs with the next submission.
            _ => Ok(submission.taken.len()),
        }
    }

    /// Moves available events to `got`, and returns the object to wait on for more.
    fn collect(
        &self,
        py: Python<'_>,
        got: &mut Vec<Completion<Owner>>,
        events: &mut Events,
        max: usize,
    ) -> PyResult<Waiter> {
        let room = max - got.len();
        let (found, collected) =
            self.with(py, |state| state.collect(events, room))?.ok_or_else(closed)?;
        got.extend(found);
        collected.map_err(|e| errors::os_error("get_events", &e))
    }

    /// Waits for events and collects them, until there are enough or the time is over.
    pub fn wait(
        &self,
        py: Python<'_>,
        wanted: Wanted,
        deadline: Deadline,
        got: &mut Vec<Completion<Owner>>,
    ) -> PyResult<()> {
        let mut events = Events::default();
        let mut waiter = self.collect(py, got, &mut events, wanted.max)?;
        // Kernel AIO is asked at least once; the ring's queue was already checked.
        let mut is_asked = self.engine == "ring";
        while got.len() < wanted.max {
            let min = wanted.min.saturating_sub(got.len());
            let left_ns = if min == 0 { Some(0) } else { deadline.left_ns() };
            if is_asked && left_ns == Some(0) {
                break;
            }
            let max = (wanted.max - got.len()).min(EVENTS_PER_WAIT);
            let min = min.min(EVENTS_PER_WAIT);
            let waited = match left_ns {
                Some(0) => waiter.wait(min, max, left_ns, &mut events),
                _ => self.wait_detached(py, &waiter, (min, max), left_ns, &mut events)?,
            };
            is_asked = true;
            waiter = self.collect(py, got, &mut events, wanted.max)?;
            match waited {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                    return Err(errors::os_error("get_events", &e));
                }
                // If a signal arrives after some events, but not enough, the wait returns no error.
                _ if got.len() < wanted.min => py.check_signals()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn wait_detached(
        &self,
        py: Python<'_>,
        waiter: &Waiter,
        (min, max): (usize, usize),
        left_ns: Option<u64>,
        events: &mut Events,
    ) -> PyResult<io::Result<()>> {
        let is_open = self.with(py, |state| {
            let is_open = state.polled.is_some();
            state.waiting += usize::from(is_open);
            is_open
        })?;
        if !is_open {
            return Err(closed());
        }
        let waited = detached(py, || waiter.wait(min, max, left_ns, events));
        self.with(py, |state| state.waiting -= 1)?;
        Ok(waited)
    }

    /// Takes out the engine and ends it outside of the mutex. Returns how many requests did not end in time.
    /// RuntimeError: another thread is waiting.
    pub fn end(&self, py: Python<'_>, limit: Duration) -> PyResult<usize> {
        let taken = if self.is_foreign() {
            // Another thread of the parent may have held the mutex: then it stays locked here.
            self.state.try_lock().ok().map(|mut state| state.take())
        } else {
            detached(py, || {
                let mut state = self.lock();
                if state.waiting > 0 { None } else { Some(state.take()) }
            })
        };
        let Some((polled, collected)) = taken else {
            let waiting = "another thread is waiting in get_events()";
            return if self.is_foreign() { Ok(0) } else { Err(PyRuntimeError::new_err(waiting)) };
        };
        let mut completions: Vec<Completion<Owner>> = collected.into();
        let mut leaked = 0;
        if let Some(mut polled) = polled {
            let (rest, polled) = detached(py, || (polled.drain(limit), polled));
            completions.extend(rest);
            // Requests that the kernel still has are leaked with their buffers (S1).
            leaked = polled.abandon();
        }
        for completion in completions {
            completion.owner.release().bind(py).get().land(py);
        }
        Ok(leaked)
    }
}

/// The available events and the object to wait on; an error is reported after the events.
type Collected = (Vec<Completion<Owner>>, io::Result<Waiter>);

impl State {
    fn take(&mut self) -> (Option<Polled<Owner>>, VecDeque<Completion<Owner>>) {
        (self.polled.take(), std::mem::take(&mut self.collected))
    }

    /// `None`: closed.
    fn collect(&mut self, events: &mut Events, room: usize) -> Option<Collected> {
        let polled = self.polled.as_mut()?;
        let earlier = self.collected.len().min(room);
        let mut found: Vec<_> = self.collected.drain(..earlier).collect();
        let collected = polled.collect(events, room - earlier).map(|more| {
            found.extend(more);
            polled.waiter()
        });
        // Kernel AIO returns all the events of its wait.
        self.collected.extend(found.drain(room.min(found.len())..));
        Some((found, collected))
    }
}

fn give_back(py: Python<'_>, operations: Vec<Operation<Owner>>) {
    for operation in operations {
        operation.owner.release().bind(py).get().land(py);
    }
}

pub fn closed() -> PyErr {
    PyValueError::new_err("the context is closed")
}
