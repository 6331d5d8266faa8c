//! A turn of HTTP/1.1 requests: status, length and every byte of each body checked.
//!
//! ```text
//!  kept:  request × pipeline in one write -> as many answers, on the same connection: done
//!  once:  connect, request with `Connection: close` -> answer -> the server's end of the stream: done
//! ```

use std::io;
use std::sync::Arc;

use super::chunked::Chunked;
use super::{Session, Step};
use crate::fault::Fault;
use crate::poller::Poller;
use crate::wire::{Target, Wire};

/// What a connection sends in one turn, and what each answer must be.
#[derive(Debug)]
pub struct Exchange {
    requests: Vec<u8>,
    answers: usize,
    /// Every answer's body.
    body: Vec<u8>,
    /// A connection is for one request only.
    once: bool,
}

impl Exchange {
    /// `pipeline` requests for `target` with further headers, each answered with `body`.
    #[must_use]
    pub fn get(target: &str, headers: &[String], pipeline: usize, body: Vec<u8>) -> Self {
        let more = headers.iter().fold(String::new(), |lines, header| lines + header + "\r\n");
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        Self {
            requests: request.repeat(pipeline).into_bytes(),
            answers: pipeline,
            body,
            once: false,
        }
    }

    /// A separate connection for each request.
    #[must_use]
    pub fn once(target: &str, body: Vec<u8>) -> Self {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        Self { requests: request.into_bytes(), answers: 1, body, once: true }
    }

    /// A body that has to come back.
    #[must_use]
    pub fn post(target: &str, body: Vec<u8>) -> Self {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let requests = [head.as_bytes(), &body].concat();
        Self { requests, answers: 1, body, once: false }
    }
}

#[derive(Debug)]
pub struct Http {
    target: Target,
    token: usize,
    exchange: Arc<Exchange>,
    wire: Option<Wire>,
    turns: usize,
    sent: usize,
    answers_left: usize,
    /// The head as far as it has come, when one read did not bring all of it.
    head: Vec<u8>,
    /// How much of the current body has come; None while its head is awaited.
    body_at: Option<usize>,
    /// How the current body is framed, where it has no length.
    chunked: Option<Chunked>,
}

fn wrong(what: impl Into<String>) -> Fault {
    Fault::BadResponse { what: what.into() }
}

/// A head that is complete, and right.
#[derive(Debug)]
struct Head {
    len: usize,
    is_chunked: bool,
}

/// Checks the status and how the body is framed; None while the head is not complete.
fn parse_head(bytes: &[u8], body_len: usize) -> Result<Option<Head>, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|e| wrong(e.to_string()))?;
    let httparse::Status::Complete(len) = parsed else { return Ok(None) };
    if response.code != Some(200) {
        return Err(wrong(format!("status {:?}", response.code.unwrap_or(0))));
    }
    let value = |name: &str| {
        let found = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
        found.and_then(|h| std::str::from_utf8(h.value).ok())
    };
    let length = value("content-length");
    let is_chunked = value("transfer-encoding") == Some("chunked");
    if is_chunked && length.is_some() {
        return Err(wrong("both a length and the chunked coding"));
    }
    let length = length.and_then(|text| text.parse().ok());
    if !is_chunked && length != Some(body_len) {
        return Err(wrong(format!("content-length {length:?}, not {body_len}")));
    }
    Ok(Some(Head { len, is_chunked }))
}

impl Http {
    #[must_use]
    pub fn new(target: &Target, token: usize, exchange: &Arc<Exchange>) -> Self {
        Self {
            target: target.clone(),
            token,
            exchange: Arc::clone(exchange),
            wire: None,
            turns: 0,
            sent: 0,
            answers_left: 0,
            head: Vec::new(),
            body_at: None,
            chunked: None,
        }
    }

    fn push(&mut self) -> Result<(), Fault> {
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        while self.sent < self.exchange.requests.len() {
            match wire.write(&self.exchange.requests[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::transfer("send", error, self.token)),
            }
        }
        Ok(())
    }

