//! `LockCore`: `_thread`'s lock for green threads; `oneloop.green.threadlock` decides how a caller waits.
//!
//! No Python code runs between taking the lock, or being given it, and the end of `acquire`: a signal's handler there
//! could raise, and nobody would release it.

use super::Waiter;
use super::limit::{Limit, timed_out, wait};
use super::owners::{self, acquire_at_last};
use super::places::wake;
use super::thread_place::ThreadPlace;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use oneloop_engine::sys::thread;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of uncontended acquisitions after which other green threads get a turn. Otherwise code that polls for a
/// result of another green thread (`queue.get(False)` in a loop) would wait forever.
const TURN: u32 = 1000;
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Who waits; see `places.rs`.
struct Waiting {
    place: Object,
    thread: u64,
    holder: u64,
}

#[derive(Default)]
struct State {
    is_held: bool,
    /// The OS thread that holds it, or that it is being handed over to; 0: nobody.
    owner: u64,
    /// The identity for which it was acquired (`owners::owner`). 0: nobody holds it, or it was free and is not the
    /// lock of a `ReentrantCore`.
    holder: u64,
    /// First come, first served.
    waiting: VecDeque<Waiting>,
}

impl State {
    fn take(&mut self, holder: u64) -> bool {
        let is_free = !self.is_held;
        if is_free {
            self.is_held = true;
            self.owner = thread::ident();
            self.holder = holder;
        }
        is_free
    }
}

/// Whether these arguments of `acquire` mean to wait without a limit.
pub fn is_unlimited(
    blocking: Option<&Bound<'_, PyAny>>,
    timeout: Option<&Bound<'_, PyAny>>,
) -> bool {
    let is_default = |timeout: &Bound<'_, PyAny>| {
        timeout.extract::<f64>().is_ok_and(|t| t.to_bits() == (-1.0_f64).to_bits())
    };
    let blocks = |blocking: &Bound<'_, PyAny>| blocking.is_truthy().unwrap_or(false);
    timeout.is_none_or(is_default) && blocking.is_none_or(blocks)
}

/// Base class of `oneloop.green.threadlock.LockType`.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct LockCore(LoopCell<State>);

impl LockCore {
    /// The identity for which it was acquired; see `State::holder`.
    pub fn holder(&self, py: Python<'_>) -> u64 {
        self.0.with(py, |state| state.holder)
    }

    /// `acquire` for an identity.
    pub fn acquire_as(
        slf: &Bound<'_, Self>,
        holder: u64,
        blocking: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let py = slf.py();
        let timeout_s = if is_unlimited(blocking, timeout) {
            py.None().into_bound(py)
        } else {
            slf.call_method1(intern!(py, "_checked"), (blocking, timeout))?
        };
        Self::note_turn(slf)?;
        if slf.get().0.with(py, |state| state.take(holder)) {
            return Ok(true);
        }
        let place = slf.call_method1(intern!(py, "_place"), (&timeout_s,))?;
        if place.is_none() {
            return Ok(false);
        }
        let limit = Limit::of(Some(&timeout_s).filter(|timeout_s| !timeout_s.is_none()))?;
        slf.get().wait_at(&place, &limit)
    }

    /// Takes the lock, or waits in a place until it is given.
    fn wait_at(&self, place: &Bound<'_, PyAny>, limit: &Limit<'_, '_>) -> PyResult<bool> {
        let py = place.py();
        let timed_out = timed_out(py)?;
        if self.take_or_enter(place) {
            return Ok(true);
        }
        let waited = match place.cast_exact::<Waiter>() {
            Ok(waiter) => wait(waiter, limit).map(|value| !value.is(&timed_out)),
            Err(_) => place.cast_exact::<ThreadPlace>()?.get().wait(py, limit),
        };
        if matches!(waited, Ok(true)) {
            return waited;
        }
        self.forget(place);
        // From here on nobody gives it the lock.
        let was_given = match place.cast_exact::<Waiter>() {
            Ok(waiter) => waiter.get().taken(py).is_some_and(|value| !value.is(&timed_out)),
            Err(_) => place.cast_exact::<ThreadPlace>()?.get().done(py),
        };
        match waited {
            Ok(_) => Ok(was_given),
            Err(error) if was_given => self.release(py).and(Err(error)),
            Err(error) => Err(error),
        }
    }

