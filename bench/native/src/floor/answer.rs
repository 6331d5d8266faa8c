//! The server for HTTP clients: it answers `/N` with N bytes `x` and status 200, whatever the query is. It checks that
//! every byte of a request's body is an `x`; else the status is 400.
//!
//! It can close each connection after its answer, and wait before it answers. On each line of its standard input it
//! prints how many requests, connections and resumed TLS sessions it has seen.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::listen::Listener;
use super::stream::{BUFFER_LEN, Peer, Wrap};
use crate::poller::Poller;

const LISTENER: usize = usize::MAX;
const COMMANDS: usize = usize::MAX - 1;
/// The longest answer.
const LONGEST_LEN: usize = 16 << 20;

#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Closes each connection after its first answer, and says so in it.
    pub closes: bool,
    /// Between a request and its answer.
    pub delay: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    connections: u64,
    resumed: u64,
}

/// What is known of the request that is being read.
#[derive(Debug, Clone, Copy)]
struct Request {
    wanted_len: usize,
    body_left: usize,
    is_good: bool,
}

/// What a connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Read,
    /// The answer is due later.
    Wait,
    Write,
    Close,
}

struct Connection {
    peer: Box<dyn Peer>,
    /// A head that is not complete yet.
    head: Vec<u8>,
    request: Option<Request>,
    response_head: Vec<u8>,
    answer_len: usize,
    /// Of head and body.
    sent: usize,
    is_new: bool,
    /// Registered for output: the socket was full.
    is_writing: bool,
    serial: u64,
}

fn is_again(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The request whose head begins `bytes`, with the length of this head; None if it is not complete.
fn parse(bytes: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(len) = parsed.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let path = parsed.path.unwrap_or("/").trim_start_matches('/');
    let wanted = path.split('?').next().unwrap_or(path);
    let wanted_len: usize = wanted.parse().map_err(io::Error::other)?;
    if wanted_len > LONGEST_LEN {
        return Err(bad("more than it has"));
    }
    let mut body_left = 0;
    for header in parsed.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).map_err(io::Error::other)?;
            body_left = text.trim().parse().map_err(io::Error::other)?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(bad("chunks"));
        }
    }
    Ok(Some((Request { wanted_len, body_left, is_good: true }, len)))
}

impl Connection {
    fn new(peer: Box<dyn Peer>, serial: u64) -> Self {
        Self {
            peer,
            head: Vec::new(),
            request: None,
            response_head: Vec::new(),
            answer_len: 0,
            sent: 0,
            is_new: true,
            is_writing: false,
            serial,
        }
    }

    /// Takes what has come. True if a request is complete.
    fn take(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let Some(request) = &mut self.request else {
            self.head.extend_from_slice(bytes);
            let Some((request, len)) = parse(&self.head)? else { return Ok(false) };
            let rest = self.head.split_off(len);
            self.head.clear();
            self.request = Some(request);
            return self.take(&rest);
        };
        if bytes.len() > request.body_left {
            return Err(bad("more than one request at a time"));
        }
        request.body_left -= bytes.len();
        request.is_good &= bytes.iter().all(|byte| *byte == b'x');
        Ok(request.body_left == 0)
    }

    /// Reads once; a complete request gets its answer.
    fn read(&mut self, buffer: &mut [u8], habits: Habits, counts: &mut Counts) -> io::Result<Then> {
        let count = match self.peer.read(buffer) {
            Ok(0) => return Ok(Then::Close),
            Ok(count) => count,
            Err(error) if is_again(&error) => 0,
            Err(error) => return Err(error),
        };
        if count == 0 || !self.take(&buffer[..count])? {
            return self.flush();
        }
        let Some(request) = self.request.take() else { return self.flush() };
        counts.requests += 1;
        if self.is_new {
            self.is_new = false;
            counts.resumed += u64::from(self.peer.is_resumed());
        }
        let status = if request.is_good { "200 OK" } else { "400 Bad Request" };
        let goodbye = if habits.closes { "Connection: close\r\n" } else { "" };
        self.answer_len = request.wanted_len;
        self.response_head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\n{goodbye}Content-Length: {}\r\n\r\n",
            self.answer_len
        )
        .into_bytes();
        self.sent = 0;
        Ok(Then::Wait)
    }

    /// Sends what the socket takes of the answer.
    fn write(&mut self, body: &[u8], habits: Habits) -> io::Result<Then> {
        let head_len = self.response_head.len();
        while self.sent < head_len + self.answer_len {
            let head = &self.response_head[self.sent.min(head_len)..];
            let body = &body[self.sent.saturating_sub(head_len)..self.answer_len];
            match self.peer.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(count) => self.sent += count,
                Err(error) if is_again(&error) => return Ok(Then::Write),
                Err(error) => return Err(error),
            }
        }
        let then = self.flush()?;
        Ok(if then == Then::Read && habits.closes { Then::Close } else { then })
    }

    fn flush(&mut self) -> io::Result<Then> {
        match self.peer.flush() {
            Err(error) if is_again(&error) => Ok(Then::Write),
            other => other.map(|()| Then::Read),
        }
    }
}

