//! Parses a connection's input: heads, bodies, pipelined requests.

use super::answer::Framing as OutFraming;
use super::asgi;
use super::connection::{Awaited, HttpConnection, Input};
use super::exchange::{Answer, BODY_HIGH_BYTES, Body, Exchange, State};
use super::file_answer;
use super::options::Interface;
use super::server::HttpServer;
use super::static_files::{self, Taken};
use super::websocket::{self, WebSocket};
use super::{environ, scope, wsgi};
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, Object, bytes, recycled};
use crate::transport::with_lent;
use oneloop_engine::sys::socket;
use oneloop_http1::limits::MOST_HEADERS;
use oneloop_http1::request::may_say_more;
use oneloop_http1::{BodyReader, Framing, Piece, Refusal, Request, Target, Version, parse_request};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// When this much of pipelined requests is buffered, reading is paused.
const PIPELINED_HIGH_BYTES: usize = 64 * 1024;
/// Up to this much of an unwanted body is read and dropped to keep the connection.
pub const UNWANTED_BODY_BYTES: u64 = 256 * 1024;

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
    /// It continues after more input, or after the end of the answer.
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
}

/// A request that is about to be served.
struct Opened<'py> {
    /// The length of the head.
    len: usize,
    /// `None`: it is already answered.
    exchange: Option<Bound<'py, Exchange>>,
    /// `None`: only the access log of a file's answer could need it, and there is none.
    scope: Option<Bound<'py, PyDict>>,
    file: Taken,
}

