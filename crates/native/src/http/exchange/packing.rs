//! Compresses the body of a response, whatever has made it, if that is allowed and pays.
//!
//! That depends on its type and length, and on whether it is encoded already, is a part of something, or has
//! `no-transform`. Its `etag` becomes weak, because its bytes are others, and `vary` tells caches why. Works on heads in
//! their written form, with names in lower case.

use super::compression::{Packing, Rules};
use super::contract::{Exchange, State};
use super::response_fields::leave_out;
use super::response_state::{Framing, Response, check_length};
use crate::ffi::Object;
use oneloop_http1::Header;
use oneloop_http1::representation::Preferences;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl State {
    /// The application's framing: what it still has to send.
    pub fn plain_framing(&self) -> Framing {
        match &self.packing {
            Packing::Packed { left, .. } => left.map_or(Framing::Unknown, Framing::Length),
            Packing::Plain | Packing::Undecided(_) => self.framing,
        }
    }

    /// Decides whether the response is compressed. `len_bytes`: of the body, if its first part is all of it.
    fn decide(&mut self, rules: &Rules, len_bytes: Option<u64>) -> Option<usize> {
        let Packing::Undecided(chosen) = self.packing else { return None };
        self.packing = Packing::Plain;
        if self.response != Response::Started || matches!(self.status, 204 | 206 | 304) {
            return None;
        }
        let found = Found::of(&self.head);
        let announced = match self.framing {
            Framing::Length(len) => Some(len),
            _ => found.length,
        };
        let len_bytes = announced.or(len_bytes);
        if self.framing == Framing::NoBody && len_bytes.is_none() {
            // The response to HEAD: nobody knows how long that to GET is.
            return None;
        }
        if found.is_final || !rules.is_for(found.kind, len_bytes) {
            return None;
        }
        if !found.varies {
            self.head.extend_from_slice(b"vary: accept-encoding\r\n");
        }
        chosen
    }

    /// Changes the head to that of the compressed response.
    fn pack_head(&mut self, coding: &str) {
        leave_out(&mut self.head, b"content-length:");
        leave_out(&mut self.head, b"accept-ranges:");
        let tag = b"etag: \"";
        let begins_line = |place: &usize| *place == 0 || self.head[place - 1] == b'\n';
        let found = memchr::memmem::find_iter(&self.head, tag).find(begins_line);
        if let Some(place) = found {
            // A strong tag stands for other bytes: RFC 9110 section 8.8.1.
            let quote = place + tag.len() - 1;
            self.head.splice(quote..quote, *b"W/");
        }
        self.head.extend_from_slice(b"content-encoding: ");
        self.head.extend_from_slice(coding.as_bytes());
        self.head.extend_from_slice(b"\r\n");
        if self.framing != Framing::NoBody {
            self.framing = Framing::Unknown;
        }
    }
}

/// What is significant in a head.
#[derive(Default)]
struct Found<'a> {
    kind: &'a [u8],
    /// It is encoded already, is a part of something, or must not be changed.
    is_final: bool,
    varies: bool,
    length: Option<u64>,
}

impl<'a> Found<'a> {
    fn of(head: &'a [u8]) -> Self {
        let mut found = Self::default();
        for line in head.split(|byte| *byte == b'\n') {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let value = line[colon + 1..].trim_ascii();
            match &line[..colon] {
                b"content-type" => found.kind = value,
                b"content-encoding" | b"content-range" => found.is_final = true,
                b"cache-control" => found.is_final |= has_token(value, b"no-transform"),
                b"vary" => {
                    found.varies |= has_token(value, b"accept-encoding") || has_token(value, b"*");
                }
                b"content-length" => {
                    found.length =
                        std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                }
                _ => {}
            }
        }
        found
    }
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

impl Exchange {
    /// Notes which codings the client accepts.
    pub fn note_codings(&self, py: Python<'_>, headers: &[Header<'_>]) {
        if let Some(compression) = &self.service.get().options.compression {
            let chosen = compression.rules.choose(&Preferences::of(headers));
            self.state.with(py, |s| s.packing = Packing::Undecided(chosen));
        }
    }

    /// The body is compressed, as its head says already.
    pub fn pack(&self, py: Python<'_>, coding: usize) -> PyResult<()> {
        if let Some(compression) = &self.service.get().options.compression {
            let encoder = Object::from(compression.makers[coding].call0(py)?);
            self.state.with(py, |s| {
                s.framing = Framing::Unknown;
                s.packing = Packing::Packed { encoder, left: None };
            });
        }
        Ok(())
    }

    /// The head is sent before the body.
    pub fn decide_early(&self, py: Python<'_>) -> PyResult<()> {
        self.decide(py, None)
    }

    fn decide(&self, py: Python<'_>, whole_bytes: Option<u64>) -> PyResult<()> {
        let Some(compression) = &self.service.get().options.compression else { return Ok(()) };
        let rules = &compression.rules;
        let chosen = self.state.with(py, |s| s.decide(rules, whole_bytes));
        let Some(coding) = chosen else { return Ok(()) };
        let encoder = Object::from(compression.makers[coding].call0(py)?);
        self.state.with(py, |s| {
            let left = match s.framing {
                Framing::Length(left) => Some(left),
                _ => None,
            };
            s.pack_head(&rules.codings[coding]);
            if s.framing != Framing::NoBody {
                s.packing = Packing::Packed { encoder, left };
            }
        });
        Ok(())
    }

    /// A part of the body as it is sent. From any thread, in the order of the parts.
    #[inline]
    pub fn packed<'py>(
        &self,
        body: &Bound<'py, PyBytes>,
        more: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if self.service.get().options.compression.is_none() {
            return Ok(body.clone());
        }
        self.pack_part(body, more)
    }

    fn pack_part<'py>(
        &self,
        body: &Bound<'py, PyBytes>,
        more: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let py = body.py();
        let len = body.as_bytes().len();
        self.decide(py, (!more).then_some(len as u64))?;
        let encoder = self.state.with(py, |s| match &mut s.packing {
            Packing::Packed { encoder, left } => {
                if let Some(left) = left {
                    check_length(*left, len, !more)?;
                    *left -= len as u64;
                }
                PyResult::Ok(Some(encoder.clone_ref(py)))
            }
            Packing::Plain | Packing::Undecided(_) => Ok(None),
        })?;
        let Some(encoder) = encoder else { return Ok(body.clone()) };
        if more && len == 0 {
            return Ok(body.clone());
        }
        let packed = encoder.bind(py).call1((body, more))?.cast_into::<PyBytes>()?;
        let packed_bytes = packed.as_bytes().len() as u64;
        let is_counted = !more && self.state.with(py, |s| !s.has_trailers);
        if is_counted {
            // Does nothing if the head was sent already.
            self.set_length(py, packed_bytes);
        }
        Ok(packed)
    }
}
