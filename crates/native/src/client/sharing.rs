//! Connections of an origin that carry several exchanges at a time: those of HTTP/2.
//!
//! Which protocol a connection speaks is known when it is open. Until then the exchanges that wait do so for the one that
//! is being opened; if it turns out to speak HTTP/1.1, each gets one of its own. An HTTP/2 connection gets further
//! exchanges when the server's settings have arrived, which say how many streams it may have. When all connections have
//! as many, another one is opened, if the pool's limits allow it.

use super::connection::ClientConnection;
use super::exchange::ClientExchange;
use super::failure::{self, Kind};
use super::origin::ClientOrigin;
use super::protocol::Protocol;
use crate::ffi::Object;
use pyo3::intern;
use pyo3::prelude::*;

/// How long a busy connection gets no further exchange, so that another origin can have its place.
const YIELD_NS: u64 = 500_000_000;

impl ClientOrigin {
    /// One that takes another exchange.
    pub fn shared_with_room<'py>(&self, py: Python<'py>) -> Option<Bound<'py, ClientConnection>> {
        if self.protocol == Protocol::Http1 {
            return None;
        }
        self.state.with(py, |s| {
            let takes_more = |kept: &&Object<ClientConnection>| {
                kept.as_ref().get().has_room(py) && !kept.as_ref().get().is_over_below(py)
            };
            let found = s.shared.iter().find(takes_more)?;
            Some(found.bind(py).clone())
        })
    }

    /// Whether the connection that is being opened may serve all exchanges that wait.
    pub fn is_opening_for_all(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_serial && s.openings > 0)
    }

    /// Whether it is not known yet if another connection is needed.
    pub fn is_undecided(&self, py: Python<'_>) -> bool {
        if self.is_opening_for_all(py) {
            return true;
        }
        let (is_serial, shared) = self.state.with(py, |s| {
            let shared: Vec<_> = s.shared.iter().map(|kept| kept.bind(py).clone()).collect();
            (s.is_serial, shared)
        });
        let is_coming = |kept: &ClientConnection| !kept.is_greeted(py) && kept.is_open(py);
        is_serial && shared.iter().any(|kept| is_coming(kept.get()))
    }

    /// Exchanges that wait begin on a connection that carries one already, as many as it takes.
    pub fn share(slf: &Bound<'_, Self>, connection: &Bound<'_, ClientConnection>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        // What is below may have failed, and what had arrived before is still being read.
        if !connection.get().is_http2() || connection.get().is_over_below(py) {
            return Ok(());
        }
        if connection.get().is_busy(py) {
            let kept = Object::new(connection.clone());
            let unused = this.state.with(py, |s| {
                let is_known = s.shared.iter().any(|c| c.as_ptr() == connection.as_ptr());
                if is_known {
                    return Some(kept);
                }
                s.shared.push(kept);
                None
            });
            drop(unused);
        }
        while connection.get().has_room(py) {
            let Some(since_ns) = this.waits_since_ns(py) else { break };
            let now_ns = this.pool.get().owner.get().now_ns(py);
            if Self::yields(slf, since_ns, now_ns)? {
                break;
            }
            let Some(next) = this.next_waiting(py) else { break };
            ClientConnection::begin(connection, &next)?;
        }
        Ok(())
    }

    /// Whether an exchange that waits since `since_ns` does not begin on a busy connection, because another origin has
    /// waited for longer and gets its place when it is idle. What the connection carries may take long; so only for a
    /// time.
    pub fn yields(slf: &Bound<'_, Self>, since_ns: u64, now_ns: u64) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        if this.protocol == Protocol::Http1 {
            return Ok(false);
        }
        let is_busy = this.state.with(py, |s| !s.shared.is_empty());
        if !is_busy || !this.pool.get().has_waited_longer(slf.as_any(), since_ns) {
            this.state.with(py, |s| s.yields_since_ns = 0);
            return Ok(false);
        }
        let before_ns = this.state.with(py, |s| match s.yields_since_ns {
            0 => std::mem::replace(&mut s.yields_since_ns, now_ns),
            before_ns => before_ns,
        });
        if before_ns == 0 {
            let share_on = slf.getattr(intern!(py, "_share_on"))?;
            let time_s = YIELD_NS as f64 / 1e9;
            let owner = this.pool.get().owner.bind(py);
            owner.call_method1(intern!(py, "call_later"), (time_s, share_on))?;
            return Ok(true);
        }
        Ok(now_ns.saturating_sub(before_ns) < YIELD_NS)
    }

    /// It has given way for long enough, and the other origin may have gone.
    pub fn share_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let shared: Vec<_> = slf
            .get()
            .state
            .with(py, |s| s.shared.iter().map(|kept| kept.bind(py).clone()).collect());
        shared.iter().map(|kept| Self::share(slf, kept)).fold(Ok(()), PyResult::and)
    }

    /// A connection carries no exchange any more, or gets no other one.
    pub fn unshare(slf: &Bound<'_, Self>, connection: &Bound<'_, ClientConnection>) {
        let removed = slf.get().state.with(slf.py(), |s| {
            let busy = &mut s.shared;
            let at = busy.iter().position(|c| c.as_ptr() == connection.as_ptr());
            at.map(|at| busy.swap_remove(at))
        });
        drop(removed);
    }

    /// The server's settings have arrived.
    pub fn greeted(
        slf: &Bound<'_, Self>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        if connection.get().is_busy(slf.py()) {
            Self::share(slf, connection)?;
        }
        Self::open_rest(slf)
    }

    /// A connection is open: what it does not serve gets others.
    pub fn decided(slf: &Bound<'_, Self>, is_serial: bool) -> PyResult<()> {
        if slf.get().protocol != Protocol::Http1 {
            slf.get().state.with(slf.py(), |s| s.is_serial = is_serial);
        }
        Self::open_rest(slf)
    }

    /// Opens connections for exchanges that wait; from now on the time of their turn runs.
    pub fn open_rest(slf: &Bound<'_, Self>) -> PyResult<()> {
        if slf.get().protocol == Protocol::Http1 {
            return Ok(());
        }
        Self::open_more(slf).and(Self::limit_waits(slf))
    }

    /// A connection could not begin an exchange: another one may.
    pub fn try_elsewhere(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        why: &str,
    ) -> PyResult<()> {
        let py = slf.py();
        let is_hopeless = exchange.get().state.with(py, |s| {
            s.has_opening = false;
            s.turn_ends_ns = 0;
            s.attempts += 1;
            s.attempts > super::h2::MOST_ATTEMPTS
        });
        if is_hopeless {
            return exchange.get().fail(py, failure::error(py, Kind::LocalProtocolError, why));
        }
        Self::enqueue(slf, exchange)
    }
}
