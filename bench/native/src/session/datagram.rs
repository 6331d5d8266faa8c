//! A turn of one datagram and its echo. A lost datagram is counted, and another one is sent after a timeout.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use super::{Overdue, Session, Step};
use crate::fault::Fault;
use crate::pattern::Pattern;
use crate::poller::Poller;

/// Losses in a row after which the server is called silent.
const LOSSES_IN_A_ROW: u32 = 30;

#[derive(Debug)]
pub struct Datagram {
    socket: UdpSocket,
    token: usize,
    registered: bool,
    pattern: Arc<Pattern>,
    size_bytes: usize,
    /// The number of turns so far. Each sends a different slice, so that a late answer differs from a wrong one.
    turn: u64,
    lost_in_a_row: u32,
    lost: u64,
}

impl Datagram {
    pub fn connect(
        server: SocketAddr,
        token: usize,
        pattern: &Arc<Pattern>,
        size_bytes: usize,
    ) -> Result<Self, Fault> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(server)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(|e| Fault::system("udp connect", e))?,
            token,
            registered: false,
            pattern: Arc::clone(pattern),
            size_bytes,
            turn: 0,
            lost_in_a_row: 0,
            lost: 0,
        })
    }

    fn offset(&self, turn: u64) -> u64 {
        Pattern::origin(self.token) + turn * self.size_bytes as u64
    }

    fn send(&mut self) -> Result<(), Fault> {
        self.turn += 1;
        let message = self.pattern.at(self.offset(self.turn), self.size_bytes);
        self.socket.send(message).map_err(|e| Fault::system("sendto", e))?;
        Ok(())
    }

    fn is_answer(&self, turn: u64, got: &[u8]) -> bool {
        self.pattern.first_difference(self.offset(turn), got).is_none()
    }

    fn is_late_answer(&self, got: &[u8]) -> bool {
        let lost = self.lost.min(64);
        (1..=lost).any(|back| self.turn > back && self.is_answer(self.turn - back, got))
    }
}

impl Session for Datagram {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        if !self.registered {
            poller.watch(&self.socket, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
            self.registered = true;
        }
        self.send()
    }

    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault> {
        loop {
            let count = match self.socket.recv(scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Step::Pending);
                }
                Err(error) => return Err(Fault::system("recvfrom", error)),
            };
            let got = &scratch[..count];
            if count == self.size_bytes && self.is_answer(self.turn, got) {
                self.lost_in_a_row = 0;
                return Ok(Step::Done);
            }
            if !self.is_late_answer(got) {
                return Err(Fault::Corrupted { connection: self.token, offset: 0 });
            }
        }
    }

    fn patience_ns(&self) -> Option<u64> {
        Some(100_000_000)
    }

    fn overdue(&mut self) -> Result<Overdue, Fault> {
        self.lost_in_a_row += 1;
        self.lost += 1;
        if self.lost_in_a_row >= LOSSES_IN_A_ROW {
            return Ok(Overdue::Hangs);
        }
        self.send()?;
        Ok(Overdue::Again)
    }
}