/// The connections by descriptor number, and the answers that are due later.
struct Server<'a> {
    poller: Poller,
    habits: Habits,
    counts: Counts,
    body: Vec<u8>,
    buffer: Vec<u8>,
    connections: Vec<Option<Connection>>,
    due: VecDeque<(Instant, usize, u64)>,
    wrap: Wrap<'a>,
}

impl Server<'_> {
    fn accept(&mut self, listener: &Listener) -> io::Result<()> {
        while let Some(fd) = listener.accept()? {
            let token = fd.as_raw_fd() as usize;
            self.poller.watch_input(&fd, token)?;
            let peer = (self.wrap)(fd)?;
            self.counts.connections += 1;
            if self.connections.len() <= token {
                self.connections.resize_with(token + 1, || None);
            }
            self.connections[token] = Some(Connection::new(peer, self.counts.connections));
        }
        Ok(())
    }

    fn serve(&mut self, token: usize) -> io::Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return Ok(()) };
        let mut then = if connection.is_writing {
            connection.write(&self.body, self.habits)
        } else {
            connection.read(&mut self.buffer, self.habits, &mut self.counts)
        };
        if matches!(then, Ok(Then::Wait)) {
            if self.habits.delay.is_zero() {
                then = connection.write(&self.body, self.habits);
            } else {
                self.due.push_back((Instant::now() + self.habits.delay, token, connection.serial));
            }
        }
        self.settle(token, &then)
    }

    fn settle(&mut self, token: usize, then: &io::Result<Then>) -> io::Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return Ok(()) };
        match then {
            Ok(Then::Close) => {
                connection.peer.say_goodbye();
                self.connections[token] = None;
            }
            Err(_) => self.connections[token] = None,
            Ok(then) => {
                let writes = *then == Then::Write;
                if writes != connection.is_writing {
                    connection.is_writing = writes;
                    self.poller.rewatch(&connection.peer, token, writes)?;
                }
            }
        }
        Ok(())
    }

    /// Sends the answers that are due. Returns the time to the next.
    fn send_due(&mut self) -> io::Result<Option<Duration>> {
        while let Some(&(at, token, serial)) = self.due.front() {
            let left = at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Ok(Some(left));
            }
            self.due.pop_front();
            let Some(Some(connection)) = self.connections.get_mut(token) else { continue };
            if connection.serial == serial {
                let then = connection.write(&self.body, self.habits);
                self.settle(token, &then)?;
            }
        }
        Ok(None)
    }

    /// Prints the counts. False when nobody will ask any more.
    fn report(&self) -> io::Result<bool> {
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let Counts { requests, connections, resumed } = self.counts;
        println!(
            "{{\"requests\": {requests}, \"connections\": {connections}, \"resumed\": {resumed}}}"
        );
        io::stdout().flush()?;
        Ok(true)
    }
}

/// Serves until the standard input ends.
pub fn serve(habits: Habits, wrap: Wrap<'_>) -> io::Result<()> {
    let poller = Poller::new()?;
    let listener = Listener::open(None)?;
    poller.watch_input(&listener, LISTENER)?;
    poller.watch_input(io::stdin(), COMMANDS)?;
    let mut server = Server {
        poller,
        habits,
        counts: Counts::default(),
        body: vec![b'x'; LONGEST_LEN],
        buffer: vec![0; BUFFER_LEN],
        connections: Vec::new(),
        due: VecDeque::new(),
        wrap,
    };
    let mut ready = Vec::new();
    loop {
        let patience = server.send_due()?;
        server.poller.wait(patience, &mut ready)?;
        for &token in &ready {
            match token {
                LISTENER => server.accept(&listener)?,
                COMMANDS if !server.report()? => return Ok(()),
                COMMANDS => {}
                _ => server.serve(token)?,
            }
        }
    }
}
