//! A minimal HTTP server: it answers `GET /N` with N bytes `x` in one vectored write.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsRawFd;

use super::listen::Listener;
use crate::poller::Poller;

const LISTENER: usize = usize::MAX;

struct Connection {
    peer: File,
    request: Vec<u8>,
    unsent: Vec<u8>,
}

/// A complete request.
struct Request {
    /// The number in its path.
    wanted_len: usize,
    len: usize,
    /// It is the connection's last.
    closes: bool,
}

fn parse(request: &[u8]) -> io::Result<Option<Request>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request).map_err(io::Error::other)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(len) => {
            let path = parsed.path.unwrap_or("/").trim_start_matches('/');
            let wanted_len = path.parse().map_err(io::Error::other)?;
            let closes = parsed.headers.iter().any(|h| {
                h.name.eq_ignore_ascii_case("connection") && h.value.eq_ignore_ascii_case(b"close")
            });
            Ok(Some(Request { wanted_len, len, closes }))
        }
    }
}

impl Connection {
    /// Answers what is complete; false when the peer has gone.
    fn serve(&mut self, buffer: &mut [u8], body: &[u8]) -> io::Result<bool> {
        match self.peer.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => self.request.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
        while let Some(request) = parse(&self.request)? {
            self.request.drain(..request.len);
            let len = request.wanted_len;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
            self.respond(head.as_bytes(), &body[..len])?;
            if request.closes && self.unsent.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn respond(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let sent = match self.peer.write_vectored(&parts) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.unsent.extend_from_slice(&head[sent.min(head.len())..]);
        self.unsent.extend_from_slice(&body[sent.saturating_sub(head.len())..]);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.peer.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Serves for ever; the starter kills it.
pub fn serve() -> io::Result<()> {
    let mut poller = Poller::new()?;
    let listener = Listener::open(None)?;
    poller.watch_input(&listener, LISTENER)?;
    let body = vec![b'x'; 1 << 20];
    let mut buffer = vec![0; 65_536];
    let mut connections: HashMap<usize, Connection> = HashMap::new();
    let mut ready = Vec::new();
    loop {
        poller.wait(None, &mut ready)?;
        for &token in &ready {
            if token == LISTENER {
                while let Some(fd) = listener.accept()? {
                    let token = fd.as_raw_fd() as usize;
                    poller.watch_input(&fd, token)?;
                    let (request, unsent) = (Vec::new(), Vec::new());
                    connections.insert(token, Connection { peer: fd.into(), request, unsent });
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&token) else { continue };
            let was_writing = !connection.unsent.is_empty();
            let served = if was_writing {
                connection.flush().map(|()| true)
            } else {
                connection.serve(&mut buffer, &body)
            };
            let writing = !connection.unsent.is_empty();
            match served {
                Ok(true) if writing != was_writing => {
                    poller.rewatch(&connection.peer, token, writing)?;
                }
                Ok(true) => {}
                Ok(false) | Err(_) => drop(connections.remove(&token)),
            }
        }
    }
}
