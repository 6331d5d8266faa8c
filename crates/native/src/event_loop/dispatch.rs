//! Serves what the poll brought, what fell due, and what wants to be written out.

use super::LoopCore;
use super::work::report_native;
use crate::errors;
use pyo3::prelude::*;
use std::collections::VecDeque;

impl LoopCore {
    /// Serves every event of the last poll. Events left by an exception are served by the next
    /// tick, before it polls again: an edge is never lost.
    pub(super) fn serve_events(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let waker_fd = self.waker.raw_fd();
        loop {
            let event = self
                .with_poller(py, oneloop_engine::Poller::next_event)
                .map_err(|e| errors::os_error("epoll_wait", &e))?;
            let Some(event) = event else { return Ok(()) };
            let fd = event.token.fd();
            if fd == waker_fd {
                let drained = self.waker.drain();
                drained.map_err(|e| errors::os_error("eventfd read", &e))?;
                continue;
            }
            let source = self.sources.with(py, |sources| {
                sources
                    .get(fd.cast_unsigned() as usize)
                    .and_then(Option::as_ref)
                    .filter(|source| source.token == event.token)
                    .map(|source| (source.object.bind(py).clone(), source.on_ready))
            });
            // The poller drops stale events, so that a live token always has its source.
            if let Some((object, on_ready)) = source {
                self.meter.with(py, |meter| meter.events += 1);
                on_ready(owner, &object, event.readiness)
                    .or_else(|error| report_native(owner, &object, error))?;
            }
        }
    }

    /// Runs the timers that are due, in order of their deadlines. `now_ns`: the time, if this tick
    /// has read it already.
    pub(super) fn run_due_timers(
        &self,
        owner: &Bound<'_, Self>,
        now_ns: Option<u64>,
    ) -> PyResult<()> {
        let py = owner.py();
        let none = self.timers.with(py, |timers| timers.is_empty());
        if none && self.due.with(py, |due| due.is_empty()) {
            return Ok(());
        }
        // All that are due at this moment, and no others: a callback that schedules for the past
        // waits for the next tick like everybody. What an exception leaves stays in the queue.
        let now = now_ns.unwrap_or_else(|| self.now_ns(py));
        while let Some(timer) = self.timers.with(py, |timers| timers.pop_due(now)) {
            self.timer_left(py, &timer)?;
            if timer.is_cancelled(py) {
                self.timers.with(py, oneloop_engine::Timers::note_cancelled_popped);
            } else {
                self.due.with(py, |due| due.push_back(timer));
            }
        }
        while let Some(timer) = self.due.with(py, VecDeque::pop_front) {
            if !timer.is_cancelled(py) {
                timer.run(owner)?;
            }
        }
        Ok(())
    }

    /// Writes out what transports have queued during the tick, one system call each.
    pub(super) fn flush_dirty(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        if self.dirty.with(py, |dirty| dirty.is_empty()) {
            return Ok(());
        }
        let mut dirty = self.dirty.take(py);
        for (object, flush) in dirty.drain(..) {
            let object = object.bind(py);
            flush(owner, object).or_else(|error| report_native(owner, object, error))?;
        }
        // Keep the allocation, unless a flush has queued more in the meantime.
        self.dirty.with(py, |slot| {
            if slot.is_empty() {
                std::mem::swap(slot, &mut dirty);
            }
        });
        Ok(())
    }
}