    fn take_or_enter(&self, place: &Bound<'_, PyAny>) -> bool {
        let py = place.py();
        let holder = owners::owner(py);
        let place = Object::new(place.clone());
        let unused = self.0.with(py, |state| {
            if state.take(holder) {
                return Some(place);
            }
            state.waiting.push_back(Waiting { place, thread: thread::ident(), holder });
            None
        });
        unused.is_some()
    }

    fn forget(&self, place: &Bound<'_, PyAny>) {
        let removed = self.0.with(place.py(), |state| {
            let index = state.waiting.iter().position(|one| one.place.as_ref().is(place))?;
            state.waiting.remove(index)
        });
        drop(removed);
    }

    fn note_turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        if TAKEN.fetch_add(1, Ordering::Relaxed) >= TURN {
            TAKEN.store(0, Ordering::Relaxed);
            slf.call_method0(intern!(slf.py(), "_give_turn"))?;
        }
        Ok(())
    }
}

#[pymethods]
impl LockCore {
    #[new]
    fn new() -> Self {
        Self(LoopCell::default())
    }

    /// Acquire the lock. Returns whether that was possible within `timeout` seconds.
    ///
    /// Raises:
    ///     ValueError: the timeout is negative and not -1, or given without `blocking`.
    ///     OverflowError: the timeout is too large.
    ///     BlockingSwitchOutError: it would wait, in a coroutine that may not block, for a green thread of the same OS
    ///         thread.
    #[pyo3(signature = (blocking = None, timeout = None))]
    fn acquire(
        slf: &Bound<'_, Self>,
        blocking: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        Self::acquire_as(slf, 0, blocking, timeout)
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::acquire_as(slf, 0, None, None)
    }

    /// Release the lock, and hand it to the waiter that has waited longest, if there is one.
    ///
    /// Raises:
    ///     RuntimeError: nobody holds it.
    pub fn release(&self, py: Python<'_>) -> PyResult<()> {
        let value = true.into_pyobject(py)?.to_owned().into_any();
        let mut outcome = Ok(());
        loop {
            let place = self.0.with(py, |state| {
                if !state.is_held {
                    return None;
                }
                let next = state.waiting.pop_front();
                state.is_held = next.is_some();
                (state.owner, state.holder) =
                    next.as_ref().map_or((0, 0), |next| (next.thread, next.holder));
                Some(next.map(|next| next.place))
            });
            let Some(place) = place else {
                return Err(PyRuntimeError::new_err("release unlocked lock"));
            };
            let Some(place) = place else {
                return outcome;
            };
            match wake(place.bind(py), &value) {
                Ok(true) => return outcome,
                Ok(false) => {}
                // It is the next one's.
                Err(error) => outcome = Err(error),
            }
        }
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.release(py)
    }

    /// Whether somebody holds it.
    pub fn locked(&self, py: Python<'_>) -> bool {
        self.0.with(py, |state| state.is_held)
    }

    /// The OS thread that holds it, or that it is being handed over to; 0: nobody.
    #[getter]
    fn _owner(&self, py: Python<'_>) -> Value<u64> {
        Value(self.0.with(py, |state| state.owner))
    }

    /// Whether the calling OS thread holds it, is about to get it, or waits for it: what it blocks in would wait for ever.
    fn _waits_for_this_thread(&self, py: Python<'_>) -> bool {
        let me = thread::ident();
        self.0
            .with(py, |state| state.owner == me || state.waiting.iter().any(|one| one.thread == me))
    }

    /// Called by `threading.Condition` after a wait: who is killed meanwhile has it nevertheless.
    fn _acquire_restore(slf: &Bound<'_, Self>, _state: &Bound<'_, PyAny>) -> PyResult<()> {
        acquire_at_last(slf.py(), || Self::acquire_as(slf, 0, None, None).map(drop))?
            .map_or(Ok(()), Err)
    }

    /// In a forked child: nobody holds it.
    pub fn _at_fork_reinit(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .peek(|state| state.waiting.iter().try_for_each(|one| one.place.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }
}
