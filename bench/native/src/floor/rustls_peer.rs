//! A served connection through rustls: one read of the socket for all available data, one send for all output.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use super::inbox::Inbox;
use super::stream::Peer;
use crate::tls;

#[derive(Debug)]
pub struct RustlsPeer {
    connection: ServerConnection,
    socket: TcpStream,
    inbox: Inbox,
    has_ended: bool,
}

impl RustlsPeer {
    fn new(fd: OwnedFd, config: &Arc<ServerConfig>, inbox: &Inbox) -> io::Result<Self> {
        let mut connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        let socket = TcpStream::from(fd);
        Ok(Self { connection, socket, inbox: inbox.clone(), has_ended: false })
    }

    /// Decrypts everything in `cipher`.
    fn decrypt(&mut self, mut cipher: &[u8], into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while !cipher.is_empty() {
            self.connection.read_tls(&mut cipher)?;
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            let plain = state.plaintext_bytes_to_read();
            if plain > 0 {
                self.connection.reader().read_exact(&mut into[done..done + plain])?;
                done += plain;
            }
            if state.peer_has_closed() {
                self.has_ended = true;
                break;
            }
        }
        Ok(done)
    }
}

impl Read for RustlsPeer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inbox.fill(&mut self.socket)?;
        let inbox = self.inbox.clone();
        let done = inbox.with(0, count, |cipher| self.decrypt(cipher, into))?;
        if done == 0 && count > 0 && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(done)
    }
}

impl Write for RustlsPeer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for RustlsPeer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Peer for RustlsPeer {
    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    fn say_goodbye(&mut self) {
        self.connection.send_close_notify();
        // The other end may have gone, which is no loss to anybody.
        let _ = self.flush();
    }
}

/// Wraps accepted sockets; `file` holds the key and the chain.
pub fn wrap(file: &Path) -> io::Result<impl FnMut(OwnedFd) -> io::Result<Box<dyn Peer>> + use<>> {
    let config = tls::server(file)?;
    let inbox = Inbox::default();
    Ok(move |fd| Ok(Box::new(RustlsPeer::new(fd, &config, &inbox)?) as Box<dyn Peer>))
}
