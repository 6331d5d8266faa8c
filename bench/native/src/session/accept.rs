//! A turn that is a whole connection: connect, one message there and back, then either end closes.

use std::io;
use std::sync::Arc;

use super::{Session, Step};
use crate::fault::Fault;
use crate::pattern::Pattern;
use crate::poller::Poller;
use crate::wire::{Target, Wire};

/// Who ends a connection. The other end sees the end of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Closer {
    Server,
    Client,
}

#[derive(Debug)]
pub struct Accept {
    target: Target,
    token: usize,
    pattern: Arc<Pattern>,
    size_bytes: usize,
    closer: Closer,
    wire: Option<Wire>,
    turns: usize,
    received: usize,
}

impl Accept {
    #[must_use]
    pub fn new(
        target: &Target,
        token: usize,
        pattern: &Arc<Pattern>,
        size_bytes: usize,
        closer: Closer,
    ) -> Self {
        Self {
            target: target.clone(),
            token,
            pattern: Arc::clone(pattern),
            size_bytes,
            closer,
            wire: None,
            turns: 0,
            received: 0,
        }
    }

    fn origin(&self) -> u64 {
        Pattern::origin(self.token + self.turns)
    }
}

impl Session for Accept {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        self.turns += 1;
        self.received = 0;
        let mut wire = Wire::connect(&self.target, self.token * 31 + self.turns)
            .map_err(|e| Fault::system("connect", e))?;
        let message = self.pattern.at(self.origin(), self.size_bytes);
        let sent = wire.write(message).map_err(|e| Fault::transfer("send", e, self.token))?;
        if sent < self.size_bytes {
            let error = io::Error::other("a message must fit the socket buffer here");
            return Err(Fault::transfer("send", error, self.token));
        }
        poller.watch(&wire, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
        self.wire = Some(wire);
        Ok(())
    }

    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault> {
        let Some(wire) = self.wire.as_mut() else { return Ok(Step::Pending) };
        loop {
            match wire.read(scratch) {
                Ok(0) => break,
                Ok(count) => {
                    let offset = Pattern::origin(self.token + self.turns) + self.received as u64;
                    if let Some(index) = self.pattern.first_difference(offset, &scratch[..count]) {
                        let offset = (self.received + index) as u64;
                        return Err(Fault::Corrupted { connection: self.token, offset });
                    }
                    self.received += count;
                    if self.closer == Closer::Client && self.received >= self.size_bytes {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Step::Pending);
                }
                Err(error) => return Err(Fault::transfer("recv", error, self.token)),
            }
        }
        if self.received != self.size_bytes {
            return Err(Fault::Closed { connection: self.token });
        }
        self.wire = None;
        Ok(Step::Done)
    }
}
