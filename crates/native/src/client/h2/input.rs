//! What was received, and which exchange it is for.

use super::head::response_head;
use crate::client::connection::ClientConnection;
use crate::client::exchange::ClientExchange;
use crate::client::failure::{self, Kind};
use crate::client::reading::MOST_INFORMATIONAL;
use crate::client::response_head::{HAS_CODING, HAS_COOKIES, ResponseHead};
use crate::ffi::Object;
use crate::ffi::fallible;
use oneloop_http2::{Event, FieldList, HeadKind};
use pyo3::prelude::*;

impl ClientConnection {
    /// Takes what was received. What it queues is sent at the end.
    pub fn feed_frames(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.owner().now_ns(py);
        let mut events = Vec::new();
        let mut was_doubted = false;
        let received = this.state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return Ok(()) };
            h2.is_feeding = true;
            h2.received_ns = now_ns;
            h2.is_unheard = false;
            was_doubted = std::mem::take(&mut h2.is_doubted);
            let received = h2.session.receive(data);
            h2.session.take_events(&mut events);
            received
        });
        let outcome = Self::take_events(slf, events, data);
        this.state.with(py, |s| {
            if let Some(h2) = &mut s.h2 {
                h2.is_feeding = false;
            }
        });
        let sent = Self::send_frames(slf);
        match received {
            Ok(()) if was_doubted => outcome.and(sent).and(Self::trust(slf)),
            Ok(()) => outcome.and(sent).and(Self::close_if_left(slf)),
            Err(failure) => outcome.and(sent).and(Self::break_off(slf, &failure.to_string())),
        }
    }

    pub fn take_events(slf: &Bound<'_, Self>, events: Vec<Event>, data: &[u8]) -> PyResult<()> {
        events
            .into_iter()
            .map(|event| Self::take_event(slf, event, data))
            .fold(Ok(()), PyResult::and)
    }

    fn take_event(slf: &Bound<'_, Self>, event: Event, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        match event {
            Event::Head { stream, kind, fields } => match this.exchange_on(py, stream) {
                Some(exchange) => Self::take_fields(slf, &exchange, kind, &fields),
                None => Ok(()),
            },
            Event::Data { stream, start, len } => {
                Self::take_data(slf, stream, &data[start..start + len])
            }
            Event::End { stream } => match this.exchange_on(py, stream) {
                Some(exchange) => Self::complete_stream(slf, &exchange),
                None => Ok(()),
            },
            Event::Closed { stream, code } => Self::stream_closed(slf, stream, code),
            Event::Settings => {
                this.state.with(py, |s| s.h2.as_mut().map(|h2| h2.is_greeted = true));
                let (home, origin) = this.home(py);
                home.greeted(origin, slf)
            }
            Event::GoAway { code, .. } => {
                this.state.with(py, |s| s.h2.as_mut().map(|h2| h2.goaway = Some(code)));
                this.leave_off(py);
                Ok(())
            }
        }
    }

    pub fn exchange_on<'py>(
        &self,
        py: Python<'py>,
        stream: i32,
    ) -> Option<Bound<'py, ClientExchange>> {
        self.state.with(py, |s| {
            let open = s.h2.as_ref()?.streams.get(&stream)?;
            Some(open.exchange.bind(py).clone())
        })
    }

    fn take_fields(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        kind: HeadKind,
        fields: &FieldList,
    ) -> PyResult<()> {
        let py = slf.py();
        exchange.get().state.with(py, |s| s.has_begun = true);
        if fields.is_cut {
            let text = "the server's answer is invalid: its head is too long";
            let error = failure::error(py, Kind::RemoteProtocolError, text);
            return Self::fail_stream(slf, exchange, error);
        }
        let digits = fields.get(b":status").and_then(|value| str::from_utf8(value).ok());
        let Some(status) = digits.and_then(|digits| digits.parse().ok()) else {
            // Trailers: httpx shows them to nobody either.
            return Self::wait_on_stream(slf, exchange.get());
        };
        if status < 100 {
            let text = "the server's answer is invalid: the status is below 100";
            let error = failure::error(py, Kind::RemoteProtocolError, text);
            return Self::fail_stream(slf, exchange, error);
        }
        if kind == HeadKind::Interim {
            return Self::take_interim(slf, exchange, status);
        }
        let mut has = 0;
        for (name, _) in fields.iter() {
            match name {
                b"set-cookie" => has |= HAS_COOKIES,
                b"content-encoding" => has |= HAS_CODING,
                _ => {}
            }
        }
        let head = Object::new(fallible::bytes(py, &response_head(status, fields))?);
        let now_ns = slf.get().owner().now_ns(py);
        let old = exchange.get().state.with(py, |s| {
            s.response_ns = now_ns;
            s.response.replace(ResponseHead { status, has, head })
        });
        drop(old);
        Self::wait_on_stream(slf, exchange.get())?;
        exchange.get().wake_waiters(py)
    }

    fn take_interim(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        status: u16,
    ) -> PyResult<()> {
        let py = slf.py();
        let stream = exchange.get().state.with(py, |s| s.stream);
        let count = slf.get().state.with(py, |s| {
            let open = s.h2.as_mut().and_then(|h2| h2.streams.get_mut(&stream));
            open.map_or(0, |open| {
                open.interim += 1;
                open.interim
            })
        });
        if count > MOST_INFORMATIONAL {
            return Self::break_off(slf, "the server sends informational answers without end");
        }
        if status == 100 {
            exchange.get().state.with(py, |s| s.is_welcome = true);
        }
        Self::wait_on_stream(slf, exchange.get())?;
        exchange.get().wake_waiters(py)
    }

    fn take_data(slf: &Bound<'_, Self>, stream: i32, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange_on(py, stream);
        // Whoever wants the whole body takes it at once. Of others the window stays closed until they take it.
        let is_taken = exchange
            .as_ref()
            .is_some_and(|exchange| exchange.get().state.with(py, |s| s.is_read_whole()));
        let consumed = this.state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return Ok(()) };
            h2.session.consume_connection(data.len())?;
            match h2.streams.get_mut(&stream) {
                Some(open) if !is_taken => {
                    open.held_bytes += data.len();
                    Ok(())
                }
                _ => h2.session.consume(stream, data.len()),
            }
        });
        consumed.map_err(|failure| super::begin::broken(py, &failure))?;
        let Some(exchange) = exchange else { return Ok(()) };
        if data.is_empty() {
            return Ok(());
        }
        exchange.get().add_piece(py, data, None)?;
        Self::wait_on_stream(slf, exchange.get())?;
        exchange.get().wake_waiters(py)
    }

    /// The program takes what has arrived: the server may send more.
    pub fn read_on_stream(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        let py = slf.py();
        let (stream, has_response) =
            exchange.get().state.with(py, |s| (s.stream, s.response.is_some()));
        let given = slf.get().state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return Ok((false, false)) };
            let Some(open) = h2.streams.get_mut(&stream) else { return Ok((false, false)) };
            let len = std::mem::take(&mut open.held_bytes);
            let is_due = open.deadline_ns == exchange.get().deadline_ns;
            if len > 0 {
                h2.session.consume(stream, len)?;
            }
            Ok((len > 0, is_due))
        });
        let (has_given, is_due) = given.map_err(|failure| super::begin::broken(py, &failure))?;
        if has_given {
            Self::send_soon(slf);
        }
        // The time runs while somebody waits.
        if has_response || is_due { Self::wait_on_stream(slf, exchange.get()) } else { Ok(()) }
    }
}
