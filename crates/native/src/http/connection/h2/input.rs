//! What was received, and to whom it goes.
//!
//! Applications are started after all that one receive has brought: then the first part of a body is there when they
//! ask for it, and a request that its client has cancelled at once is not begun (CVE-2023-44487).

use super::connection::{Http2Connection, Http2Stream, Life};
use super::requests::NewRequest;
use crate::http::connection::options::NEVER_NS;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log;
use oneloop_http2::{Code, Event, HeadKind};
use pyo3::prelude::*;

/// Collects requests to start, and the first error.
struct Round<'py> {
    begun: Vec<NewRequest<'py>>,
    result: PyResult<()>,
}

impl Round<'_> {
    fn note(&mut self, result: PyResult<()>) {
        if self.result.is_ok() {
            self.result = result;
        }
    }
}

impl Http2Connection {
    pub fn feed(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.state.with(py, |s| s.life == Life::Lingering) {
            return this.drop_input(py, data.len());
        }
        let mut events = Vec::new();
        let received = this.state.with(py, |s| {
            let Some(session) = &mut s.session else { return Ok(()) };
            s.is_feeding = true;
            s.is_resting = false;
            let received = session.receive(data);
            session.take_events(&mut events);
            received
        });
        let mut round = Round { begun: Vec::new(), result: Ok(()) };
        Self::take_events(slf, events, data, &mut round);
        for begun in std::mem::take(&mut round.begun) {
            round.note(Self::start_application(slf, begun));
        }
        let is_failed = received.is_err();
        if let Err(failure) = received {
            round.note(Self::report(slf, &failure.to_string()));
        }
        this.state.with(py, |s| s.is_feeding = false);
        this.look_at_head(py);
        round.note(Self::send_queued(slf));
        if is_failed {
            round.note(Self::linger(slf));
        }
        round.result
    }

    /// Events that sending has caused: the ends of streams.
    pub fn take_own_events(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut events = Vec::new();
        slf.get().state.with(py, |s| {
            if let Some(session) = &mut s.session {
                session.take_events(&mut events);
            }
        });
        let mut round = Round { begun: Vec::new(), result: Ok(()) };
        Self::take_events(slf, events, b"", &mut round);
        round.result
    }

