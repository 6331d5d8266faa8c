//! Parses a connection's input: heads and bodies of responses.

use super::connection::{BODY_HIGH_BYTES, ClientConnection, Input};
use super::exchange::{Caller, ClientExchange, Stage};
use super::failure::{self, Kind};
use super::request;
use super::response_head::{HAS_CODING, HAS_COOKIES, LIMITS, ResponseHead};
use crate::event_loop::LoopCore;
use crate::ffi::fallible;
use crate::ffi::{Object, bytes};
use crate::transport::{Under, with_lent};
use oneloop_engine::sys::socket;
use oneloop_http1::limits::MOST_HEADERS;
use oneloop_http1::request::may_say_more;
use oneloop_http1::{BodyReader, Framing, Piece, Refusal, Response, parse_response};
use pyo3::prelude::*;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// More informational responses than a sane server sends.
pub const MOST_INFORMATIONAL: u32 = 32;

/// One receive, called by the transport when its socket is readable.
pub fn receive(
    owner: &Bound<'_, LoopCore>,
    protocol: &Bound<'_, PyAny>,
    fd: RawFd,
) -> PyResult<io::Result<usize>> {
    let slf = protocol.cast_exact::<ClientConnection>()?;
    if let Some(received) = ClientConnection::receive_in_place(slf, fd)? {
        return Ok(received);
    }
    with_lent(owner, |shared| match socket::recv(fd, shared) {
        Ok(len @ 1..) => {
            ClientConnection::feed(slf, bytes::written(shared, len))?;
            Ok(Ok(len))
        }
        nothing => Ok(nothing),
    })
}

/// The result of a step.
enum Progress {
    Used(usize),
    /// More input is needed.
    Stopped,
    /// The exchange is over, after this many bytes.
    Ended(usize),
}

/// What the parser makes of the start of the input.
enum Read<'a> {
    Head,
    /// Bytes of the body, how many of the input they took, and how many of the body are missing, if that is known.
    Data(&'a [u8], usize, Option<u64>),
    Nothing,
    Refused(Refusal),
}

impl ClientConnection {
    pub fn feed(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        if slf.get().is_http2() {
            return Self::feed_frames(slf, data);
        }
        let py = slf.py();
        let mut held = slf.get().state.with(py, |s| std::mem::take(&mut s.buffer));
        if held.is_empty() {
            let used = Self::consume(slf, data)?;
            if used < data.len() {
                slf.get().state.with(py, |s| s.buffer.extend_from_slice(&data[used..]));
            }
            return Ok(());
        }
        held.extend_from_slice(data);
        let used = Self::consume(slf, &held)?;
        if used < held.len() {
            held.drain(..used);
            slf.get().state.with(py, |s| s.buffer = held);
        }
        Ok(())
    }

