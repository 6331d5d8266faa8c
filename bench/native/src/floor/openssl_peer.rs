//! A served connection through the system's OpenSSL, with the same reads and sends as `rustls_peer`.
//!
//! OpenSSL reads from and writes to a `Shuttle`, not the socket. With a socket it would make two reads for each record
//! (head and body), and a separate send for each record.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslFiletype, SslMethod, SslMode, SslStream, SslVersion,
};

use super::inbox::Inbox;
use super::stream::Peer;

/// What one read of the socket brought in, and what has to leave.
struct Shuttle {
    socket: TcpStream,
    inbox: Inbox,
    /// OpenSSL has taken the bytes before it.
    from: usize,
    upto: usize,
    outbox: Vec<u8>,
    sent: usize,
}

impl Read for Shuttle {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.upto - self.from);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let upto = self.from + count;
        self.inbox.with(self.from, upto, |cipher| into[..count].copy_from_slice(cipher));
        self.from = upto;
        Ok(count)
    }
}

impl Write for Shuttle {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.outbox.extend_from_slice(from);
        Ok(from.len())
    }

    /// OpenSSL's own wish, which is not followed: `send` is called once for all.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shuttle {
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            self.sent += self.socket.write(&self.outbox[self.sent..])?;
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(())
    }
}

pub struct OpensslPeer {
    stream: SslStream<Shuttle>,
    has_ended: bool,
}

impl fmt::Debug for OpensslPeer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpensslPeer").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl OpensslPeer {
    fn new(fd: OwnedFd, context: &SslContext, inbox: &Inbox) -> io::Result<Self> {
        let mut ssl = Ssl::new(context)?;
        ssl.set_accept_state();
        let shuttle = Shuttle {
            socket: TcpStream::from(fd),
            inbox: inbox.clone(),
            from: 0,
            upto: 0,
            outbox: Vec::new(),
            sent: 0,
        };
        Ok(Self { stream: SslStream::new(ssl, shuttle)?, has_ended: false })
    }

    /// Decrypts everything in the shuttle. Does not ask OpenSSL for what cannot be there.
    fn decrypt(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        loop {
            match self.stream.ssl_read(&mut into[done..]) {
                Ok(count) => done += count,
                Err(error) => match error.code() {
                    ErrorCode::WANT_READ => return Ok(done),
                    ErrorCode::ZERO_RETURN => {
                        self.has_ended = true;
                        return Ok(done);
                    }
                    _ => return Err(error.into_io_error().unwrap_or_else(io::Error::other)),
                },
            }
            let shuttle = self.stream.get_ref();
            if shuttle.from == shuttle.upto && self.stream.ssl().pending() == 0 {
                return Ok(done);
            }
        }
    }
}

impl Read for OpensslPeer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let shuttle = self.stream.get_mut();
        let count = shuttle.inbox.fill(&mut shuttle.socket)?;
        if count == 0 {
            return Ok(0);
        }
        (shuttle.from, shuttle.upto) = (0, count);
        let done = self.decrypt(into)?;
        if done == 0 && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(done)
    }
}

impl Write for OpensslPeer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.ssl_write(from).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().send()
    }
}

impl AsFd for OpensslPeer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().socket.as_fd()
    }
}

impl Peer for OpensslPeer {
    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn say_goodbye(&mut self) {
        // The other end may have gone, which is no loss to anybody.
        let _ = self.stream.shutdown();
        let _ = self.flush();
    }
}

/// As `rustls_peer::wrap`. The buffers of idle connections are given back, as CPython has OpenSSL do.
pub fn wrap(file: &Path) -> io::Result<impl FnMut(OwnedFd) -> io::Result<Box<dyn Peer>> + use<>> {
    let mut builder = SslContext::builder(SslMethod::tls_server())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_mode(SslMode::RELEASE_BUFFERS);
    builder.set_certificate_chain_file(file)?;
    builder.set_private_key_file(file, SslFiletype::PEM)?;
    let context = builder.build();
    let inbox = Inbox::default();
    Ok(move |fd| Ok(Box::new(OpensslPeer::new(fd, &context, &inbox)?) as Box<dyn Peer>))
}
