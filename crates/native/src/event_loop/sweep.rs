//! How cancelled timers leave the heap before their time: some whenever a timer is made, the rest when
//! nothing is ready. Never all at once: a hundred thousand would hold up the loop for milliseconds
//! (docs/design/0010).
//!
//! Entries are looked at in the cell, and dropped outside of it (S2).

use super::LoopCore;
use super::ready::Timer;
use pyo3::prelude::*;

/// Entries that a new timer has looked at, while more than half are cancelled: two are enough for the
/// heap to shrink faster than it grows.
const STEPS_PER_TIMER: usize = 2;
/// Entries in one go, when nothing is ready; some 0.1 ms.
const STEPS_WHEN_IDLE: usize = 512;

impl LoopCore {
    /// A timer of this loop was cancelled.
    pub(super) fn note_cancelled_timer(&self, py: Python<'_>) {
        self.timers.with(py, oneloop_engine::Timers::note_cancelled);
    }

    /// A standard library's handle in the heap was cancelled. Its flag is Python's, so that its address
    /// is kept; the heap keeps the handle alive.
    pub(super) fn note_cancelled_stock_timer(&self, handle: &Bound<'_, PyAny>) {
        let py = handle.py();
        self.cancelled_stock.with(py, |addresses| addresses.insert(handle.as_ptr().addr()));
        self.note_cancelled_timer(py);
    }

    /// Queues a timer, which pays for two that were cancelled.
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
        // Asleep, the loop would not know that its next deadline has changed: a call from the wrong thread.
        self.wake()
    }

    /// Nothing is ready: frees cancelled timers for a moment, those first that would end the poll for
    /// nothing. True if some are left.
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

    /// One entry; true if more should be looked at.
    fn sweep_step(&self, py: Python<'_>) -> PyResult<bool> {
        let (removed, wanted) = self.timers.with(py, |timers| {
            let removed = timers.sweep_step(|timer| self.is_cancelled_inside(py, timer));
            (removed, timers.wants_sweep())
        });
        removed.map_or(Ok(()), |removed| self.timer_left(py, &removed))?;
        Ok(wanted)
    }

    /// For a timer in the heap, without calling Python.
    fn is_cancelled_inside(&self, py: Python<'_>, timer: &Timer) -> bool {
        match timer {
            Timer::Native(handle) => handle.get().work.is_cancelled(),
            Timer::Stock(handle) => self
                .cancelled_stock
                .with(py, |addresses| addresses.contains(&handle.as_ptr().addr())),
        }
    }

    /// A timer has left the heap.
    pub(super) fn timer_left(&self, py: Python<'_>, timer: &Timer) -> PyResult<()> {
        if let Timer::Stock(handle) = timer {
            self.cancelled_stock.with(py, |addresses| addresses.remove(&handle.as_ptr().addr()));
        }
        timer.popped(py)
    }
}
