//! The floor of HTTP clients: it writes the bytes of a request and reads those of its answer, on one thread and epoll.
//!
//! It looks at the status and counts the bytes; the length of an answer is that of the first one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::poller::Poller;

const BUFFER_LEN: usize = 256 * 1024;
const GOOD: &[u8] = b"HTTP/1.1 200 ";

#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub port: u16,
    /// Of the answer's body.
    pub size: usize,
    /// Of the request's body; 0: a GET.
    pub upload: usize,
    pub at_once: usize,
    /// A connection for each request.
    pub closes: bool,
    pub warmup: Duration,
    /// Zero: each connection sends one request.
    pub duration: Duration,
}

struct Connection {
    socket: TcpStream,
    sent: usize,
    got: usize,
    is_over: bool,
}

struct Client {
    plan: Plan,
    request: Vec<u8>,
    /// Of an answer with its head; 0 before the first one.
    answer_len: usize,
    poller: Poller,
    buffer: Vec<u8>,
    connections: Vec<Connection>,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("wrong answer: {what}"))
}

fn request_of(plan: Plan) -> Vec<u8> {
    let Plan { port, size, upload, .. } = plan;
    let (method, length) = if upload == 0 {
        ("GET", String::new())
    } else {
        ("POST", format!("Content-Length: {upload}\r\n"))
    };
    let head = format!(
        "{method} /{size} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n\
         User-Agent: floor\r\n{length}\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + upload, b'x');
    bytes
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Client {
    fn new(plan: Plan) -> io::Result<Self> {
        Ok(Self {
            plan,
            request: request_of(plan),
            answer_len: 0,
            poller: Poller::new()?,
            buffer: vec![0; BUFFER_LEN],
            connections: Vec::new(),
        })
    }

    /// Opens the connection of a number, and sends its request.
    fn open(&mut self, number: usize) -> io::Result<()> {
        let socket = connect(self.plan.port)?;
        self.poller.watch(&socket, number)?;
        let connection = Connection { socket, sent: 0, got: 0, is_over: false };
        if number < self.connections.len() {
            self.connections[number] = connection;
        } else {
            self.connections.push(connection);
        }
        self.send(number)
    }

    fn send(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        while connection.sent < self.request.len() {
            match connection.socket.write(&self.request[connection.sent..]) {
                Ok(count) => connection.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what there is. True if the answer is complete.
    fn receive(&mut self, number: usize) -> io::Result<bool> {
        let connection = &mut self.connections[number];
        loop {
            let count = match connection.socket.read(&mut self.buffer) {
                Ok(0) => return Err(wrong("the connection has ended")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            if connection.got == 0 {
                if !self.buffer.starts_with(GOOD) {
                    return Err(wrong("another status"));
                }
                if self.answer_len == 0 {
                    let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
                    self.answer_len = end.ok_or_else(|| wrong("a long head"))? + 4 + self.plan.size;
                }
            }
            connection.got += count;
            if connection.got > self.answer_len {
                return Err(wrong("too long"));
            }
            if connection.got == self.answer_len {
                return Ok(true);
            }
            if count < self.buffer.len() {
                return Ok(false);
            }
        }
    }

    /// Keeps all connections busy until the time is over and nothing is under way. Returns the number of answers.
    fn run(&mut self, duration: Duration, at_once: usize) -> io::Result<u64> {
        let until = Instant::now() + duration;
        let (mut answers, mut under_way) = (0, at_once);
        for number in 0..at_once {
            if number >= self.connections.len() || self.connections[number].is_over {
                self.open(number)?;
            } else {
                self.next(number)?;
            }
        }
        let mut ready = Vec::new();
        while under_way > 0 {
            self.poller.wait(None, &mut ready)?;
            for &number in &ready {
                if self.connections[number].is_over {
                    continue;
                }
                self.send(number)?;
                if !self.receive(number)? {
                    continue;
                }
                answers += 1;
                if self.plan.closes {
                    self.connections[number].is_over = true;
                }
                if Instant::now() >= until {
                    under_way -= 1;
                } else if self.plan.closes {
                    self.open(number)?;
                } else {
                    self.next(number)?;
                }
            }
        }
        Ok(answers)
    }

    /// Sends the next request on a kept connection.
    fn next(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        (connection.sent, connection.got) = (0, 0);
        self.send(number)
    }
}

/// Warms up, waits for a line, and prints the number of answers of the window.
pub fn measure(plan: Plan) -> io::Result<()> {
    let mut client = Client::new(plan)?;
    if !plan.warmup.is_zero() {
        client.run(plan.warmup, if plan.duration.is_zero() { 1 } else { plan.at_once })?;
    }
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let began = Instant::now();
    let requests = client.run(plan.duration, plan.at_once)?;
    let wall_ns = began.elapsed().as_nanos() as u64;
    println!("{}", json!({"requests": requests, "wall_ns": wall_ns}));
    io::stdin().read_line(&mut String::new()).map(|_| ())
}
