//! The datagram echo server: receive, send back, until the socket is empty.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::announce;
use crate::poller::Poller;

/// Serves for ever; the starter kills it.
pub fn serve() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    let mut poller = Poller::new()?;
    poller.watch_input(&socket, 0)?;
    announce(socket.local_addr()?.port())?;
    let mut buffer = vec![0; 65_536];
    let mut ready = Vec::new();
    loop {
        poller.wait(None, &mut ready)?;
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((count, from)) => {
                    // A client that went away answers with ECONNREFUSED: nothing to do for it.
                    if let Err(error) = socket.send_to(&buffer[..count], from) {
                        if error.kind() != io::ErrorKind::ConnectionRefused {
                            return Err(error);
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }
}
