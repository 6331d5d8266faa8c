//! The response of an exchange: its head, the parts of its body, its end.
//!
//! The head waits for the first part of the body and is sent together with it; without one it is sent when the
//! callback ends. A body whose length differs from the head's Content-Length is never sent as if it were complete.

use super::contract::{Exchange, State};
use super::response_fields::{Found, leave_out, write_without};
use super::response_state::{Framed, Framing, Response, check_length};
use super::waiting::wake;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A written head, and what is significant in it.
pub struct Head {
    pub bytes: Vec<u8>,
    pub found: Found,
    pub framing: Framing,
}

impl State {
    /// Checks a part of the body against the Content-Length, and counts it.
    pub fn count_part(&mut self, len: usize, more: bool) -> PyResult<()> {
        if let Framing::Length(left) = &mut self.framing {
            check_length(*left, len, !more)?;
            *left -= len as u64;
        }
        Ok(())
    }

    /// The connection's end is that of the body, which has begun.
    pub fn ends_by_close(&self) -> bool {
        self.framing == Framing::UntilClose
    }

    /// All of it is written, and its carrier records it.
    pub fn is_unrecorded(&self) -> bool {
        self.response == Response::Complete && !self.is_recorded
    }

    fn is_length_unknown(&self) -> bool {
        self.response == Response::Started && self.framing == Framing::Unknown
    }

    fn set_length(&mut self, len_bytes: u64) {
        if self.is_length_unknown() {
            self.head.extend_from_slice(b"content-length: ");
            self.head.extend_from_slice(len_bytes.to_string().as_bytes());
            self.head.extend_from_slice(b"\r\n");
            self.framing = Framing::Length(len_bytes);
        }
    }
}

impl Exchange {
    /// Writes a head: its start and all fields from the application and the server's options. From any thread.
    pub fn write_head(
        &self,
        py: Python<'_>,
        status: u16,
        reason: Option<&[u8]>,
        write_fields: impl FnOnce(&mut Vec<u8>, &mut Found) -> PyResult<()>,
    ) -> PyResult<Head> {
        let service = self.service.get();
        let options = &service.options;
        let mut head = service.spare(py);
        self.carrier.calls.begin_head(&mut head, status, reason);
        let start_len = head.len();
        service.write_defaults(py, &mut head);
        let defaults = start_len..head.len();
        let mut found = Found::default();
        write_fields(&mut head, &mut found)?;
        if (found.has_date && options.date_header) || (found.has_server && options.has_server_field)
        {
            // The application's fields replace ours.
            let own = head.split_off(defaults.end);
            head.truncate(defaults.start);
            if options.date_header && !found.has_date {
                service.write_date(py, &mut head);
            }
            write_without(&mut head, &options.fields, found.has_server);
            head.extend_from_slice(&own);
        }
        if status == 204 && found.length.is_some() {
            // RFC 9110 section 8.6: it has none.
            leave_out(&mut head, b"content-length:");
        }
        let framing = if self.is_head || status == 204 || status == 304 {
            Framing::NoBody
        } else {
            found.length.map_or(Framing::Unknown, Framing::Length)
        };
        Ok(Head { bytes: head, found, framing })
    }

