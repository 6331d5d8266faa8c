//! The end of an exchange on a connection, and of the connection itself.

use super::connection::{ClientConnection, Input, Standing};
use super::exchange::ClientExchange;
use super::failure::{self, GIVEN_UP, Kind};
use super::timeouts::{Awaited, NEVER_NS};
use crate::transport::Under;
use pyo3::prelude::*;

impl ClientConnection {
    /// The exchange is over, and the connection may carry another one if `is_reusable`.
    pub fn release(slf: &Bound<'_, Self>, is_reusable: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.state.with(py, |s| {
            s.input = if is_reusable { Input::Idle } else { Input::Closed };
            s.exchange.take()
        });
        drop(exchange);
        // Nobody wants the rest of a request whose response has come already, and the next one must not stand behind
        // it. A server that does not read it would keep a connection that closes in an orderly way.
        if this.unsent(py)? > 0 {
            return Self::abort(slf);
        }
        if is_reusable {
            this.resume_reading(py)?;
            let (home, origin) = this.home(py);
            return home.give_back(origin, slf);
        }
        Self::close(slf)
    }

    /// It waits for another exchange, at most for `time_ns`.
    pub fn idle(slf: &Bound<'_, Self>, now_ns: u64, time_ns: u64) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| s.idle_since_ns = now_ns);
        Self::set_deadline(slf, Awaited::Exchange, time_ns, NEVER_NS)
    }

    /// Closes it in an orderly way. It carries no exchange.
    pub fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        slf.get().state.with(py, |s| {
            s.input = Input::Closed;
            s.deadline_ns = NEVER_NS;
        });
        if slf.get().is_http2() {
            // It would wait until a server that does not read does so. Nobody waits for what is unsent.
            if slf.get().is_stuck(py)? {
                return slf.get().call_under(py, "abort");
            }
            Self::say_goodbye(slf)?;
        }
        let closed = slf.get().call_under(py, "close");
        // TLS waits for the other side's end, and may do so for long.
        let is_slow = matches!(slf.get().under(py), Some(Under::Other(_)));
        if is_slow { closed.and(Self::leave(slf)) } else { closed }
    }

    /// Its place is free for another connection.
    pub fn leave(slf: &Bound<'_, Self>) -> PyResult<()> {
        let leaves = slf.get().state.with(slf.py(), |s| {
            let leaves = s.standing == Standing::Counted;
            if leaves {
                s.standing = Standing::Left;
            }
            leaves
        });
        let (home, origin) = slf.get().home(slf.py());
        if leaves { home.closed(origin, slf) } else { Ok(()) }
    }

    /// It has got its transport, and cannot be used, such as without memory. Its opening has failed with the error.
    pub fn be_stillborn(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        // Its origin counts it as an opening.
        slf.get().state.with(py, |s| s.standing = Standing::Left);
        let aborted = Self::abort(slf);
        let (home, origin) = slf.get().home(py);
        let (told, raised) = failure::told(py, error, Kind::ConnectError, GIVEN_UP);
        raised.and(home.stillborn(origin, slf, told)).and(aborted)
    }

    /// Closes it in an orderly way, although it carries an exchange.
    pub fn finish(slf: &Bound<'_, Self>) -> PyResult<()> {
        let exchange = slf.get().state.with(slf.py(), |s| s.exchange.take());
        drop(exchange);
        Self::close(slf)
    }

    /// Ends it at once: its exchange was given up or has failed.
    pub fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.state.with(py, |s| {
            s.input = Input::Closed;
            s.deadline_ns = NEVER_NS;
            s.exchange.take()
        });
        drop(exchange);
        this.call_under(py, "abort")
    }

    /// The exchange was given up. On HTTP/1.1 the connection ends with it.
    pub fn give_up(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        if slf.get().is_http2() { Self::give_up_stream(slf, exchange) } else { Self::abort(slf) }
    }

    /// The client is closed, and the connection with it.
    pub fn shut_off(slf: &Bound<'_, Self>, text: &str) -> PyResult<()> {
        let py = slf.py();
        let error = || failure::error(py, Kind::CloseError, text);
        if slf.get().exchange(py).is_some() {
            return Self::fail(slf, error());
        }
        Self::fail_all(slf, error).and(Self::close(slf))
    }

    /// Ends the exchange with an error, and the connection with it.
    pub fn fail(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange(py);
        let aborted = Self::abort(slf);
        match exchange {
            Some(exchange) => exchange.get().fail(py, error).and(aborted),
            None => aborted,
        }
    }
}
