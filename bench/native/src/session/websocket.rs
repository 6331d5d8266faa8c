//! A turn of one WebSocket message on a kept connection (RFC 6455): sent masked, echoed unmasked and unchanged.
//!
//! ```text
//!  first turn:  upgrade request -> 101 with the right accept value -> message -> echo: done
//!  later:       message -> echo, in one frame or in fragments: done
//! ```
//!
//! No extension is offered, so that no server compresses. Pings are answered; any other control frame is a fault.

use std::io;
use std::sync::Arc;

use super::{Session, Step};
use crate::fault::Fault;
use crate::pattern::Pattern;
use crate::poller::Poller;
use crate::wire::{Target, Wire};

/// The pair that RFC 6455, section 1.3 works out.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const CONTINUATION: u8 = 0x0;
const BINARY: u8 = 0x2;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Values of the 7-bit length: the length itself follows.
const LEN_IN_2_BYTES: u8 = 0x7E;
const LEN_IN_8_BYTES: u8 = 0x7F;

fn wrong(what: impl Into<String>) -> Fault {
    Fault::BadResponse { what: what.into() }
}

/// Appends a final frame of a client.
fn append_frame(out: &mut Vec<u8>, opcode: u8, mask: [u8; 4], payload: &[u8]) {
    out.push(FINAL | opcode);
    match payload.len() {
        len @ 0..=125 => out.push(MASKED | len as u8),
        len @ 126..=65_535 => {
            out.push(MASKED | LEN_IN_2_BYTES);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(MASKED | LEN_IN_8_BYTES);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    let begin = out.len();
    out.extend_from_slice(payload);
    for (index, byte) in out[begin..].iter_mut().enumerate() {
        *byte ^= mask[index % 4];
    }
}

/// The head of a server's frame.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    opcode: u8,
    is_final: bool,
    len: usize,
}

/// Reads a frame's head; None while it is not complete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Fault> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 || second & MASKED != 0 {
        return Err(wrong(format!("a frame begins with {first:#04x} {second:#04x}")));
    }
    let len = match second {
        &LEN_IN_2_BYTES => {
            rest.get(..2).map(|b| b.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
        }
        &LEN_IN_8_BYTES => {
            rest.get(..8).map(|b| b.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
        }
        len => Some(usize::from(*len)),
    };
    let head = |len| Head { opcode: first & 0x0F, is_final: first & FINAL != 0, len };
    Ok(len.map(head))
}

/// What the connection receives next.
#[derive(Debug, PartialEq, Eq)]
enum Expecting {
    Upgrade,
    /// `within` a message whose fragments have begun.
    FrameHead {
        within: bool,
    },
    Payload {
        left: usize,
        is_final: bool,
    },
    /// Of a ping.
    PingPayload {
        left: usize,
        within: bool,
    },
}

#[derive(Debug)]
pub struct WebSocket {
    wire: Wire,
    token: usize,
    registered: bool,
    pattern: Arc<Pattern>,
    size_bytes: usize,
    expecting: Expecting,
    /// What is not complete yet: the answer to the upgrade, a frame's head, a ping's payload.
    partial: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// The offset in the pattern at which the current message begins.
    offset: u64,
    received: usize,
    is_whole: bool,
}

impl WebSocket {
    pub fn connect(
        target: &Target,
        token: usize,
        pattern: &Arc<Pattern>,
        path: &str,
        size_bytes: usize,
    ) -> Result<Self, Fault> {
        let wire = Wire::connect(target, token).map_err(|e| Fault::system("connect", e))?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        Ok(Self {
            wire,
            token,
            registered: false,
            pattern: Arc::clone(pattern),
            size_bytes,
            expecting: Expecting::Upgrade,
            partial: Vec::new(),
            out: request.into_bytes(),
            sent: 0,
            offset: Pattern::origin(token),
            received: 0,
            is_whole: false,
        })
    }

    fn push(&mut self) -> Result<(), Fault> {
        while self.sent < self.out.len() {
            match self.wire.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Fault::transfer("send", error, self.token)),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn queue_message(&mut self) {
        let mask = (self.offset as u32).wrapping_mul(0x9E37_79B9).to_ne_bytes();
        append_frame(&mut self.out, BINARY, mask, self.pattern.at(self.offset, self.size_bytes));
    }

    fn take_upgrade<'a>(&mut self, got: &'a [u8]) -> Result<&'a [u8], Fault> {
        let before = self.partial.len();
        self.partial.extend_from_slice(got);
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(&self.partial).map_err(|e| wrong(e.to_string()))?;
        let httparse::Status::Complete(len) = parsed else { return Ok(&[]) };
        let accepts = |h: &httparse::Header<'_>| {
            h.name.eq_ignore_ascii_case("sec-websocket-accept") && h.value == ACCEPT.as_bytes()
        };
        if response.code != Some(101) || !response.headers.iter().any(accepts) {
            return Err(wrong(format!(
                "upgrade refused with status {:?}",
                response.code.unwrap_or(0)
            )));
        }
        self.partial.clear();
        self.expecting = Expecting::FrameHead { within: false };
        self.queue_message();
        Ok(&got[len - before..])
    }

    fn take_frame_head<'a>(&mut self, within: bool, got: &'a [u8]) -> Result<&'a [u8], Fault> {
        self.partial.push(got[0]);
        let Some(head) = parse_head(&self.partial)? else { return Ok(&got[1..]) };
        self.partial.clear();
        self.expecting = match head.opcode {
            PING if head.len <= 125 => Expecting::PingPayload { left: head.len, within },
            BINARY if !within => Expecting::Payload { left: head.len, is_final: head.is_final },
            CONTINUATION if within => {
                Expecting::Payload { left: head.len, is_final: head.is_final }
            }
            other => return Err(wrong(format!("a frame with opcode {other:#x}"))),
        };
        Ok(&got[1..])
    }

    fn take_payload(&mut self, part: &[u8]) -> Result<(), Fault> {
        let offset = self.offset + self.received as u64;
        if let Some(index) = self.pattern.first_difference(offset, part) {
            let offset = (self.received + index) as u64;
            return Err(Fault::Corrupted { connection: self.token, offset });
        }
        self.received += part.len();
        if self.received > self.size_bytes || self.is_whole {
            return Err(Fault::Excess { connection: self.token });
        }
        Ok(())
    }

    /// Goes on to the next state when the current one has all its bytes.
    fn complete(&mut self) -> Result<(), Fault> {
        match self.expecting {
            Expecting::Payload { left: 0, is_final } => {
                if is_final && self.received != self.size_bytes {
                    return Err(wrong(format!("a message of {} bytes", self.received)));
                }
                self.is_whole = is_final;
                self.expecting = Expecting::FrameHead { within: !is_final };
            }
            Expecting::PingPayload { left: 0, within } => {
                let payload = std::mem::take(&mut self.partial);
                append_frame(&mut self.out, PONG, [1, 2, 3, 4], &payload);
                self.expecting = Expecting::FrameHead { within };
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, mut got: &[u8]) -> Result<(), Fault> {
        while !got.is_empty() {
            match self.expecting {
                Expecting::Upgrade => got = self.take_upgrade(got)?,
                Expecting::FrameHead { within } => got = self.take_frame_head(within, got)?,
                Expecting::Payload { left, is_final } => {
                    let (part, rest) = got.split_at(left.min(got.len()));
                    self.take_payload(part)?;
                    self.expecting = Expecting::Payload { left: left - part.len(), is_final };
                    got = rest;
                }
                Expecting::PingPayload { left, within } => {
                    let (part, rest) = got.split_at(left.min(got.len()));
                    self.partial.extend_from_slice(part);
                    self.expecting = Expecting::PingPayload { left: left - part.len(), within };
                    got = rest;
                }
            }
            self.complete()?;
        }
        Ok(())
    }
}

impl Session for WebSocket {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        if !self.registered {
            poller.watch(&self.wire, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
            self.registered = true;
        }
        if self.expecting != Expecting::Upgrade {
            self.offset += self.size_bytes as u64;
            self.queue_message();
        }
        self.received = 0;
        self.is_whole = false;
        self.push()
    }

    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault> {
        self.push()?;
        loop {
            match self.wire.read(scratch) {
                Ok(0) => return Err(Fault::Closed { connection: self.token }),
                Ok(count) => {
                    self.take(&scratch[..count])?;
                    if count < scratch.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::transfer("recv", error, self.token)),
            }
        }
        self.push()?;
        let whole = self.is_whole && self.out.is_empty();
        Ok(if whole { Step::Done } else { Step::Pending })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_frame_is_the_one_of_the_rfc() {
        // RFC 6455, section 5.7: "Hello" as a masked text frame.
        let mut out = Vec::new();
        append_frame(&mut out, 1, [0x37, 0xfa, 0x21, 0x3d], b"Hello");
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    #[test]
    fn heads_of_every_length_are_read() {
        let head = |opcode, is_final, len| Some(Head { opcode, is_final, len });
        assert_eq!(parse_head(&[0x82, 5]).unwrap(), head(2, true, 5));
        assert_eq!(parse_head(&[0x02, 126, 1, 0]).unwrap(), head(2, false, 256));
        assert_eq!(
            parse_head(&[0x80, 127, 0, 0, 0, 0, 0, 1, 0, 0]).unwrap(),
            head(0, true, 65_536)
        );
        assert_eq!(parse_head(&[0x82, 126, 1]).unwrap(), None);
        assert!(parse_head(&[0xC2, 5]).is_err());
        assert!(parse_head(&[0x82, 0x85]).is_err());
    }
}
