//! The epoll echo server on byte streams: one shared read buffer, one read and one send per event, a queue only
//! when the socket is full. Also the server that closes after the first message. It works with plain and with TLS
//! connections.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use super::listen::Listener;
use crate::poller::Poller;

pub const BUFFER_LEN: usize = 256 * 1024;
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

/// A served connection, plain or through TLS. A read asks the socket once, and `WouldBlock` may mean that TLS alone
/// had something to read; what TLS has to send leaves with the next `flush`.
pub trait Peer: Read + Write + AsFd {
    /// Whether the peer has announced that it sends nothing more. On a plain connection this is a read of zero bytes.
    fn has_ended(&self) -> bool {
        false
    }

    /// Whether TLS continued an earlier session, as far as the handshake has come.
    fn is_resumed(&self) -> bool {
        false
    }

    /// Says the same to the other end, where that is more than closing the socket.
    fn say_goodbye(&mut self) {}
}

impl Peer for File {}

/// Makes an accepted socket a peer.
pub type Wrap<'a> = &'a mut dyn FnMut(OwnedFd) -> io::Result<Box<dyn Peer>>;

/// Nothing between the socket and the echo.
pub fn plain(fd: OwnedFd) -> io::Result<Box<dyn Peer>> {
    Ok(Box::new(File::from(fd)))
}

struct Connection {
    peer: Box<dyn Peer>,
    /// What the peer did not take yet.
    unsent: Vec<u8>,
    /// Registered for output: the socket was full.
    is_writing: bool,
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

    fn echo(&mut self, buffer: &mut [u8], manner: Manner) -> io::Result<Then> {
        let count = match self.peer.read(buffer) {
            Ok(0) => return Ok(Then::Close),
            Ok(count) => count,
            Err(error) if is_again(&error) => return self.flush(),
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
        if manner == Manner::Once || self.peer.has_ended() {
            return Ok(Then::Close);
        }
        self.flush()
    }

    /// Serves one event: first what the socket did not take, then what has come.
    fn serve(&mut self, buffer: &mut [u8], manner: Manner) -> io::Result<Then> {
        if self.is_writing && self.flush()? == Then::Write {
            return Ok(Then::Write);
        }
        self.echo(buffer, manner)
    }
}

/// Serves for ever; the starter kills it.
pub fn serve(path: Option<&Path>, manner: Manner, wrap: Wrap<'_>) -> io::Result<()> {
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
                    let peer = wrap(fd)?;
                    let connection = Connection { peer, unsent: Vec::new(), is_writing: false };
                    if connections.len() <= token {
                        connections.resize_with(token + 1, || None);
                    }
                    connections[token] = Some(connection);
                }
                continue;
            }
            let Some(Some(connection)) = connections.get_mut(token) else { continue };
            match connection.serve(&mut buffer, manner) {
                Ok(Then::Close) => {
                    connection.peer.say_goodbye();
                    connections[token] = None;
                }
                Err(_) => connections[token] = None,
                Ok(then) => {
                    let writes = then == Then::Write;
                    if writes != connection.is_writing {
                        connection.is_writing = writes;
                        poller.rewatch(&connection.peer, token, writes)?;
                    }
                }
            }
        }
    }
}
