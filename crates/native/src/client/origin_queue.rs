//! The exchanges that wait for a connection of an origin: who is next, for how long, and who has gone.

use super::connection::ClientConnection;
use super::exchange::{ClientExchange, Stage};
use super::origin::{ClientOrigin, State};
use super::timeouts::NEVER_NS;
use crate::ffi::Object;
use pyo3::intern;
use pyo3::prelude::*;

impl State {
    /// Puts an exchange into its place among those that wait.
    fn wait(&mut self, py: Python<'_>, exchange: Object<ClientExchange>) {
        let number =
            |waiting: &Object<ClientExchange>| waiting.as_ref().get().state.with(py, |e| e.number);
        let own = number(&exchange);
        let at = self.waiting.partition_point(|waiting| number(waiting) < own);
        self.waiting.insert(at, exchange);
    }
}

impl ClientOrigin {
    /// The exchange that waits longest.
    pub fn next_waiting<'py>(&self, py: Python<'py>) -> Option<Bound<'py, ClientExchange>> {
        loop {
            let next =
                self.state.with(py, |s| s.opening.pop_front().or_else(|| s.waiting.pop_front()))?;
            let next = next.bind(py).clone();
            if next.get().is_queued(py) {
                return Some(next);
            }
        }
    }

    /// The exchange that a connection was opened for, if it still waits for one: it does so with its own limits.
    pub fn take_opened_for<'py>(
        &self,
        connection: &Bound<'py, ClientConnection>,
    ) -> Option<Bound<'py, ClientExchange>> {
        let py = connection.py();
        let own = connection.get().state.with(py, |s| s.opened_for.take())?;
        // It may have got another one, which has failed: then it is `waiting` again.
        let found = self.state.with(py, |s| {
            let at = s.opening.iter().position(|other| other.as_ptr() == own.as_ptr())?;
            s.opening.remove(at)
        })?;
        let found = found.bind(py).clone();
        found.get().is_queued(py).then_some(found)
    }

    /// Whether an exchange waits that no connection is being opened for.
    pub fn is_short(&self, py: Python<'_>) -> bool {
        self.state
            .with(py, |s| s.waiting.iter().any(|waiting| waiting.as_ref().get().is_queued(py)))
    }

    /// Since when the first exchange waits.
    pub fn waits_since_ns(&self, py: Python<'_>) -> Option<u64> {
        self.state.with(py, |s| {
            let mut waiting =
                s.opening.iter().chain(&s.waiting).map(|waiting| waiting.as_ref().get());
            waiting.find(|waiting| waiting.is_queued(py)).map(|w| w.state.with(py, |e| e.began_ns))
        })
    }

    /// An opening may serve an older exchange than the one that it was begun for. If another one fails then, an exchange
    /// is left without: it waits for a new one.
    pub fn reopen(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut dropped = Vec::new();
        let has_moved = slf.get().state.with(py, |s| {
            let is_queued = |waiting: &Object<ClientExchange>| waiting.as_ref().get().is_queued(py);
            let mut surplus = s
                .opening
                .iter()
                .filter(|waiting| is_queued(waiting))
                .count()
                .saturating_sub(s.openings);
            let has_moved = surplus > 0;
            while surplus > 0 {
                let Some(last) = s.opening.pop_back() else { break };
                if !is_queued(&last) {
                    dropped.push(last);
                    continue;
                }
                last.as_ref().get().state.with(py, |e| e.has_opening = false);
                s.wait(py, last);
                surplus -= 1;
            }
            has_moved
        });
        drop(dropped);
        if !has_moved {
            return Ok(());
        }
        // Those that still wait for their turn may not wait for ever.
        Self::open_more(slf).and(Self::limit_waits(slf))
    }

    /// The time of those that wait for their turn runs from now on, if it does not yet.
    pub fn limit_waits(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let waiting: Vec<_> = slf.get().state.with(py, |s| {
            let is_unlimited = |waiting: &&Object<ClientExchange>| {
                let state = &waiting.as_ref().get().state;
                state.with(py, |e| e.stage == Stage::Queued && e.turn_ends_ns == 0)
            };
            s.waiting.iter().filter(is_unlimited).map(|waiting| waiting.bind(py).clone()).collect()
        });
        waiting.iter().map(|exchange| Self::limit_wait(slf, exchange)).fold(Ok(()), PyResult::and)
    }

    /// Puts an exchange into the queue, which is ended by its timeout.
    pub fn enqueue(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let kept = Object::new(exchange.clone());
        this.state.with(py, |s| s.wait(py, kept));
        Self::open_more(slf)?;
        let is_waiting =
            exchange.get().state.with(py, |s| s.stage == Stage::Queued && !s.has_opening);
        if is_waiting { Self::limit_wait(slf, exchange) } else { Ok(()) }
    }

    /// Sets the timer of a queued exchange: for its turn, until a connection is being opened for it, and for the whole.
    pub fn limit_wait(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let this = exchange.get();
        let owner = slf.get().pool.get().owner.bind(py);
        let now_ns = owner.get().now_ns(py);
        let has_opening = this.state.with(py, |s| s.has_opening);
        let waits_for_turn = !has_opening && !slf.get().is_opening_for_all(py);
        let turn_ends_ns = match this.timeouts.get().pool_ns {
            pool_ns if waits_for_turn => now_ns.saturating_add(pool_ns),
            _ => NEVER_NS,
        };
        let timer = match turn_ends_ns.min(this.deadline_ns) {
            NEVER_NS => None,
            end_ns => {
                let expire = exchange.getattr(intern!(py, "_expire"))?;
                let time_s = end_ns.saturating_sub(now_ns) as f64 / 1e9;
                Some(owner.call_method1(intern!(py, "call_later"), (time_s, expire))?.unbind())
            }
        };
        let old = this.state.with(py, |s| {
            s.turn_ends_ns = if waits_for_turn { turn_ends_ns } else { 0 };
            std::mem::replace(&mut s.timer, timer)
        });
        super::exchange::cancel_timer(py, old)
    }

    /// A queued exchange was given up. It stays in the queue until its turn, or until it is at an end. The connection
    /// that is being opened for it is given up too.
    pub fn forget(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let opening = exchange.get().state.with(py, |s| {
            s.stage = Stage::Ended;
            s.opening.take()
        });
        let mut dropped = Vec::new();
        let is_over = |waiting: Option<&Object<ClientExchange>>| {
            waiting.is_some_and(|waiting| !waiting.as_ref().get().is_queued(py))
        };
        slf.get().state.with(py, |s| {
            for queue in [&mut s.opening, &mut s.waiting] {
                while is_over(queue.front()) {
                    dropped.extend(queue.pop_front());
                }
                while is_over(queue.back()) {
                    dropped.extend(queue.pop_back());
                }
            }
        });
        drop(dropped);
        // Another exchange gets one of its own: this one has its limits, and its place in the queues.
        let cancelled = opening.map(|opening| opening.call_method0(py, intern!(py, "cancel")));
        cancelled.map_or(Ok(()), |cancelled| cancelled.map(drop))
    }
}
