//! The timers of a loop: how they come in, and leave when they are cancelled.
//!
//! Entries are taken out inside the cell and dropped outside of it (S2).

use super::LoopCore;
use super::ready::Timer;
use super::timer_handle::TimerQueue;
use crate::ffi::{Link, Object};
use oneloop_engine::Key;
use pyo3::intern;
use pyo3::prelude::*;

/// The loop behind a link that was made here.
fn of<'a, 'py>(owner: &'a Bound<'py, PyAny>) -> &'a Bound<'py, LoopCore> {
    owner.cast().expect("these calls are linked with nothing but a loop")
}

static TIMER_QUEUE: TimerQueue = TimerQueue {
    remove: |owner, key| {
        if let Some(removed) = of(owner).get().remove_timer(owner.py(), key) {
            removed.drop_ref(owner.py());
        }
    },
    has: |owner, key| of(owner).get().has_timer(owner.py(), key),
};

impl LoopCore {
    /// How a timer that waits in this loop calls it.
    #[inline]
    pub(super) fn timer_queue(owner: &Bound<'_, Self>) -> Link<TimerQueue> {
        Link { object: Object::new(owner.clone().into_any()), calls: &TIMER_QUEUE }
    }

    /// Queues a timer. `now_ns` is the time, or any earlier one.
    #[inline]
    pub(super) fn push_timer(
        &self,
        py: Python<'_>,
        deadline_ns: u64,
        now_ns: u64,
        timer: Timer,
    ) -> PyResult<Key> {
        let key = self.timers.with(py, |timers| timers.push(deadline_ns, now_ns, timer));
        // After a call from the wrong thread: a sleeping loop would not notice its new next deadline.
        self.wake().map(|()| key)
    }

    /// Takes a timer out that was cancelled. `None` if it has left.
    #[inline]
    pub(super) fn remove_timer(&self, py: Python<'_>, key: Key) -> Option<Timer> {
        self.timers.with(py, |timers| timers.remove(key))
    }

    pub(super) fn has_timer(&self, py: Python<'_>, key: Key) -> bool {
        self.timers.with(py, |timers| timers.contains(key))
    }

    /// Queues a handle of the standard library. It cannot keep its key, so the loop knows it by its address while it
    /// keeps the handle alive.
    pub(super) fn push_stock_timer(
        &self,
        py: Python<'_>,
        deadline_ns: u64,
        handle: Py<PyAny>,
    ) -> PyResult<()> {
        let address = handle.as_ptr().addr();
        let key = self.push_timer(py, deadline_ns, 0, Timer::Stock(handle))?;
        self.stock_timers.with(py, |keys| keys.insert(address, key));
        Ok(())
    }

    pub(super) fn remove_stock_timer(&self, handle: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = handle.py();
        let key = self.stock_timers.with(py, |keys| keys.remove(&handle.as_ptr().addr()));
        let removed = key.and_then(|key| self.remove_timer(py, key));
        if removed.is_some() {
            handle.setattr(intern!(py, "_scheduled"), false)?;
        }
        Ok(())
    }

    /// Marks the handles of the standard library that are due as such, as asyncio does when they leave its heap.
    pub(super) fn note_due_stock_timers(&self, py: Python<'_>) -> PyResult<()> {
        if self.stock_timers.with(py, |keys| keys.is_empty()) {
            return Ok(());
        }
        let due: Vec<Py<PyAny>> = self.due.with(py, |due| {
            let stock = due.iter().filter_map(|timer| match timer {
                Timer::Stock(handle) => Some(handle.clone_ref(py)),
                Timer::Native(_) => None,
            });
            stock.collect()
        });
        for handle in due {
            self.stock_timers.with(py, |keys| keys.remove(&handle.as_ptr().addr()));
            handle.bind(py).setattr(intern!(py, "_scheduled"), false)?;
        }
        Ok(())
    }
}
