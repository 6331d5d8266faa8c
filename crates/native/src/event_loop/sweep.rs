//! Removes cancelled timers from the heap before their deadline: a few whenever a timer is created, the others when
//! nothing is ready. They are never removed in a single pass, because a pass over a hundred thousand timers would block
//! the loop for milliseconds (docs/design/0010).
//!
//! Entries are checked inside the cell and dropped outside of it (S2).

use super::LoopCore;
use super::ready::Timer;
use pyo3::prelude::*;

/// Entries to check for each new timer while more than half are cancelled. Two are enough for the heap to shrink
/// faster than it grows.
const STEPS_PER_TIMER: usize = 2;
/// Entries to check in one go when nothing is ready: about 0.1 ms.
const STEPS_WHEN_IDLE: usize = 512;

impl LoopCore {
    /// Counts a cancelled timer of this loop.
    pub(super) fn note_cancelled_timer(&self, py: Python<'_>) {
        self.timers.with(py, oneloop_engine::Timers::note_cancelled);
    }

    /// Counts a cancelled handle of the standard library. Its flag is a Python attribute, so its address is recorded
    /// instead; the heap keeps the handle alive.
    pub(super) fn note_cancelled_stock_timer(&self, handle: &Bound<'_, PyAny>) {
        let py = handle.py();
        self.cancelled_stock.with(py, |addresses| addresses.insert(handle.as_ptr().addr()));
        self.note_cancelled_timer(py);
    }

    /// Queues a timer, and sweeps two entries.
    pub(super) fn push_timer(
        &self,
        py: Python<'_>,
        deadline_ns: u64,
        timer: Timer,
    ) -> PyResult<()> {
        let mut wanted = self.timers.with(py, |timers| {
            timers.push(deadline_ns, timer);
            timers.wants_sweep()
        });
        for _ in 0..STEPS_PER_TIMER {
            if !wanted {
                break;
            }
            wanted = self.sweep_step(py)?;
        }
        // After a call from the wrong thread: a sleeping loop would not notice its new next deadline.
        self.wake()
    }

    /// Called when nothing is ready: frees a bounded number of cancelled timers, starting with those that would wake
    /// the poll for nothing. Returns true if some are left.
    pub(super) fn sweep_when_idle(&self, py: Python<'_>) -> PyResult<bool> {
        for _ in 0..STEPS_WHEN_IDLE {
            let top = self.timers.with(py, |timers| {
                let is_cancelled = timers.peek().is_some_and(|t| self.is_cancelled_inside(py, t));
                is_cancelled.then(|| {
                    timers.note_cancelled_popped();
                    timers.pop()
                })
            });
            let more = match top {
                Some(top) => {
                    top.map_or(Ok(()), |top| self.timer_left(py, &top))?;
                    true
                }
                None => {
                    self.timers.with(py, |timers| timers.wants_sweep()) && self.sweep_step(py)?
                }
            };
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks one entry. Returns true if more should be checked.
    fn sweep_step(&self, py: Python<'_>) -> PyResult<bool> {
        let (removed, wanted) = self.timers.with(py, |timers| {
            let removed = timers.sweep_step(|timer| self.is_cancelled_inside(py, timer));
            (removed, timers.wants_sweep())
        });
        removed.map_or(Ok(()), |removed| self.timer_left(py, &removed))?;
        Ok(wanted)
    }

    /// Whether a timer in the heap is cancelled, without calling Python.
    fn is_cancelled_inside(&self, py: Python<'_>, timer: &Timer) -> bool {
        match timer {
            Timer::Native(handle) => handle.get().work.is_cancelled(),
            Timer::Stock(handle) => self
                .cancelled_stock
                .with(py, |addresses| addresses.contains(&handle.as_ptr().addr())),
        }
    }

    /// Called when a timer has left the heap.
    pub(super) fn timer_left(&self, py: Python<'_>, timer: &Timer) -> PyResult<()> {
        if let Timer::Stock(handle) = timer {
            self.cancelled_stock.with(py, |addresses| addresses.remove(&handle.as_ptr().addr()));
        }
        timer.popped(py)
    }
}
