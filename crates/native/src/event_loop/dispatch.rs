//! Serves the poll's events and the due timers, and flushes queued writes.

use super::core::{Flush, LoopCore};
use super::ready::Timer;
use super::registry::ignore_gone;
use super::running::report_native;
use crate::errors;
use crate::ffi::{LoopCell, Object};
use oneloop_engine::{BurstQueue, Event};
use pyo3::prelude::*;
use std::sync::atomic::Ordering;

/// How many timers ahead memory is prefetched: docs/design/0013.
const FETCHED_AHEAD: usize = 10;

fn next_due(due: &mut BurstQueue<Timer>) -> Option<Timer> {
    due.get(2 * FETCHED_AHEAD).inspect(|later| later.fetch());
    due.get(FETCHED_AHEAD).inspect(|later| later.fetch_context());
    due.pop_front()
}

impl LoopCore {
    /// Serves every event of the last poll.
    pub(super) fn serve_events(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let next = || {
            let next = self.with_poller(owner.py(), oneloop_engine::Poller::next_event);
            next.map_err(|e| errors::os_error("epoll_wait", &e))
        };
        let tick = self.tick_number(owner.py());
        while let Some(event) = next()? {
            let served = self.serve_event(owner, event, tick);
            if served.is_err() && event.readiness.is_both() {
                // The reader's callback raised an exception that leaves the loop. The writer's callback, which
                // asyncio would have queued behind it, still runs.
                let repeated =
                    self.with_poller(owner.py(), oneloop_engine::Poller::repeat_writable);
                return served.and(repeated.map_err(|e| errors::os_error("epoll_wait", &e)));
            }
            served?;
        }
        Ok(())
    }

    /// Serves one event if its registration is still live. `tick` is the tick whose poll returned it.
    pub(super) fn serve_event(
        &self,
        owner: &Bound<'_, Self>,
        event: Event,
        tick: u64,
    ) -> PyResult<()> {
        let py = owner.py();
        self.event_tick.store(tick, Ordering::Relaxed);
        let fd = event.token.fd();
        if fd == self.waker.raw_fd() {
            return Ok(());
        }
        let source = self.sources.with(py, |sources| {
            let source = sources.get(fd.cast_unsigned() as usize)?.as_ref()?;
            (source.token == event.token).then(|| {
                let guests = source.guests.iter().filter_map(|guest| guest.receiver(py));
                (source.owner.receiver(py), guests.collect::<Vec<_>>())
            })
        });
        let Some((receiver, guests)) = source else {
            // The registration has no source, so nothing would handle its events, and every poll would report a
            // level-triggered event again.
            let ended = self.with_poller(py, |poller| poller.deregister(event.token));
            return ended.and_then(ignore_gone).map_err(|e| errors::os_error("epoll_ctl", &e));
        };
        self.meter.with(py, |meter| meter.events += 1);
        let mut served = match receiver {
            Some((object, on_ready)) => on_ready(owner, &object, event.readiness)
                .or_else(|error| report_native(owner, &object, error)),
            None => Ok(()),
        };
        for (object, on_ready) in guests {
            let guest_served = on_ready(owner, &object, event.readiness);
            served = served.and(guest_served.or_else(|error| report_native(owner, &object, error)));
        }
        served
    }

    /// Takes the timers that are due now out, in order of their deadlines. They run after the handles
    /// that were ready and the events of the poll. `now_ns` is the time, if this tick has already read it.
    pub(super) fn collect_due_timers(&self, py: Python<'_>, now_ns: Option<u64>) -> PyResult<()> {
        if self.timers.with(py, |timers| timers.pending() == 0) {
            return Ok(());
        }
        let now = now_ns.unwrap_or_else(|| self.now_ns(py));
        self.due.with(py, |due| {
            self.timers.with(py, |timers| {
                while let Some(timer) = timers.pop_due(now) {
                    due.push_back(timer);
                }
            });
        });
        self.note_due_stock_timers(py)
    }

    /// Runs the timers that were due at the poll and no others: timers that become due or are scheduled meanwhile
    /// wait for the next tick, as in asyncio. Timers not reached because of an exception stay in the queue.
    pub(super) fn run_due_timers(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        self.due.with(py, BurstQueue::begin_burst);
        while let Some(timer) = self.due.with(py, next_due) {
            timer.run(owner)?;
        }
        Ok(())
    }

    /// At the end of a callback: sends what transports have gathered, one system call each.
    #[inline]
    pub(super) fn flush_gathered(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        if self.gathered.with(owner.py(), |list| list.is_empty()) {
            return Ok(());
        }
        Self::flush(owner, &self.gathered)
    }

    /// At the end of the tick: passes file operations to their engine.
    pub(super) fn flush_dirty(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        if self.dirty.with(owner.py(), |list| list.is_empty()) {
            return Ok(());
        }
        Self::flush(owner, &self.dirty)
    }

    /// Flushes the whole list even after errors (S9). Returns the first KeyboardInterrupt or SystemExit.
    fn flush(
        owner: &Bound<'_, Self>,
        list: &LoopCell<BurstQueue<(Object, Flush)>>,
    ) -> PyResult<()> {
        let py = owner.py();
        let mut outcome = Ok(());
        list.with(py, BurstQueue::begin_burst);
        while let Some((object, flush)) = list.with(py, |list| list.pop_front()) {
            let object = object.bind(py);
            let done = flush(owner, object).or_else(|error| report_native(owner, object, error));
            outcome = outcome.and(done);
        }
        outcome
    }
}
