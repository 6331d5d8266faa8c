//! The datagram echo server: receive, send back.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::announce;
use crate::poller::Poller;

/// The most that is read before the poller is asked again.
const LONGEST_BURST: usize = 64;

/// Echoes up to `limit` datagrams; returns how many there were.
fn echo_burst(socket: &UdpSocket, buffer: &mut [u8], limit: usize) -> io::Result<usize> {
    for done in 0..limit {
        let (count, from) = match socket.recv_from(buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(done),
            // A client that went away: nothing to do for it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        match socket.send_to(&buffer[..count], from) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => return Err(error),
            _ => {}
        }
    }
    Ok(limit)
}

/// Serves for ever; the starter kills it.
///
/// A wake-up usually finds as many datagrams as the one before; reading just as many spares the read that would say
/// that there are no more.
pub fn serve() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    let mut poller = Poller::new()?;
    poller.watch_input(&socket, 0)?;
    announce(socket.local_addr()?.port())?;
    let mut buffer = vec![0; 65_536];
    let mut ready = Vec::new();
    let mut limit = 1;
    loop {
        poller.wait(None, &mut ready)?;
        let found = echo_burst(&socket, &mut buffer, limit)?;
        limit = if found == limit { LONGEST_BURST.min(limit * 2) } else { found.max(1) };
    }
}