    /// Takes what the socket of a connection that has failed still has.
    pub fn drain(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let under = this.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py)));
        let Some(Under::Stream(stream)) = under else { return Ok(()) };
        let Ok(fd) = stream.get().body.descriptor.fd(py) else { return Ok(()) };
        let owner = this.terms.owner.bind(py);
        while this.is_busy(py) {
            match receive(owner, slf.as_any(), fd)? {
                Ok(1..) => {}
                // Its end, or why it has failed.
                Ok(0) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Returns how many bytes were used.
    fn consume(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<usize> {
        let py = slf.py();
        let this = slf.get();
        let mut at = 0;
        while at < data.len() {
            let Some(exchange) = this.exchange(py) else {
                // Bytes that response nothing. Those of a connection that is closed already are dropped.
                if this.state.with(py, |s| !matches!(s.input, Input::Closed)) {
                    Self::abort(slf)?;
                }
                return Ok(data.len());
            };
            match Self::step(slf, &exchange, &data[at..])? {
                Progress::Used(len) => at += len,
                Progress::Stopped => break,
                Progress::Ended(len) => {
                    // With bytes behind a response, nobody knows what the server means.
                    let is_clean = at + len == data.len();
                    Self::complete(slf, &exchange, is_clean)?;
                    return Ok(data.len());
                }
            }
        }
        Ok(at)
    }

    fn step(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        input: &[u8],
    ) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        let read = this.state.with(py, |s| match &mut s.input {
            Input::Head => Read::Head,
            Input::Body(reader) => match reader.read(input, &LIMITS) {
                Ok(Piece::Data { data, consumed, .. }) => Read::Data(data, consumed, reader.left()),
                Ok(Piece::Incomplete) => Read::Nothing,
                Err(refusal) => Read::Refused(refusal),
            },
            Input::Tunnel => Read::Data(input, input.len(), None),
            Input::Idle | Input::Closed => Read::Data(b"", input.len(), None),
        });
        match read {
            Read::Head => Self::take_head(slf, exchange, input),
            Read::Data(data, consumed, left) => {
                Self::add(slf, exchange, data, left)?;
                Ok(match left {
                    Some(0) => Progress::Ended(consumed),
                    _ => Progress::Used(consumed),
                })
            }
            Read::Nothing => Ok(Progress::Stopped),
            Read::Refused(refusal) => {
                Self::fail(slf, failure::refused(py, refusal))?;
                Ok(Progress::Used(input.len()))
            }
        }
    }

    /// Passes a part of the body, behind which `left` bytes are missing, to its exchange.
    fn add(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        data: &[u8],
        left: Option<u64>,
    ) -> PyResult<()> {
        let py = slf.py();
        if data.is_empty() {
            return Ok(());
        }
        let len_bytes = exchange.get().add_piece(py, data, left)?;
        if left == Some(0) {
            return Ok(());
        }
        if len_bytes > BODY_HIGH_BYTES && !exchange.get().state.with(py, |s| s.is_read_whole()) {
            slf.get().pause_reading(py)?;
        }
        Self::go_on(slf, exchange)
    }

    /// A part of the body has arrived, and not all of it.
    fn go_on(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        Self::wait_for_response(slf, exchange.get())?;
        exchange.get().wake_waiters(slf.py())
    }

    /// One receive of a body that is gathered, into its memory. None: the next bytes are something else.
    fn receive_in_place(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<Option<io::Result<usize>>> {
        let py = slf.py();
        let this = slf.get();
        let received: PyResult<_> = this.state.with(py, |s| {
            let (Input::Body(reader), Some(exchange)) = (&mut s.input, &s.exchange) else {
                return Ok(None);
            };
            let Some(left @ 1..) = reader.left().filter(|_| s.buffer.is_empty()) else {
                return Ok(None);
            };
            exchange.get().state.with(py, |e| {
                let received = e.pieces.receive(py, fd, left)?;
                let counted =
                    |data: &[u8]| (data.len(), reader.read(data, &LIMITS).map(|_| reader.left()));
                Ok(received.map(|received| received.map(counted)))
            })
        });
        let (len, left) = match received? {
            Some(Ok(received @ (1.., _))) => received,
            Some(Ok(_)) => return Ok(Some(Ok(0))),
            Some(Err(error)) => return Ok(Some(Err(error))),
            None => return Ok(None),
        };
        let Some(exchange) = this.exchange(py) else { return Ok(Some(Ok(len))) };
        match left {
            Ok(Some(0)) => Self::complete(slf, &exchange, true)?,
            Ok(_) => Self::go_on(slf, &exchange)?,
            Err(refusal) => Self::fail(slf, failure::refused(py, refusal))?,
        }
        Ok(Some(Ok(len)))
    }

    /// The response is complete.
    fn complete(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        is_clean: bool,
    ) -> PyResult<()> {
        let py = slf.py();
        let now_ns = slf.get().owner().now_ns(py);
        let (connection, keeps_alive) = exchange.get().state.with(py, |s| {
            s.is_complete = true;
            s.ended_ns = now_ns;
            s.stage = Stage::Ended;
            // A request that is not sent whole, because the response came early, cannot be followed by another one.
            (s.connection.take(), s.keeps_alive && s.is_sent)
        });
        drop(connection);
        let released = Self::release(slf, is_clean && keeps_alive);
        Self::let_end(slf, exchange);
        released.and(exchange.get().wake_waiters(py))
    }

    /// If the connection ends with a response of plain code, that waits for it.
    pub fn let_end(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) {
        let py = slf.py();
        let is_ending = slf.get().state.with(py, |s| matches!(s.input, Input::Closed));
        if is_ending && exchange.get().caller == Caller::Plain {
            exchange.get().state.with(py, |s| s.is_ending = true);
            // Behind the end of the connection. Over TLS that is announced now, and waits for the server's.
            slf.get().owner().run_soon(py, exchange.clone().into_any().unbind(), end);
        }
    }

    /// The server sends nothing more: completes a response that ends with the connection.
    pub fn end_input(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let ends = slf.get().state.with(py, |s| match &s.input {
            Input::Tunnel => true,
            Input::Body(reader) => reader.ends_with_connection(),
            _ => false,
        });
        match slf.get().exchange(py) {
            Some(exchange) if ends => Self::complete(slf, &exchange, false),
            _ => Ok(()),
        }
    }

    fn take_head(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        input: &[u8],
    ) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        let is_first =
            exchange.get().state.with(py, |s| !std::mem::replace(&mut s.has_begun, true));
        // Each part has the whole time again.
        Self::wait_for_response(slf, exchange.get())?;
        let seen = this.state.with(py, |s| std::mem::replace(&mut s.searched, input.len()));
        if !is_first && !may_say_more(input, seen, &LIMITS) {
            return Ok(Progress::Stopped);
        }
        let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let response = match parse_response(input, &mut fields, exchange.get().asked, &LIMITS) {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(Progress::Stopped),
            Err(refusal) => {
                Self::fail(slf, failure::refused(py, refusal))?;
                return Ok(Progress::Used(input.len()));
            }
        };
        this.state.with(py, |s| s.searched = 0);
        if (100..200).contains(&response.status) && response.status != 101 {
            return Self::take_informational(slf, exchange, &response);
        }
        let head = exchange.get().head.bind(py).as_bytes();
        if response.status == 101 && request::field(head, b"upgrade").is_none() {
            let text = "the server switches to another protocol, which was not asked for";
            Self::fail(slf, failure::error(py, Kind::RemoteProtocolError, text))?;
            return Ok(Progress::Used(input.len()));
        }
        Self::open(slf, exchange, &response, input)
    }

    fn take_informational(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        response: &Response<'_, '_>,
    ) -> PyResult<Progress> {
        let py = slf.py();
        let count = slf.get().state.with(py, |s| {
            s.informational += 1;
            s.informational
        });
        if count > MOST_INFORMATIONAL {
            let text = "the server sends informational answers without end";
            Self::fail(slf, failure::error(py, Kind::RemoteProtocolError, text))?;
            return Ok(Progress::Used(response.len));
        }
        if response.status == 100 {
            exchange.get().state.with(py, |s| s.is_welcome = true);
            exchange.get().wake_waiters(py)?;
        }
        Ok(Progress::Used(response.len))
    }

    /// The final head.
    fn open(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        response: &Response<'_, '_>,
        input: &[u8],
    ) -> PyResult<Progress> {
        let py = slf.py();
        let reader = match BodyReader::new(response.framing, &LIMITS) {
            Ok(reader) => reader,
            Err(refusal) => {
                Self::fail(slf, failure::refused(py, refusal))?;
                return Ok(Progress::Used(input.len()));
            }
        };
        let mut has = 0;
        for header in response.headers {
            match header.name.len() {
                10 if header.name.eq_ignore_ascii_case("set-cookie") => has |= HAS_COOKIES,
                16 if header.name.eq_ignore_ascii_case("content-encoding") => has |= HAS_CODING,
                _ => {}
            }
        }
        let kept = ResponseHead {
            status: response.status,
            has,
            head: Object::new(fallible::bytes(py, &input[..response.len])?),
        };
        // RFC 9112 section 9.6: no other request may follow.
        let is_last = request::says_close(exchange.get().head.bind(py).as_bytes());
        let is_over =
            !response.is_tunnel && (response.framing == Framing::None || reader.is_complete());
        let old = slf.get().state.with(py, |s| {
            let input = if response.is_tunnel { Input::Tunnel } else { Input::Body(reader) };
            std::mem::replace(&mut s.input, input)
        });
        drop(old);
        let now_ns = slf.get().owner().now_ns(py);
        let old = exchange.get().state.with(py, |s| {
            s.response_ns = now_ns;
            s.keeps_alive = response.keeps_alive && !response.is_tunnel && !is_last;
            s.is_tunnel = response.is_tunnel;
            s.response.replace(kept)
        });
        drop(old);
        if is_over {
            return Ok(Progress::Ended(response.len));
        }
        if input.len() == response.len {
            Self::wait_for_response(slf, exchange.get())?;
        }
        exchange.get().wake_waiters(py)?;
        Ok(Progress::Used(response.len))
    }
}

/// The connection of a complete exchange has ended.
fn end(_owner: &Bound<'_, LoopCore>, exchange: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = exchange.py();
    let exchange = exchange.cast_exact::<ClientExchange>()?.get();
    exchange.state.with(py, |s| s.is_ending = false);
    exchange.wake_waiters(py)
}