    fn take_events<'py>(
        slf: &Bound<'py, Self>,
        events: Vec<Event>,
        data: &[u8],
        round: &mut Round<'py>,
    ) {
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            if matches!(event, Event::Head { .. }) {
                // The next head has its own time.
                slf.get().state.with(slf.py(), |s| s.head_ns = NEVER_NS);
            }
            match event {
                Event::Head { stream, kind: HeadKind::Request, fields } => {
                    let ends =
                        matches!(events.peek(), Some(Event::End { stream: s }) if *s == stream);
                    match Self::open(slf, stream, &fields, ends) {
                        Ok(begun) => round.begun.extend(begun),
                        Err(error) => round.note(Err(error)),
                    }
                }
                Event::Data { stream, start, len } => {
                    round.note(Self::take_data(slf, stream, &data[start..start + len]));
                }
                Event::End { stream } => round.note(Self::end_request(slf, stream)),
                Event::Closed { stream, code } => {
                    // What was not started will not be.
                    let service = slf.get().service.get();
                    round.begun.retain(|begun| {
                        let is_over = begun.id == stream;
                        if is_over {
                            service.end_request(slf.py());
                        }
                        !is_over
                    });
                    round.note(Self::stream_closed(slf, stream, code));
                }
                Event::Settings => {
                    let was_greeted = slf
                        .get()
                        .state
                        .with(slf.py(), |s| std::mem::replace(&mut s.is_greeted, true));
                    // The first stream has the time that the connection has had from its start.
                    if was_greeted {
                        slf.get().wait_for_stream(slf.py());
                    }
                }
                Event::GoAway { .. } => slf.get().state.with(slf.py(), |s| {
                    if s.life == Life::Open {
                        s.life = Life::Leaving;
                    }
                }),
                // Trailers of a request: no application interface has a place for them.
                Event::Head { .. } => {}
            }
        }
    }

    fn take_data(slf: &Bound<'_, Self>, id: i32, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let known = this.state.with(py, |s| {
            if let Some(session) = &mut s.session
                && let Err(failure) = session.consume_connection(data.len())
            {
                // The next receive fails for the same reason.
                debug_assert!(failure.is_shortage(), "{failure}");
            }
            s.streams.get(&id).map(|open| (open.exchange.clone_ref(py), open.stream.clone_ref(py)))
        });
        let Some((exchange, stream)) = known else { return Ok(()) };
        Http2Stream::take_data(stream.bind(py), exchange.bind(py), data)
    }

    fn end_request(slf: &Bound<'_, Self>, id: i32) -> PyResult<()> {
        let py = slf.py();
        let known = slf.get().state.with(py, |s| {
            let open = s.streams.get(&id)?;
            Some((open.exchange.clone_ref(py), open.stream.clone_ref(py)))
        });
        let Some((exchange, stream)) = known else { return Ok(()) };
        Http2Stream::end_input(stream.bind(py), exchange.bind(py))
    }

    /// The client sends nothing more: bodies that are not complete never will be, and it has most likely left. A response
    /// is still sent, but who listens is told.
    pub fn end_input(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let leave = |open: &super::connection::OpenStream| {
            let is_open = open.stream.get().state.with(py, |s| !s.has_input_ended);
            if is_open {
                Http2Stream::give_up(open.stream.bind(py), open.exchange.bind(py))
            } else {
                open.exchange.get().tell_end(py)
            }
        };
        slf.get().streams(py).iter().map(leave).fold(Ok(()), PyResult::and)
    }

    fn stream_closed(slf: &Bound<'_, Self>, id: i32, code: Code) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let open = this.state.with(py, |s| {
            if let Some(session) = &mut s.session {
                // It was the stream's, not the connection's.
                session.take_reason();
            }
            s.streams.remove(&id)
        });
        let Some(open) = open else { return Ok(()) };
        if this.state.with(py, |s| s.streams.is_empty()) {
            this.wait_for_stream(py);
        }
        let exchange = open.exchange.bind(py);
        let lost = Http2Stream::lose(open.stream.bind(py));
        // A response without a body ends before its application has said so.
        let is_over = exchange.get().state.with(py, |s| s.has_nothing_to_send());
        if code == Code::NO_ERROR && is_over {
            return lost.and(exchange.get().tell_end(py));
        }
        lost.and(exchange.get().disconnect(py))
    }

    /// Logs why a connection ends.
    pub fn report(slf: &Bound<'_, Self>, otherwise: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let reason = this.state.with(py, |s| {
            s.life = Life::Leaving;
            s.is_broken = true;
            s.session.as_mut().and_then(oneloop_http2::Session::take_reason)
        });
        let text = reason.unwrap_or_else(|| otherwise.to_owned());
        let client = error_log::client_name(&Self::ends(slf)?.0);
        error_log::tell(py, "warning", &format!("HTTP/2 connection of {client} ended: {text}"))
    }

    /// Starts the program's application, or sends the response that was found for it.
    fn start_application<'py>(slf: &Bound<'py, Self>, begun: NewRequest<'py>) -> PyResult<()> {
        use crate::http::exchange::contract::Found;
        let application = &slf.get().open.get().application;
        let NewRequest { exchange, found, view, refusal, .. } = begun;
        if let Some(refusal) = refusal {
            slf.get().service.get().end_request(slf.py());
            return Exchange::respond(&exchange, refusal.status, refusal.reason);
        }
        match (found, view) {
            (Found::Reply(reply), _) => application.calls.send_reply(&exchange, reply),
            (Found::Later(look), view) => look(&exchange, view),
            (Found::Nothing, Some(view)) => application.calls.start(&exchange, &view),
            (Found::Nothing, None) => Ok(()),
        }
    }
}
