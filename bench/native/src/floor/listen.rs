//! A listening socket on loopback or on a path, which is printed for the parent process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{SocketFlags, accept_with, sockopt};

use super::announce;

const BACKLOG: i32 = 4096;

#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    is_tcp: bool,
}

impl Listener {
    /// Listens on `path`, or on a free port of 127.0.0.1.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let domain = if path.is_some() { socket2::Domain::UNIX } else { socket2::Domain::IPV4 };
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        match path {
            Some(path) => socket.bind(&socket2::SockAddr::unix(path)?)?,
            None => socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?,
        }
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let port = match path {
            Some(_) => 0,
            None => TcpListener::from(socket.try_clone()?).local_addr()?.port(),
        };
        announce(port)?;
        Ok(Self { socket: socket.into(), is_tcp: path.is_none() })
    }

    /// The next connection, nonblocking and without Nagle's delay; None when there is none.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(&self.socket, flags) {
            Ok(fd) => {
                if self.is_tcp {
                    sockopt::set_tcp_nodelay(&fd, true)?;
                }
                Ok(Some(fd))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
