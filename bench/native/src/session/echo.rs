//! A turn on a byte stream: one or many messages in a single write, then their echoes, with every byte compared.

use std::io;
use std::sync::Arc;

use super::{Session, Step};
use crate::fault::Fault;
use crate::pattern::Pattern;
use crate::poller::Poller;
use crate::wire::{Target, Wire};

#[derive(Debug)]
pub struct Echo {
    wire: Wire,
    token: usize,
    registered: bool,
    pattern: Arc<Pattern>,
    size_bytes: usize,
    pipeline: usize,
    /// Stream offsets, counted from this connection's origin in the pattern.
    sent: u64,
    received: u64,
    to_send: usize,
    to_receive: usize,
}

impl Echo {
    pub fn connect(
        target: &Target,
        token: usize,
        pattern: &Arc<Pattern>,
        size_bytes: usize,
        pipeline: usize,
    ) -> Result<Self, Fault> {
        let wire = Wire::connect(target, token).map_err(|e| Fault::system("connect", e))?;
        let origin = Pattern::origin(token);
        Ok(Self {
            wire,
            token,
            registered: false,
            pattern: Arc::clone(pattern),
            size_bytes,
            pipeline,
            sent: origin,
            received: origin,
            to_send: 0,
            to_receive: 0,
        })
    }

    fn push(&mut self) -> Result<(), Fault> {
        while self.to_send > 0 {
            match self.wire.write(self.pattern.at(self.sent, self.to_send)) {
                Ok(count) => {
                    self.sent += count as u64;
                    self.to_send -= count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::transfer("send", error, self.token)),
            }
        }
        self.wire.flush().map_err(|e| Fault::transfer("send", e, self.token))
    }

    fn accept_bytes(&mut self, got: &[u8]) -> Result<(), Fault> {
        if let Some(index) = self.pattern.first_difference(self.received, got) {
            let offset = self.received - Pattern::origin(self.token) + index as u64;
            return Err(Fault::Corrupted { connection: self.token, offset });
        }
        if got.len() > self.to_receive {
            return Err(Fault::Excess { connection: self.token });
        }
        self.received += got.len() as u64;
        self.to_receive -= got.len();
        Ok(())
    }
}

impl Session for Echo {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        if !self.registered {
            poller.watch(&self.wire, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
            self.registered = true;
        }
        self.to_send = self.size_bytes * self.pipeline;
        self.to_receive = self.to_send;
        self.push()
    }

    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault> {
        if self.to_send > 0 || self.wire.is_layered() {
            self.push()?;
        }
        loop {
            match self.wire.read(scratch) {
                Ok(0) => return Err(Fault::Closed { connection: self.token }),
                Ok(count) => {
                    self.accept_bytes(&scratch[..count])?;
                    let drained = count < scratch.len() && !self.wire.is_layered();
                    if drained || self.to_receive == 0 && !self.wire.is_layered() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::transfer("recv", error, self.token)),
            }
        }
        let whole = self.to_receive == 0 && self.to_send == 0;
        Ok(if whole { Step::Done } else { Step::Pending })
    }

    fn messages_per_turn(&self) -> u64 {
        self.pipeline as u64
    }
}
