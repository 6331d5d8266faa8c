//! Parses a connection's input: heads, bodies, pipelined requests.

use super::connection::{Awaited, HttpConnection, Input, UNWANTED_BODY_BYTES};
use crate::event_loop::LoopCore;
use crate::ffi::{Object, bytes};
use crate::http::connection::h2::connection::PREFACE;
use crate::http::connection::open_connections::{Came, OpenConnections};
use crate::http::exchange::contract::{Exchange, Found, Tunnel};
use crate::http::exchange::request_view::Ends;
use crate::transport::with_lent;
use oneloop_engine::sys::socket;
use oneloop_http1::limits::MOST_HEADERS;
use oneloop_http1::request::may_say_more;
use oneloop_http1::{BodyReader, Framing, Piece, Refusal, Request, parse_request};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// When this much of pipelined requests is buffered, reading is paused.
const PIPELINED_HIGH_BYTES: usize = 64 * 1024;
/// A head up to this length is parsed again whenever more of it arrives.
const SHORT_HEAD_BYTES: usize = 1024;

/// One receive, called by the transport when its socket is readable.
pub fn receive(
    owner: &Bound<'_, LoopCore>,
    protocol: &Bound<'_, PyAny>,
    fd: RawFd,
) -> PyResult<io::Result<usize>> {
    let slf = protocol.cast_exact::<HttpConnection>()?;
    with_lent(owner, |shared| match socket::recv(fd, shared) {
        Ok(len @ 1..) => {
            HttpConnection::feed_in_place(slf, bytes::written_mut(shared, len))?;
            Ok(Ok(len))
        }
        nothing => Ok(nothing),
    })
}

/// The result of parsing the start of the input.
pub enum Progress {
    Used(usize),
    /// It continues after more input, or after the end of the response.
    Stopped,
    /// An exception was raised after this many bytes were used, which must not be parsed again.
    Failed(usize, PyErr),
}

/// The consumer of the input.
enum Kind {
    Proxy,
    Head,
    Body,
    Frames,
    Nobody,
    /// The peer has to read first.
    Held,
}

/// A request that is about to be served.
struct Opened<'py> {
    /// The length of the head.
    len: usize,
    /// `None`: its response is already sent.
    exchange: Option<Bound<'py, Exchange>>,
    /// The application's view of it. `None`: only the access log of a file's response needs it, and there is none.
    view: Option<Bound<'py, PyDict>>,
    found: Found,
}

impl Opened<'_> {
    /// A request whose response is already sent.
    fn sent(len: usize) -> Self {
        Self { len, exchange: None, view: None, found: Found::Nothing }
    }
}

impl HttpConnection {
    /// Like `feed`, with mutable data: WebSocket frames are unmasked in place.
    fn feed_in_place(slf: &Bound<'_, Self>, data: &mut [u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let is_direct = this
            .state
            .with(py, |s| matches!(s.input, Input::Tunnel) && !s.is_feeding && s.buffer.is_empty());
        if !is_direct {
            return Self::feed(slf, data);
        }
        let used = Self::take_frames(slf, data)?;
        if used < data.len() {
            this.state.with(py, |s| s.buffer.extend_from_slice(&data[used..]));
        }
        Ok(())
    }

    /// Returns how many bytes were used: fewer if the application's queue is full.
    fn take_frames(slf: &Bound<'_, Self>, data: &mut [u8]) -> PyResult<usize> {
        let Some(exchange) = slf.get().exchange(slf.py()) else { return Ok(data.len()) };
        match &exchange.get().tunnel {
            Some(tunnel) => tunnel.take(&exchange, data),
            None => Ok(data.len()),
        }
    }

    /// Processes buffered input in the next tick.
    pub fn feed_soon(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let is_due = this.state.with(py, |s| {
            let is_due = !s.is_feeding && !s.buffer.is_empty() && !s.will_go_on;
            s.will_go_on |= is_due;
            is_due
        });
        if is_due {
            let owner = this.service.get().owner.get();
            owner.run_soon(py, slf.clone().into_any().unbind(), Self::go_on);
        }
        this.resume_reading(py)
    }

