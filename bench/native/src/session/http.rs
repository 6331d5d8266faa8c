//! A turn of one HTTP/1.1 request on a kept connection: status, length and every byte of the body checked.
//!
//! The path is the wanted body length (`/1024`), as in vmbench; a body is that many times `x`.

use std::io;

use super::{Session, Step};
use crate::fault::Fault;
use crate::poller::Poller;
use crate::wire::{Target, Wire};

/// Compared by memcmp, which a byte-by-byte search would not be.
static BODY: [u8; 65_536] = [b'x'; 65_536];

#[derive(Debug)]
pub struct Http {
    wire: Wire,
    token: usize,
    registered: bool,
    request: Vec<u8>,
    size_bytes: usize,
    sent: usize,
    /// The head as far as it has come; empty once the body has begun.
    head: Vec<u8>,
    body_left: Option<usize>,
}

fn wrong(what: impl Into<String>) -> Fault {
    Fault::BadResponse { what: what.into() }
}

impl Http {
    pub fn connect(target: &Target, token: usize, size_bytes: usize) -> Result<Self, Fault> {
        let wire = Wire::connect(target, token).map_err(|e| Fault::system("connect", e))?;
        let request = format!("GET /{size_bytes} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
        let sent = request.len();
        Ok(Self {
            wire,
            token,
            registered: false,
            request,
            size_bytes,
            sent,
            head: Vec::new(),
            body_left: None,
        })
    }

    fn push(&mut self) -> Result<(), Fault> {
        while self.sent < self.request.len() {
            match self.wire.write(&self.request[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::transfer("send", error, self.token)),
            }
        }
        Ok(())
    }

    fn take_body(&mut self, got: &[u8]) -> Result<(), Fault> {
        let left = self.body_left.unwrap_or(0);
        if got.len() > left {
            return Err(Fault::Excess { connection: self.token });
        }
        if got.chunks(BODY.len()).any(|part| part != &BODY[..part.len()]) {
            return Err(wrong("a byte of the body is not what was served"));
        }
        self.body_left = Some(left - got.len());
        Ok(())
    }

    fn take(&mut self, got: &[u8]) -> Result<(), Fault> {
        if self.body_left.is_some() {
            return self.take_body(got);
        }
        self.head.extend_from_slice(got);
        let head = std::mem::take(&mut self.head);
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(&head).map_err(|e| wrong(e.to_string()))?;
        let httparse::Status::Complete(body_at) = parsed else {
            self.head = head;
            return Ok(());
        };
        if response.code != Some(200) {
            return Err(wrong(format!("status {:?}", response.code)));
        }
        let length =
            response.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
        let length = length.and_then(|h| std::str::from_utf8(h.value).ok()?.parse().ok());
        if length != Some(self.size_bytes) {
            return Err(wrong(format!("content-length {length:?}, not {}", self.size_bytes)));
        }
        self.body_left = length;
        self.take_body(&head[body_at..])
    }
}

impl Session for Http {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        if !self.registered {
            poller.watch(&self.wire, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
            self.registered = true;
        }
        self.sent = 0;
        self.body_left = None;
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
        let whole = self.sent == self.request.len() && self.body_left == Some(0);
        Ok(if whole { Step::Done } else { Step::Pending })
    }
}