impl HttpConnection {
    /// Like `feed`, with mutable data: WebSocket frames are unmasked in place.
    fn feed_in_place(slf: &Bound<'_, Self>, data: &mut [u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let is_direct = this.state.with(py, |s| {
            matches!(s.input, Input::WebSocket) && !s.is_feeding && s.buffer.is_empty()
        });
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
        match &exchange.get().websocket {
            Some(websocket) => websocket.take(&exchange, data),
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
            let owner = this.http.get().owner.get();
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
            (fed, held)
        };
        let waits = this.state.with(py, |s| {
            s.is_feeding = false;
            // Data that arrived meanwhile comes after the rest.
            let behind = std::mem::replace(&mut s.buffer, left);
            s.buffer.extend_from_slice(&behind);
            matches!(s.input, Input::Waiting) && s.buffer.len() > PIPELINED_HIGH_BYTES
        });
        if waits {
            this.pause_reading(py)?;
        }
        fed.and_then(|()| if this.has_eof(py) { this.end_input(py).map(drop) } else { Ok(()) })
    }

    fn has_eof(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.has_eof)
    }

    /// The peer sends nothing more: handles the current request. Returns false if the connection must be closed.
    pub fn end_input(&self, py: Python<'_>) -> PyResult<bool> {
        if self.state.with(py, |s| s.will_go_on) {
            return Ok(true);
        }
        let (is_waiting, is_body, has_more) = self.state.with(py, |s| {
            let is_body = matches!(s.input, Input::Body(_));
            (matches!(s.input, Input::Waiting), is_body, !s.buffer.is_empty())
        });
        let exchange = self.exchange(py).filter(|exchange| exchange.get().websocket.is_none());
        match exchange {
            Some(exchange) if is_waiting => {
                // Pipelined requests are answered first.
                if !has_more {
                    exchange.get().state.with(py, |s| s.is_peer_done = true);
                    exchange.get().wake_receivers(py)?;
                }
                Ok(true)
            }
            Some(exchange) if is_body => {
                // The body is incomplete and must not be taken for a complete one.
                exchange.get().disconnect(py)?;
                self.close(py)?;
                Ok(false)
            }
            _ => {
                self.close(py)?;
                Ok(false)
            }
        }
    }

    /// An answer is complete, or there is room for messages: processes buffered input.
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
            Input::Head => Kind::Head,
            Input::Lingering | Input::Closed => Kind::Nobody,
            Input::Body(_) | Input::Waiting => Kind::Body,
            Input::WebSocket => Kind::Frames,
        });
        match kind {
            Kind::Proxy => Self::take_proxy_header(slf, input),
            Kind::Head => Self::take_request(slf, input),
            Kind::Nobody => Ok(Progress::Used(input.len())),
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
        if !this.may_have_head(py, input) {
            return Ok(Progress::Stopped);
        }
        let opened = match Self::open(slf, input)? {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                if this.state.with(py, |s| s.awaited != Awaited::Head) {
                    this.wait_for(py, Awaited::Head);
                }
                return Ok(Progress::Stopped);
            }
            Err(refusal) => {
                Self::refuse(slf, refusal.status, refusal.reason)?;
                return Ok(Progress::Used(input.len()));
            }
        };
        let mut used = opened.len;
        let Some(exchange) = &opened.exchange else { return Ok(Progress::Used(used)) };
        // The part of the body received so far is available when the application reads it.
        while used < input.len() {
            match Self::take_body(slf, &input[used..])? {
                Progress::Used(len) => used += len,
                Progress::Stopped => break,
                failed @ Progress::Failed(..) => return Ok(failed),
            }
        }
        let started = match (opened.file, opened.scope) {
            (Taken::Reply(reply), scope) => file_answer::start_reply(exchange, reply, scope),
            (Taken::Later(lookup), scope) => file_answer::start_lookup(exchange, lookup, scope),
            (Taken::NotOurs | Taken::Answered, Some(scope)) => {
                Self::start_application(slf, exchange, &scope)
            }
            (Taken::NotOurs | Taken::Answered, None) => Ok(()),
        };
        Ok(match started {
            Ok(()) => Progress::Used(used),
            // KeyboardInterrupt, SystemExit: the loop may continue later.
            Err(error) => Progress::Failed(used, error),
        })
    }

    /// Starts the application.
    pub fn start_application(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, Exchange>,
        scope: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        match slf.get().http.get().options.interface {
            Interface::Asgi => asgi::start(slf, exchange, scope),
            Interface::Wsgi => wsgi::start(exchange, scope),
        }
    }

    /// False while the head cannot be complete: a long head that arrives byte by byte is not parsed again for each
    /// byte. Short ones are, so that an error is answered immediately.
    fn may_have_head(&self, py: Python<'_>, input: &[u8]) -> bool {
        self.state.with(py, |s| {
            let seen_bytes = std::mem::replace(&mut s.searched, input.len());
            input.len() <= SHORT_HEAD_BYTES
                || may_say_more(input, seen_bytes, &self.http.get().options.limits)
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
        let http = this.http.get();
        let limits = &http.options.limits;
        let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let request = match parse_request(input, &mut fields, limits) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(Ok(None)),
            Err(refusal) => return Ok(Err(refusal)),
        };
        let reader = match BodyReader::new(request.framing, limits) {
            Ok(reader) => reader,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(refusal) = this.turned_away(py, &request) {
            return Ok(Err(refusal));
        }
        let has_body = request.framing != Framing::None && !reader.is_complete();
        let websocket = match this.websocket_of(&request) {
            Ok(websocket) => websocket,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let file = match &http.options.static_files {
            Some(files) if websocket.is_none() => {
                static_files::take(slf, files, &request, has_body)?
            }
            _ => Taken::NotOurs,
        };
        if matches!(file, Taken::Answered) {
            let len = request.len;
            return Ok(Ok(Some(Opened { len, exchange: None, scope: None, file })));
        }
        let (websocket, protocols) = websocket.unzip();
        let exchange = Self::new_exchange(slf, &request, has_body, websocket.map(Box::new))?;
        let is_told = http.options.on_response.is_some();
        let scope = match (&http.wsgi, &file) {
            (_, Taken::Reply(_)) if !is_told => None,
            (None, _) => Some(scope::of_request(slf, &request)?),
            (Some(wsgi), _) => Some(environ::of_request(wsgi, &exchange, &request)?),
        };
        if let (Some(protocols), Some(scope)) = (protocols, &scope) {
            websocket::amend_scope(scope, &protocols)?;
        }
        let kept = Object::new(exchange.clone());
        let old = this.state.with(py, |s| {
            s.searched = 0;
            s.is_fresh = false;
            s.input = if has_body { Input::Body(reader) } else { Input::Waiting };
            s.exchange.replace(kept)
        });
        drop(old);
        // A client that waits for 100 Continue sends nothing before.
        if has_body && !request.expects_continue {
            this.wait_for(py, Awaited::Body);
        } else {
            this.wait_for_nothing(py);
        }
        Ok(Ok(Some(Opened { len: request.len, exchange: Some(exchange), scope, file })))
    }

    /// Why a valid request is not served.
    fn turned_away(&self, py: Python<'_>, request: &Request<'_, '_>) -> Option<Refusal> {
        if matches!(request.target, Target::Authority { .. }) {
            // RFC 9110 section 9.3.6: for proxies.
            return Some(Refusal::new(
                501,
                "This server is not a proxy and does not support CONNECT.",
            ));
        }
        let is_full = self.http.get().is_full(py);
        is_full.then_some(Refusal::new(
            503,
            "The server has reached its limit of concurrent requests.",
        ))
    }

    /// The WebSocket that the request opens, if any.
    fn websocket_of<'a>(
        &self,
        request: &Request<'a, '_>,
    ) -> Result<Option<(WebSocket, Vec<&'a str>)>, Refusal> {
        let options = &self.http.get().options;
        let asks = request.upgrade.is_some_and(oneloop_websocket::handshake::asks_for);
        if !asks || options.interface != Interface::Asgi {
            return Ok(None);
        }
        let is_http11 = request.version == Version::Http11;
        let fields = request.headers;
        WebSocket::of_request(request.method, is_http11, fields, options.ws_deflate)
            .map_err(|refusal| Refusal::new(refusal.status, refusal.reason))
    }

    fn new_exchange<'py>(
        slf: &Bound<'py, Self>,
        request: &Request<'_, '_>,
        has_body: bool,
        websocket: Option<Box<WebSocket>>,
    ) -> PyResult<Bound<'py, Exchange>> {
        let py = slf.py();
        let this = slf.get();
        let http = this.http.get();
        let is_last = this.state.with(py, |s| s.is_last);
        let began_ns =
            if http.options.on_response.is_some() { http.owner.get().now_ns(py) } else { 0 };
        let target = http.options.on_response.as_ref().map(|_| {
            let separator: &[u8] = if request.query.is_empty() { b"" } else { b"?" };
            PyBytes::new(py, &[request.path, separator, request.query].concat()).unbind()
        });
        http.serving.with(py, |serving| serving.requests += 1);
        let state = State {
            body: Body { is_complete: !has_body, ..Body::default() },
            is_disconnected: false,
            is_peer_done: false,
            expects_continue: request.expects_continue,
            receive_waiters: Vec::new(),
            answer: Answer::Awaited,
            status: 0,
            head: Vec::new(),
            framing: OutFraming::Unknown,
            has_trailers: false,
            is_sending_file: false,
            says_connection: false,
            keeps_alive: request.keeps_alive && !is_last,
            sent_bytes: 0,
            began_ns,
            task: None,
            unbegun: None,
            target,
            scope: None,
        };
        let exchange = Exchange {
            connection: Object::new(slf.clone()),
            is_head: request.method == "HEAD",
            is_http10: request.version == Version::Http10,
            websocket,
            state: LoopCell::new(state),
        };
        recycled::make(py, exchange)
    }

    fn take_body(slf: &Bound<'_, Self>, input: &[u8]) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        let http = this.http.get();
        let limits = &http.options.limits;
        let piece = this.state.with(py, |s| match &mut s.input {
            Input::Body(reader) => Some(reader.read(input, limits)),
            _ => None,
        });
        let (data, consumed, ends) = match piece {
            None | Some(Ok(Piece::Incomplete)) => return Ok(Progress::Stopped),
            Some(Ok(Piece::Data { data, consumed, ends })) => (data, consumed, ends),
            Some(Err(refusal)) => {
                Self::refuse(slf, refusal.status, refusal.reason)?;
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
            // Its answer is already complete.
            if ends {
                this.await_request(py);
            }
            return Ok(Progress::Used(consumed));
        };
        exchange.get().add_body(py, data, ends)?;
        if http.wsgi.is_some() {
            wsgi::body_came(&exchange)?;
        }
        if !ends && exchange.get().state.with(py, |s| s.body.len_bytes > BODY_HIGH_BYTES) {
            this.wait_for_nothing(py);
            this.pause_reading(py)?;
        }
        Ok(Progress::Used(consumed))
    }

    /// Waits for the next request.
    fn await_request(&self, py: Python<'_>) {
        self.state.with(py, |s| s.input = Input::Head);
        self.wait_for(py, Awaited::Request);
    }

    /// The answer is complete: closes the connection, or continues with the next request.
    pub fn answered(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (keeps_alive, expects_continue) =
            exchange.get().state.with(py, |s| (s.keeps_alive, s.expects_continue));
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
        let old = this.state.with(py, |s| s.exchange.take());
        drop(old);
        let (is_over, is_last) = this.state.with(py, |s| {
            let is_closed = s.is_lost || matches!(s.input, Input::Closed | Input::Lingering);
            // If the head was sent before it was known that this request is the last one, the peer does not know it.
            let is_untold = s.is_last && left == 0 && !s.has_eof && !is_closed;
            (is_closed || (s.is_ending() && !is_untold), s.is_last)
        });
        if !keeps_alive || is_over || (left > 0 && expects_continue) || left > UNWANTED_BODY_BYTES {
            return if left > 0 { this.linger(py) } else { this.close(py) };
        }
        if left > 0 {
            // The rest of the body is read and dropped.
            this.wait_for(py, Awaited::Body);
            return this.resume_reading(py);
        }
        this.await_request(py);
        if is_last {
            Self::shut_down(slf)?;
            HttpServer::sweep_after_idling(this.http.bind(py))?;
        }
        Self::feed_soon(slf)
    }
}