    pub fn feed(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let held = this.state.with(py, |s| {
            if s.is_feeding {
                s.buffer.extend_from_slice(data);
                return None;
            }
            s.is_feeding = true;
            Some(std::mem::take(&mut s.buffer))
        });
        let Some(mut held) = held else { return Ok(()) };
        let (fed, left) = if held.is_empty() {
            let (fed, used) = Self::consume(slf, data);
            (fed, data[used..].to_vec())
        } else {
            held.extend_from_slice(data);
            let (fed, used) = Self::consume(slf, &held);
            held.drain(..used);
            // The memory of a burst is given back, in steps whose copies are short beside it.
            if held.capacity() > SHORT_HEAD_BYTES + 4 * held.len() {
                held.shrink_to_fit();
            }
            (fed, held)
        };
        let waits = this.state.with(py, |s| {
            s.is_feeding = false;
            // Data that arrived meanwhile comes after the rest.
            let behind = std::mem::replace(&mut s.buffer, left);
            s.buffer.extend_from_slice(&behind);
            (matches!(s.input, Input::Waiting) || s.is_held())
                && s.buffer.len() > PIPELINED_HIGH_BYTES
        });
        if waits {
            this.pause_reading(py)?;
            if let Some(exchange) = this.exchange(py) {
                Self::begin_moment(slf, &exchange)?;
            }
        }
        fed.and_then(|()| if this.has_eof(py) { Self::end_input(slf).map(drop) } else { Ok(()) })
    }

