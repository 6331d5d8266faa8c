//! A client's end of a byte stream: TCP, Unix or TLS, never blocking once it is open.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

/// A server that does not accept within this time is called silent.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Where the server listens.
#[derive(Debug, Clone)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(SocketAddr, Arc<ClientConfig>),
}

#[derive(Debug)]
pub enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Connects from 127.0.0.2, .3, …: a loopback address has some 28,000 ports only, and those of closed
/// connections stay taken for a minute.
fn connect_tcp(address: SocketAddr, index: usize) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    let host = Ipv4Addr::new(127, 0, 0, 2 + (index % 250) as u8);
    socket.bind(&SocketAddr::from((host, 0)).into())?;
    socket.connect_timeout(&address.into(), CONNECT_PATIENCE)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn begin_tls(
    stream: TcpStream,
    config: &Arc<ClientConfig>,
) -> io::Result<Box<StreamOwned<ClientConnection, TcpStream>>> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    Ok(Box::new(StreamOwned::new(connection, stream)))
}

impl Wire {
    /// Opens a connection; `index` spreads them over source addresses.
    pub fn connect(target: &Target, index: usize) -> io::Result<Self> {
        Ok(match target {
            Target::Tcp(address) => {
                let stream = connect_tcp(*address, index)?;
                stream.set_nonblocking(true)?;
                Self::Tcp(stream)
            }
            Target::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Self::Unix(stream)
            }
            Target::Tls(address, config) => {
                let mut tls = begin_tls(connect_tcp(*address, index)?, config)?;
                tls.sock.set_read_timeout(Some(CONNECT_PATIENCE))?;
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock)?;
                }
                tls.sock.set_nonblocking(true)?;
                Self::Tls(tls)
            }
        })
    }

    /// Opens a connection with its first message and waits for nothing: with TLS, reading completes the handshake,
    /// and the message leaves with its last flight. Returns how much of the message was taken.
    pub fn connect_with(
        target: &Target,
        index: usize,
        message: &[u8],
    ) -> io::Result<(Self, usize)> {
        let Target::Tls(address, config) = target else {
            let mut wire = Self::connect(target, index)?;
            let taken = wire.write(message)?;
            return Ok((wire, taken));
        };
        let mut tls = begin_tls(connect_tcp(*address, index)?, config)?;
        tls.sock.set_nonblocking(true)?;
        let taken = tls.conn.writer().write(message)?;
        let mut wire = Self::Tls(tls);
        wire.flush()?;
        Ok((wire, taken))
    }

    /// Says that nothing more is sent; with TLS only, where it is a message (RFC 8446, 6.1).
    pub fn close_notify(&mut self) -> io::Result<()> {
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
        }
        self.flush()
    }

    /// Whether the handshake, once over, resumed a session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        let Self::Tls(stream) = self else { return false };
        stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether a read that gave less than asked for may leave more behind.
    #[must_use]
    pub fn is_layered(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }

    pub fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
            Self::Tls(stream) => stream.write(from),
        }
    }

    /// Pushes out what TLS holds back because the socket was full.
    pub fn flush(&mut self) -> io::Result<()> {
        let Self::Tls(stream) = self else { return Ok(()) };
        while stream.conn.wants_write() {
            match stream.conn.write_tls(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.sock.as_fd(),
        }
    }
}