    pub fn is_response_complete(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.response == Response::Complete)
    }

    /// Whether the head was not sent yet and has no length.
    pub fn is_length_unknown(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_length_unknown())
    }

    /// Sets the length of the body, unless the head has one or was sent.
    pub fn set_length(&self, py: Python<'_>, len_bytes: u64) {
        self.state.with(py, |s| s.set_length(len_bytes));
    }

    /// The rest of the body is a file of this length. Returns how much of it is sent: what the Content-Length says, which
    /// is set if there is none. A file may have grown since the application has asked for its length. RuntimeError if
    /// it is too short.
    pub fn fit_file(&self, py: Python<'_>, len_bytes: u64) -> PyResult<u64> {
        self.state.with(py, |s| {
            if let Framing::Length(left) = s.plain_framing() {
                let fitting = len_bytes.min(left);
                check_length(left, usize::try_from(fitting)?, true)?;
                return Ok(fitting);
            }
            if !s.has_trailers {
                s.set_length(len_bytes);
            }
            Ok(len_bytes)
        })
    }

    /// Starts the response.
    pub fn start(
        slf: &Bound<'_, Self>,
        status: u16,
        has_trailers: bool,
        write_fields: impl FnOnce(&mut Vec<u8>, &mut Found) -> PyResult<()>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Head { bytes: mut head, found, framing } =
            this.write_head(py, status, None, write_fields)?;
        this.state.with(py, |s| {
            s.status = status;
            // The response to a request for a tunnel has no trailers.
            s.has_trailers = has_trailers && this.tunnel.is_none();
            s.framing = framing;
            // A client that got no `100 Continue` may or may not send its body.
            let may_get_body = s.expects_continue && !s.body.is_complete;
            s.keeps_alive &= !found.closes && !may_get_body;
            if found.has_connection && (s.keeps_alive || found.closes) {
                s.says_connection = true;
                s.says_close = found.closes;
            } else if found.has_connection {
                // The application's field would be wrong.
                leave_out(&mut head, b"connection:");
            }
            s.head = head;
            s.response = Response::Started;
        });
        // If the application waits between head and body, the client still gets the head.
        let owner = this.service.get().owner.get();
        owner.flush_after_callback(py, Object::new(slf.clone().into_any()), flush_head);
        Ok(())
    }

    /// Sends a whole response by the server, after which the connection ends.
    pub fn respond(slf: &Bound<'_, Self>, status: u16, text: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| {
            s.status = status;
            s.response = Response::Complete;
            s.keeps_alive = false;
            s.sent_bytes = if this.is_head { 0 } else { text.len() as u64 };
        });
        this.carrier.calls.send_text(slf, status, text)?;
        this.record(py, true)?;
        this.carrier.calls.end(slf)
    }

    /// Writes a part of the body; it is the last one if `more` is false.
    pub fn write_body(
        slf: &Bound<'_, Self>,
        body: &Bound<'_, PyBytes>,
        more: bool,
    ) -> PyResult<()> {
        let body = slf.get().packed(body, more)?;
        let framed = slf.get().frame(slf.py(), body.as_bytes(), more)?;
        Self::put(slf, framed, &body)
    }

    /// Frames a part of the body that `packed` has returned: `Carrier::frame`. From any thread.
    #[inline]
    pub fn frame(&self, py: Python<'_>, data: &[u8], more: bool) -> PyResult<Framed> {
        self.carrier.calls.frame(py, self, data, more)
    }

    /// Sends a framed part; `body` is its data.
    pub fn put(slf: &Bound<'_, Self>, framed: Framed, body: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let has_bytes = !framed.out.is_empty() || framed.tail.is_some();
        let sent = this.carrier.calls.send_body(slf, &framed, body);
        this.service.get().keep_spare(py, framed.out);
        sent?;
        // The connection's end, which this may have found, is told in the next tick; the application may go on until
        // then, and end the response.
        let is_lost = has_bytes && this.carrier.calls.is_ending(slf)?;
        let sent_bytes = if is_lost { 0 } else { framed.body_bytes };
        if is_lost {
            this.state.with(py, |s| s.is_cut = true);
        }
        if framed.ends {
            return Self::complete(slf, sent_bytes);
        }
        this.state.with(py, |s| s.sent_bytes += sent_bytes);
        if framed.body_bytes == 0 { Self::note_unsent(slf) } else { Ok(()) }
    }

    /// A part without data was sent. A HEAD request's response may be endless, and no write of it fails.
    #[inline]
    fn note_unsent(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let has_nothing = this.state.with(slf.py(), |s| s.has_nothing_to_send());
        if has_nothing { this.carrier.calls.watch_for_end(slf) } else { Ok(()) }
    }

    /// Sends trailers in their written form.
    pub fn send_trailers(slf: &Bound<'_, Self>, fields: Vec<u8>, more: bool) -> PyResult<()> {
        slf.get().carrier.calls.send_trailers(slf, fields, !more)?;
        if more { Ok(()) } else { Self::complete(slf, 0) }
    }

    /// Ends within the response.
    pub fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().carrier.calls.abort(slf)
    }

    /// The whole response is written; the last part of its body had this length.
    fn complete(slf: &Bound<'_, Self>, last_bytes: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (waiters, is_cut) = this.state.with(py, |s| {
            s.response = Response::Complete;
            s.sent_bytes += last_bytes;
            s.body.clear();
            (std::mem::take(&mut s.receive_waiters), s.is_cut)
        });
        let woken = if waiters.is_empty() { Ok(()) } else { wake(py, waiters) };
        let is_later = this.carrier.calls.records_later(slf);
        let recorded = if is_later { Ok(()) } else { this.record(py, !is_cut) };
        this.carrier.calls.end(slf).and(woken).and(recorded)
    }
}

/// At the end of the callback: sends a head that was not sent with a body.
fn flush_head(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<Exchange>()?;
    let is_due = slf.get().state.with(slf.py(), |s| {
        s.response == Response::Started && !s.is_disconnected && !s.is_sending_file
    });
    if !is_due {
        return Ok(());
    }
    slf.get().decide_early(slf.py())?;
    slf.get().carrier.calls.send_head(slf)
}