    /// Returns what stands behind the head.
    fn take_head<'a>(&mut self, got: &'a [u8]) -> Result<&'a [u8], Fault> {
        let before = self.head.len();
        if before > 0 {
            self.head.extend_from_slice(got);
        }
        let bytes = if before > 0 { &self.head } else { got };
        let Some(head) = parse_head(bytes, self.exchange.body.len())? else {
            if before == 0 {
                self.head.extend_from_slice(got);
            }
            return Ok(&[]);
        };
        self.head.clear();
        self.body_at = Some(0);
        self.chunked = head.is_chunked.then(Chunked::default);
        Ok(&got[head.len - before..])
    }

    /// Returns what stands behind this piece of the body.
    fn take_body<'a>(&mut self, at: usize, got: &'a [u8]) -> Result<&'a [u8], Fault> {
        let wanted = &self.exchange.body[at..];
        let (part, rest) = match &mut self.chunked {
            Some(decoder) => decoder.take(got)?,
            None => got.split_at(got.len().min(wanted.len())),
        };
        if !wanted.starts_with(part) {
            return Err(wrong("a byte of the body is not what was asked for"));
        }
        self.body_at = Some(at + part.len());
        Ok(rest)
    }

    /// Whether the current body has come to its end, and to the right one.
    fn is_body_over(&self) -> Result<bool, Fault> {
        let is_whole = self.body_at == Some(self.exchange.body.len());
        match &self.chunked {
            Some(decoder) if decoder.is_over() && !is_whole => Err(wrong("a body is too short")),
            Some(decoder) => Ok(decoder.is_over()),
            None => Ok(is_whole),
        }
    }

    fn take(&mut self, mut got: &[u8]) -> Result<(), Fault> {
        loop {
            if self.answers_left == 0 && !got.is_empty() {
                return Err(Fault::Excess { connection: self.token });
            }
            if self.is_body_over()? {
                self.body_at = None;
                self.chunked = None;
                self.answers_left -= 1;
                continue;
            }
            if got.is_empty() {
                return Ok(());
            }
            got = match self.body_at {
                Some(at) => self.take_body(at, got)?,
                None => self.take_head(got)?,
            };
        }
    }

    fn has_response(&self) -> bool {
        self.answers_left == 0 && self.sent == self.exchange.requests.len()
    }

    /// The end of the stream: right behind the answer to the only request, wrong elsewhere.
    fn end(&mut self) -> Result<Step, Fault> {
        if !self.exchange.once || !self.has_response() {
            return Err(Fault::Closed { connection: self.token });
        }
        self.wire = None;
        Ok(Step::Done)
    }
}

impl Session for Http {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        self.turns += 1;
        if self.wire.is_none() {
            let index = if self.exchange.once { self.token * 31 + self.turns } else { self.token };
            let wire = Wire::connect(&self.target, index);
            let wire = wire.map_err(|e| Fault::transfer("connect", e, self.token))?;
            poller.watch(&wire, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
            self.wire = Some(wire);
        }
        self.sent = 0;
        self.answers_left = self.exchange.answers;
        self.push()
    }

    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault> {
        self.push()?;
        loop {
            let Some(wire) = self.wire.as_mut() else { return Ok(Step::Pending) };
            match wire.read(scratch) {
                Ok(0) => return self.end(),
                Ok(count) => {
                    self.take(&scratch[..count])?;
                    // A short read has emptied the socket; only an end of the stream could stand behind it.
                    if count < scratch.len() && !self.exchange.once {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::transfer("recv", error, self.token)),
            }
        }
        let whole = self.has_response() && !self.exchange.once;
        Ok(if whole { Step::Done } else { Step::Pending })
    }

    fn messages_per_turn(&self) -> u64 {
        self.exchange.answers as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

    fn session(pipeline: usize) -> Http {
        let exchange = Arc::new(Exchange::get("/", &[], pipeline, b"abc".to_vec()));
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let mut made = Http::new(&Target::Tcp(address), 0, &exchange);
        made.sent = exchange.requests.len();
        made.answers_left = pipeline;
        made
    }

    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";

    #[test]
    fn answers_are_found_however_they_are_cut() {
        let all = [ANSWER, CHUNKED, ANSWER].concat();
        for cut in 1..all.len() {
            let mut session = session(3);
            for part in all.chunks(cut) {
                assert!(!session.has_response());
                session.take(part).unwrap();
            }
            assert!(session.has_response());
        }
    }

    #[test]
    fn wrong_answers_are_refused() {
        let changed = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabd";
        let longer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";
        let error = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
        let shorter = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        let more = [ANSWER, b"x"].concat();
        for bad in [&changed[..], longer, shorter, error, b"\0\0", &more] {
            assert!(session(1).take(bad).is_err());
        }
    }
}
