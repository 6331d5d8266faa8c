//! The epoll echo server on byte streams: one shared read buffer, one send per read, a queue only when the
//! socket is full. Also the server that closes after the first message, and the same over rustls.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::listen::Listener;
use crate::poller::Poller;

const BUFFER_LEN: usize = 256 * 1024;
const LISTENER: usize = usize::MAX;

/// One byte of every so many is changed by the corrupting server.
const CORRUPT_AT: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Echo,
    /// Close after the first message.
    Once,
    /// Answer wrongly: for the bench's own tests.
    Corrupt,
}

/// A served connection: plain or through TLS, which `File` and `StreamOwned` read and write alike.
trait Peer: Read + Write + AsFd {}
impl Peer for File {}

#[derive(Debug)]
struct TlsPeer(StreamOwned<ServerConnection, TcpStream>);

impl Read for TlsPeer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}
impl Write for TlsPeer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
impl AsFd for TlsPeer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}
impl Peer for TlsPeer {}

struct Connection {
    peer: Box<dyn Peer>,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

/// What remains of a connection after it was served.
#[derive(PartialEq, Eq)]
enum Then {
    Read,
    Write,
    Close,
}

fn is_again(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl Connection {
    fn flush(&mut self) -> io::Result<Then> {
        while !self.unsent.is_empty() {
            match self.peer.write(&self.unsent) {
                Ok(count) => {
                    self.unsent.drain(..count);
                }
                Err(error) if is_again(&error) => return Ok(Then::Write),
                Err(error) => return Err(error),
            }
        }
        match self.peer.flush() {
            Err(error) if is_again(&error) => Ok(Then::Write),
            other => other.map(|()| Then::Read),
        }
    }

    fn echo(&mut self, buffer: &mut [u8], manner: Manner, layered: bool) -> io::Result<Then> {
        loop {
            let count = match self.peer.read(buffer) {
                Ok(0) => return Ok(Then::Close),
                Ok(count) => count,
                Err(error) if is_again(&error) => return Ok(Then::Read),
                Err(error) => return Err(error),
            };
            if manner == Manner::Corrupt {
                buffer[(count - 1).min(CORRUPT_AT)] ^= 0x20;
            }
            let mut done = 0;
            while done < count {
                match self.peer.write(&buffer[done..count]) {
                    Ok(taken) => done += taken,
                    Err(error) if is_again(&error) => {
                        self.unsent.extend_from_slice(&buffer[done..count]);
                        return Ok(Then::Write);
                    }
                    Err(error) => return Err(error),
                }
            }
            if manner == Manner::Once {
                return Ok(Then::Close);
            }
            // TLS may hold decrypted bytes that epoll does not know of.
            if !layered {
                return Ok(Then::Read);
            }
        }
    }
}

fn wrap(fd: OwnedFd, tls: Option<&Arc<ServerConfig>>) -> io::Result<Box<dyn Peer>> {
    let Some(config) = tls else { return Ok(Box::new(File::from(fd))) };
    let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    Ok(Box::new(TlsPeer(StreamOwned::new(session, TcpStream::from(fd)))))
}

/// Serves for ever; the starter kills it.
pub fn serve(
    path: Option<&Path>,
    manner: Manner,
    tls: Option<&Arc<ServerConfig>>,
) -> io::Result<()> {
    let mut poller = Poller::new()?;
    let listener = Listener::open(path)?;
    poller.watch_input(&listener, LISTENER)?;
    // By descriptor number: the kernel hands out the lowest that is free.
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut buffer = vec![0; BUFFER_LEN];
    let mut ready = Vec::new();
    loop {
        poller.wait(None, &mut ready)?;
        for &token in &ready {
            if token == LISTENER {
                while let Some(fd) = listener.accept()? {
                    let token = fd.as_raw_fd() as usize;
                    poller.watch_input(&fd, token)?;
                    let connection = Connection { peer: wrap(fd, tls)?, unsent: Vec::new() };
                    if connections.len() <= token {
                        connections.resize_with(token + 1, || None);
                    }
                    connections[token] = Some(connection);
                }
                continue;
            }
            let Some(Some(connection)) = connections.get_mut(token) else { continue };
            let was_writing = !connection.unsent.is_empty();
            let mut then = if was_writing { connection.flush() } else { Ok(Then::Read) };
            if matches!(then, Ok(Then::Read)) {
                then = connection.echo(&mut buffer, manner, tls.is_some());
            }
            match then {
                Ok(Then::Close) | Err(_) => connections[token] = None,
                Ok(Then::Write) if !was_writing => poller.rewatch(&connection.peer, token, true)?,
                Ok(Then::Read) if was_writing => poller.rewatch(&connection.peer, token, false)?,
                Ok(_) => {}
            }
        }
    }
}