    fn has_eof(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.has_eof)
    }

    /// The peer sends nothing more: handles the current request. Returns false if the connection must be closed.
    pub fn end_input(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let (will_go_on, will_reset) = this.state.with(py, |s| (s.will_go_on, s.will_reset));
        if will_go_on {
            return Ok(true);
        }
        if will_reset {
            if this.state.with(py, |s| s.is_tls) {
                // A TLS connection would end with either side, in an orderly way.
                this.abort_transport(py)?;
            }
            return Ok(true);
        }
        let (is_waiting, is_body, has_more, is_tls) = this.state.with(py, |s| {
            let is_body = matches!(s.input, Input::Body(_));
            (matches!(s.input, Input::Waiting), is_body, !s.buffer.is_empty(), s.is_tls)
        });
        let exchange = this.exchange(py).filter(|exchange| exchange.get().tunnel.is_none());
        match exchange {
            Some(exchange) if is_waiting => {
                // A TLS connection ends with either side.
                let notified = if is_tls {
                    exchange.get().tell_end(py)
                } else {
                    Self::begin_moment(slf, &exchange)
                };
                notified.map(|()| true)
            }
            Some(exchange) if is_body => {
                // The body is incomplete and must not be taken for a complete one; nor must its response.
                Self::break_off(slf, &exchange)?;
                Ok(this.state.with(py, |s| s.will_reset))
            }
            // Held requests are answered first.
            _ if has_more && this.state.with(py, |s| s.is_held()) => Ok(true),
            _ => {
                this.close(py)?;
                Ok(false)
            }
        }
    }

    /// A response is complete, or there is room for messages: processes buffered input.
    pub fn go_on(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let slf = object.cast_exact::<Self>()?;
        slf.get().state.with(slf.py(), |s| s.will_go_on = false);
        Self::feed(slf, b"")
    }

    /// Processes as much as possible. Returns the number of bytes used.
    fn consume(slf: &Bound<'_, Self>, data: &[u8]) -> (PyResult<()>, usize) {
        let mut at = 0;
        while at < data.len() {
            match Self::step(slf, &data[at..]) {
                Ok(Progress::Used(len)) => at += len,
                Ok(Progress::Stopped) => break,
                Ok(Progress::Failed(len, error)) => return (Err(error), at + len),
                Err(error) => return (Err(error), at),
            }
        }
        (Ok(()), at)
    }

    fn step(slf: &Bound<'_, Self>, input: &[u8]) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        let kind = this.state.with(py, |s| match &s.input {
            Input::Proxy => Kind::Proxy,
            // Whatever answers it, a request waits until the peer has read the responses before it.
            Input::Head if s.is_writing_paused => Kind::Held,
            Input::Head => Kind::Head,
            Input::Lingering | Input::Closed => Kind::Nobody,
            Input::Body(_) | Input::Waiting => Kind::Body,
            Input::Tunnel => Kind::Frames,
        });
        match kind {
            Kind::Proxy => Self::take_proxy_header(slf, input),
            Kind::Head => Self::take_request(slf, input),
            Kind::Nobody => Ok(Progress::Used(input.len())),
            Kind::Held => Ok(Progress::Stopped),
            Kind::Body => Self::take_body(slf, input),
            Kind::Frames => {
                let used = Self::take_frames(slf, &mut input.to_vec())?;
                Ok(if used == 0 { Progress::Stopped } else { Progress::Used(used) })
            }
        }
    }

    fn take_request(slf: &Bound<'_, Self>, input: &[u8]) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        if this.is_fresh(py) && this.open.get().options.http.has_h2() {
            match Self::take_preface(slf, input)? {
                None => {}
                Some(progress) => return Ok(progress),
            }
        }
        if !this.may_have_head(py, input) {
            return Ok(Progress::Stopped);
        }
        let opened = match Self::open(slf, input)? {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                this.wait_for_head(py);
                return Ok(Progress::Stopped);
            }
            Err(refusal) => {
                Self::refuse(slf, refusal.status, refusal.reason, input)?;
                return Ok(Progress::Used(input.len()));
            }
        };
        let mut used = opened.len;
        let Some(exchange) = &opened.exchange else { return Ok(Progress::Used(used)) };
        // The part of the body received so far is available when the application reads it.
        while used < input.len() {
            let taken = Self::take_body(slf, &input[used..]);
            match taken.inspect_err(|_| this.service.get().end_request(py))? {
                Progress::Used(len) => used += len,
                Progress::Stopped => break,
                failed @ Progress::Failed(..) => return Ok(failed),
            }
        }
        let application = &this.open.get().application;
        let started = match (opened.found, opened.view) {
            (Found::Reply(reply), _) => application.calls.send_reply(exchange, reply),
            (Found::Later(look), view) => look(exchange, view),
            (Found::Nothing, Some(view)) => application.calls.start(exchange, &view),
            (Found::Nothing, None) => Ok(()),
        };
        Ok(match started {
            Ok(()) => Progress::Used(used),
            // KeyboardInterrupt, SystemExit: the loop may continue later.
            Err(error) => Progress::Failed(used, error),
        })
    }

    fn is_fresh(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_fresh)
    }

    /// HTTP/2 by prior knowledge: RFC 9113 section 3.3. `None` if the input is of HTTP/1.1.
    fn take_preface(slf: &Bound<'_, Self>, input: &[u8]) -> PyResult<Option<Progress>> {
        let py = slf.py();
        let this = slf.get();
        let len = input.len().min(PREFACE.len());
        if input[..len] != PREFACE[..len] {
            if this.open.get().options.http.has_h1() {
                return Ok(None);
            }
            let line = &input[..memchr::memchr(b'\n', input).unwrap_or(input.len())];
            if memchr::memmem::find(line, b" HTTP/1.").is_some() {
                Self::refuse(slf, 505, "This server speaks HTTP/2 only.", input)?;
            } else {
                this.close(py)?;
            }
            return Ok(Some(Progress::Used(input.len())));
        }
        if len < PREFACE.len() {
            this.wait_for_head(py);
            return Ok(Some(Progress::Stopped));
        }
        if let Some(under) = this.under(py) {
            Self::hand_over(slf, under.object(py), input)?;
        }
        Ok(Some(Progress::Used(input.len())))
    }

    /// False while the head cannot be complete: a long head that arrives byte by byte is not parsed again for each
    /// byte. Short ones are, so that an error is answered immediately.
    fn may_have_head(&self, py: Python<'_>, input: &[u8]) -> bool {
        self.state.with(py, |s| {
            let seen_bytes = std::mem::replace(&mut s.searched, input.len());
            input.len() <= SHORT_HEAD_BYTES
                || may_say_more(input, seen_bytes, &self.open.get().options.limits)
        })
    }

    /// Parses the head and makes the application's view of it. Separate function, so that the stack space for fields
    /// is released before the application runs.
    #[inline(never)]
    fn open<'py>(
        slf: &Bound<'py, Self>,
        input: &[u8],
    ) -> PyResult<Result<Option<Opened<'py>>, Refusal>> {
        let py = slf.py();
        let this = slf.get();
        let open = this.open.get();
        let limits = &open.options.limits;
        let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let request = match parse_request(input, &mut fields, limits) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(Ok(None)),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let len = request.len;
        let reader = match BodyReader::new(request.framing, limits) {
            Ok(reader) => reader,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(refusal) = open.turned_away(py, &request) {
            return Ok(Err(refusal));
        }
        let has_body = request.framing != Framing::None && !reader.is_complete();
        let application = &open.application;
        let tunnel = match application.calls.tunnel(application.object.bind(py), &request) {
            Ok(tunnel) => tunnel,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let found = match tunnel {
            None => application.calls.find(application.object.bind(py), &request)?,
            Some(_) => Found::Nothing,
        };
        let found = match found {
            Found::Reply(reply) if !has_body => {
                let Some(reply) = Self::reply_now(slf, &request, reply)? else {
                    return Ok(Ok(Some(Opened::sent(len))));
                };
                Found::Reply(reply)
            }
            found => found,
        };
        let exchange = Self::new_exchange(slf, &request, has_body, tunnel)?;
        let view = match found {
            // Only the access log needs it.
            Found::Reply(_) if this.service.get().options.on_response.is_none() => None,
            _ => Some(Self::view(slf, &exchange, &request)?),
        };
        let kept = Object::new(exchange.clone());
        let old = this.state.with(py, |s| {
            s.searched = 0;
            s.is_fresh = false;
            s.input = if has_body { Input::Body(reader) } else { Input::Waiting };
            s.exchange.replace(kept)
        });
        drop(old);
        this.service.get().begin_request(py);
        // A client that waits for 100 Continue sends nothing before.
        if has_body && !request.expects_continue {
            this.wait_for(py, Awaited::Body);
        } else {
            this.wait_for_nothing(py);
        }
        Ok(Ok(Some(Opened { len, exchange: Some(exchange), view, found })))
    }

    fn view<'py>(
        slf: &Bound<'py, Self>,
        exchange: &Bound<'py, Exchange>,
        request: &Request<'_, '_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (client, server) = Self::ends(slf)?;
        let tls = || Self::tls(slf);
        let is_tls = slf.get().state.with(slf.py(), |s| s.is_tls);
        let ends = Ends { client, server, tls: is_tls.then_some(&tls as _) };
        slf.get().open.get().application.calls.view(exchange, request, &ends)
    }

    fn new_exchange<'py>(
        slf: &Bound<'py, Self>,
        request: &Request<'_, '_>,
        has_body: bool,
        tunnel: Option<Box<dyn Tunnel>>,
    ) -> PyResult<Bound<'py, Exchange>> {
        let py = slf.py();
        let this = slf.get();
        let keeps_alive = request.keeps_alive && !this.state.with(py, |s| s.is_last);
        let came = Came { has_body, keeps_alive, tunnel };
        this.open.get().begin_exchange(py, Self::link(slf), request, came)
    }

    fn take_body(slf: &Bound<'_, Self>, input: &[u8]) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        let limits = &this.open.get().options.limits;
        let piece = this.state.with(py, |s| match &mut s.input {
            Input::Body(reader) => Some(reader.read(input, limits)),
            _ => None,
        });
        let (data, consumed, ends) = match piece {
            None | Some(Ok(Piece::Incomplete)) => return Ok(Progress::Stopped),
            Some(Ok(Piece::Data { data, consumed, ends })) => (data, consumed, ends),
            Some(Err(refusal)) => {
                Self::refuse(slf, refusal.status, refusal.reason, b"")?;
                return Ok(Progress::Used(input.len()));
            }
        };
        let exchange = this.exchange(py);
        if ends {
            this.wait_for_nothing(py);
            this.state.with(py, |s| s.input = Input::Waiting);
        } else {
            this.wait_for(py, Awaited::Body);
        }
        let Some(exchange) = exchange else {
            // Its response is already complete.
            if ends {
                this.await_request(py);
            }
            return Ok(Progress::Used(consumed));
        };
        Exchange::add_body(&exchange, data, ends)?;
        if !ends && exchange.get().state.with(py, |s| s.body.is_enough()) {
            this.wait_for_nothing(py);
            this.pause_reading(py)?;
        }
        Ok(Progress::Used(consumed))
    }

    /// Waits for the next request; first, if the transport is paused, for the peer to read the responses before it.
    pub fn await_request(&self, py: Python<'_>) {
        let is_held = self.state.with(py, |s| {
            s.input = Input::Head;
            s.is_held()
        });
        self.wait_for(py, if is_held { Awaited::Drain } else { Awaited::Request });
    }

    /// Continues with the next request.
    pub fn go_to_next_request(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.await_request(py);
        if this.state.with(py, |s| s.is_last) {
            Self::shut_down(slf)?;
            OpenConnections::sweep_after_idling(this.open.bind(py))?;
        }
        Self::feed_soon(slf)
    }

    /// The response is complete: closes the connection, or continues with the next request.
    pub fn response_ended(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (keeps_alive, expects_continue, ends_by_close) = exchange
            .get()
            .state
            .with(py, |s| (s.keeps_alive, s.expects_continue, s.ends_by_close()));
        let (is_current, left) = this.state.with(py, |s| {
            let is_current =
                s.exchange.as_ref().is_some_and(|current| current.bind(py).is(exchange));
            let left = match &s.input {
                Input::Body(reader) => reader.left().unwrap_or(u64::MAX),
                _ => 0,
            };
            (is_current, left)
        });
        if !is_current {
            return Ok(());
        }
        let old = this.state.with(py, |s| {
            s.ends_by_close = ends_by_close;
            s.exchange.take()
        });
        drop(old);
        let is_over = this.state.with(py, |s| {
            let is_closed = s.is_lost || matches!(s.input, Input::Closed | Input::Lingering);
            // If the head was sent before it was known that this request is the last one, the peer does not know it.
            let is_untold = s.is_last && left == 0 && !s.has_eof && !is_closed;
            is_closed || (s.is_ending() && !is_untold)
        });
        if !keeps_alive || is_over || (left > 0 && expects_continue) || left > UNWANTED_BODY_BYTES {
            return if left > 0 { this.linger(py) } else { this.close(py) };
        }
        if left > 0 {
            // The rest of the body is read and dropped.
            this.wait_for(py, Awaited::Body);
            return this.resume_reading(py);
        }
        Self::go_to_next_request(slf)
    }
}
