//! A client that has ended its side of the connection: when its application is told.
//!
//! Such a client either has left or still reads (`nc -N`): TCP shows no difference until something is sent to it. So
//! the application is told when nothing was sent for a moment while it listens. A response that is being sent reaches
//! a client that reads; if nobody does, a write fails, and the end of the connection is told.
//!
//! | when the moment is over             | then                                                             |
//! |-------------------------------------|------------------------------------------------------------------|
//! | something was sent                  | the next moment begins                                           |
//! | the transport is paused             | the moment begins again when it is resumed; the drain deadline counts |
//! | nothing more can be sent (HEAD)     | the response ends; requests behind it are served                 |
//! | the application waits in `receive`  | it is told                                                       |
//! | the application does not listen     | nothing: its response may still come                               |
//!
//! Must not depend on requests behind the current one: they change none of this.

use super::connection::{HttpConnection, Input};
use crate::http::exchange::contract::{Exchange, Progress, State};
use crate::http::exchange::response_state::Response;
use oneloop_engine::sys::socket;
use pyo3::intern;
use pyo3::prelude::*;

const MOMENT_S: f64 = 0.2;

/// What follows a moment.
enum Next {
    Moment,
    /// The application is told.
    Told,
    /// The response ends.
    End,
    Nothing,
}

fn progress(s: &State) -> Progress {
    (s.response, s.sent_bytes)
}

fn is_over(s: &State) -> bool {
    s.is_disconnected || s.is_peer_done || s.response == Response::Complete
}

impl HttpConnection {
    /// The peer has ended its side, or this could not be seen, because too much is buffered behind the request.
    fn may_be_half_closed(&self, py: Python<'_>) -> bool {
        self.state
            .with(py, |s| s.has_eof || (s.is_reading_paused && matches!(s.input, Input::Waiting)))
    }

    fn is_half_closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.state.with(py, |s| s.has_eof)
            || self.descriptor(py)?.is_some_and(|fd| socket::is_ended(fd).unwrap_or(true)))
    }

    /// Begins a moment, if the client may have left and this concerns the application.
    pub fn begin_moment(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.may_be_half_closed(py) {
            return Ok(());
        }
        let is_due = exchange.get().state.with(py, |s| {
            let is_due =
                s.moment.is_none() && !is_over(s) && (s.is_listening() || s.has_nothing_to_send());
            if is_due {
                s.moment = Some(progress(s));
            }
            is_due
        });
        if is_due {
            let over = slf.getattr(intern!(py, "_moment_over"))?;
            let owner = this.service.get().owner.bind(py);
            owner.call_method1(intern!(py, "call_later"), (MOMENT_S, over, exchange))?;
        }
        Ok(())
    }

    pub fn end_moment(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let is_half_closed = this.is_half_closed(py)?;
        let is_paused = this.state.with(py, |s| s.is_writing_paused);
        let next = exchange.get().state.with(py, |s| {
            let begun = s.moment.take();
            if is_over(s) || is_paused {
                Next::Nothing
            } else if !is_half_closed || begun != Some(progress(s)) {
                Next::Moment
            } else if s.has_nothing_to_send() {
                Next::End
            } else if s.is_listening() {
                s.is_peer_done = true;
                Next::Told
            } else {
                Next::Nothing
            }
        });
        match next {
            Next::Moment => Self::begin_moment(slf, exchange),
            Next::Told => exchange.get().wake_receivers(py),
            Next::End => {
                exchange.get().disconnect(py)?;
                Self::response_ended(slf, exchange)
            }
            Next::Nothing => Ok(()),
        }
    }
}
