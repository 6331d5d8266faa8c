//! The ends of streams, and of the connection with those that it still carries.

use super::MOST_ATTEMPTS;
use super::state::Open;
use crate::client::connection::{ClientConnection, Input};
use crate::client::exchange::{ClientExchange, Stage};
use crate::client::failure::{self, Kind};
use crate::client::timeouts::NEVER_NS;
use oneloop_http2::Code;
use pyo3::prelude::*;

const NO_RESPONSE: &str = "Server disconnected without sending a response.";
const CUT_OFF: &str = "the server closed the connection before the end of the body";

impl ClientConnection {
    /// The response is complete.
    pub fn complete_stream(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.owner().now_ns(py);
        let (connection, stream, is_sent) = exchange.get().state.with(py, |s| {
            s.is_complete = true;
            s.ended_ns = now_ns;
            s.stage = Stage::Ended;
            (s.connection.take(), s.stream, s.is_sent)
        });
        drop(connection);
        let (open, is_unsent) = this.state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return (None, false) };
            let is_unsent = !is_sent || h2.session.unsent_bytes(stream).is_some();
            (h2.streams.remove(&stream), is_unsent)
        });
        drop(open);
        // The server does not want the rest of a request that it has answered already.
        if is_unsent && this.is_stuck(py)? {
            this.leave_off(py);
        }
        let reset = if is_unsent { Self::reset(slf, stream) } else { Ok(()) };
        let left = Self::stream_left(slf);
        Self::let_end(slf, exchange);
        reset.and(left).and(exchange.get().wake_waiters(py))
    }

    /// Ends a stream in both directions.
    fn reset(slf: &Bound<'_, Self>, stream: i32) -> PyResult<()> {
        let py = slf.py();
        let reset = slf.get().state.with(py, |s| match &mut s.h2 {
            Some(h2) => h2.session.reset(stream, Code::CANCEL),
            None => Ok(()),
        });
        reset.map_err(|failure| super::begin::broken(py, &failure))?;
        Self::send_soon(slf);
        Ok(())
    }

    /// The exchange was given up: only its stream ends.
    pub fn give_up_stream(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        let py = slf.py();
        let stream = exchange.get().state.with(py, |s| s.stream);
        let open = slf.get().state.with(py, |s| s.h2.as_mut()?.streams.remove(&stream));
        if open.is_none() {
            return Ok(());
        }
        drop(open);
        let doubted = Self::doubt(slf, exchange.get());
        doubted.and(Self::reset(slf, stream)).and(Self::stream_left(slf))
    }

    /// Ends the exchange with an error. The connection goes on.
    pub fn fail_stream(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        error: PyErr,
    ) -> PyResult<()> {
        let given_up = Self::give_up_stream(slf, exchange);
        exchange.get().fail(slf.py(), error).and(given_up)
    }

    /// The connection carries one exchange fewer.
    fn stream_left(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (is_closed, is_leaving, is_doubted) = this.state.with(py, |s| {
            let is_closed = s.is_lost || matches!(s.input, Input::Closed);
            let (is_leaving, is_doubted) =
                s.h2.as_ref().map_or((true, false), |h2| (h2.is_leaving, h2.is_doubted));
            (is_closed, is_leaving, is_doubted)
        });
        let (home, origin) = this.home(py);
        // What is below may have failed, and what had arrived before is still being read.
        if is_closed || this.is_over_below(py) {
            home.unshare(origin, slf);
            return Ok(());
        }
        match (this.streams(py), is_leaving) {
            (0, true) => {
                home.unshare(origin, slf);
                Self::close(slf)
            }
            (0, false) if is_doubted => {
                home.unshare(origin, slf);
                Self::wait_for_sign(slf)
            }
            (0, false) => {
                home.unshare(origin, slf);
                home.give_back(origin, slf)
            }
            (_, true) => Ok(()),
            (_, false) => home.share(origin, slf),
        }
    }

    /// The stream is over, for nghttp2 too. If its exchange is not, the server has ended it.
    pub fn stream_closed(slf: &Bound<'_, Self>, stream: i32, code: Code) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (open, reason, goaway) = this.state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return (None, None, None) };
            (h2.streams.remove(&stream), h2.session.take_reason(), h2.goaway)
        });
        let Some(open) = open else { return Ok(()) };
        let exchange = open.exchange.bind(py);
        if code == Code::REFUSED_STREAM && Self::may_try_again(exchange) {
            let left = Self::stream_left(slf);
            let (home, origin) = this.home(py);
            return home.repeat(origin, exchange).and(left);
        }
        let text = match (reason, goaway) {
            (Some(reason), _) => format!("the server's answer is invalid: {reason}"),
            (None, Some(why)) if code == Code::REFUSED_STREAM => {
                format!("the server ends the connection: {}", why.name())
            }
            (None, _) => format!("the server has reset the stream: {}", code.name()),
        };
        let error = failure::error(py, Kind::RemoteProtocolError, &text);
        let left = Self::stream_left(slf);
        exchange.get().fail(py, error).and(left)
    }

    /// Whether a request that the server has not looked at can be sent again: it is there whole, or nothing of its body
    /// was sent.
    fn may_try_again(exchange: &Bound<'_, ClientExchange>) -> bool {
        exchange.get().state.with(exchange.py(), |s| {
            s.attempts += 1;
            !s.has_begun && !s.is_partly_sent && s.attempts < MOST_ATTEMPTS
        })
    }

    /// Takes all streams off the connection, the first one first.
    fn take_streams(&self, py: Python<'_>) -> Vec<Open<ClientExchange>> {
        let mut all: Vec<_> = self.state.with(py, |s| {
            s.deadline_ns = NEVER_NS;
            s.h2.as_mut().map(|h2| std::mem::take(&mut h2.streams)).into_iter().flatten().collect()
        });
        all.sort_unstable_by_key(|(stream, _)| *stream);
        all.into_iter().map(|(_, open)| open).collect()
    }

    /// Ends the connection and all its exchanges: one side has broken the rules.
    pub fn break_off(slf: &Bound<'_, Self>, otherwise: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.leave_off(py);
        let (reason, goaway) = this.state.with(py, |s| {
            s.h2.as_mut().map_or((None, None), |h2| (h2.session.take_reason(), h2.goaway))
        });
        let text = match (reason, goaway) {
            (Some(reason), _) => format!("the server's answer is invalid: {reason}"),
            (None, Some(why)) => format!("the server ends the connection: {}", why.name()),
            (None, None) => otherwise.to_owned(),
        };
        let error = || failure::error(py, Kind::RemoteProtocolError, &text);
        let failed = Self::fail_all(slf, error);
        let (home, origin) = this.home(py);
        home.unshare(origin, slf);
        failed.and(Self::close(slf))
    }

    /// Ends all exchanges with an error. The connection is the caller's business.
    pub fn fail_all(slf: &Bound<'_, Self>, error: impl Fn() -> PyErr) -> PyResult<()> {
        let py = slf.py();
        let fail = |open: Open<ClientExchange>| open.exchange.bind(py).get().fail(py, error());
        slf.get().take_streams(py).into_iter().map(fail).fold(Ok(()), PyResult::and)
    }

    /// The server has closed the connection, or it has failed.
    pub fn lose_streams(slf: &Bound<'_, Self>, cause: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.leave_off(py);
        let goaway = this.state.with(py, |s| s.h2.as_ref().and_then(|h2| h2.goaway));
        let (home, origin) = this.home(py);
        home.unshare(origin, slf);
        let mut outcome = Ok(());
        for open in this.take_streams(py) {
            let exchange = open.exchange.bind(py);
            let may_repeat = exchange.get().may_repeat
                && open.is_on_kept
                && exchange.get().state.with(py, |s| s.is_sent)
                && Self::may_try_again(exchange);
            let done = if may_repeat {
                home.repeat(origin, exchange)
            } else {
                exchange.get().fail(py, Self::loss(exchange, goaway, cause))
            };
            outcome = outcome.and(done);
        }
        outcome
    }

    fn loss(
        exchange: &Bound<'_, ClientExchange>,
        goaway: Option<Code>,
        cause: Option<&Bound<'_, PyAny>>,
    ) -> PyErr {
        let py = exchange.py();
        let said = goaway.filter(|code| *code != Code::NO_ERROR);
        if let (Some(cause), None) = (cause, said) {
            return failure::lost(cause);
        }
        // What the server has said says more than how the connection ended afterwards.
        let has_response = exchange.get().state.with(py, |s| s.response.is_some());
        let text = if has_response { CUT_OFF } else { NO_RESPONSE };
        let text = match said {
            Some(code) => format!("{text} It said {}.", code.name()),
            None => text.to_owned(),
        };
        let error = failure::error(py, Kind::RemoteProtocolError, &text);
        if let Some(cause) = cause {
            error.set_cause(py, Some(PyErr::from_value(cause.clone())));
        }
        error
    }

    /// Closes the connection if both sides have nothing to say any more.
    pub fn close_if_over(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let is_over = slf.get().state.with(py, |s| {
            let is_open = s.under.is_some() && !matches!(s.input, Input::Closed);
            is_open
                && s.h2
                    .as_ref()
                    .is_some_and(|h2| !h2.session.wants_read() && !h2.session.wants_write())
        });
        if is_over {
            Self::break_off(slf, "the server sends too much without a meaning")
        } else {
            Ok(())
        }
    }

    /// Says that the connection ends, before it is closed.
    pub fn say_goodbye(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let is_new = slf.get().state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return Ok(false) };
            let is_new = s.under.is_some() && h2.goaway.is_none();
            h2.is_leaving = true;
            if is_new {
                h2.session.terminate(Code::NO_ERROR)?;
            }
            Ok(is_new)
        });
        match is_new {
            Ok(true) => Self::send_frames(slf),
            Ok(false) => Ok(()),
            Err(failure) => Err(super::begin::broken(py, &failure)),
        }
    }
}
