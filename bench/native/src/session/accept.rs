//! A turn that is a whole connection: connect, one message there and back, then either end closes.
//!
//! ```text
//!  plain, the client closes:  connect, message -> echo: done
//!  TLS, the client closes:    handshake, message -> echo -> close_notify -> the server's close_notify: done
//!  the server closes:         (handshake,) message -> echo -> end of the stream: done
//! ```
//!
//! With TLS the client waits for the server's close_notify, so that the server's part of closing is inside the window.

use std::io;
use std::sync::Arc;

use super::{Session, Step, Tally};
use crate::fault::Fault;
use crate::pattern::Pattern;
use crate::poller::Poller;
use crate::tls;
use crate::wire::{Target, Wire};

/// Which side ends a connection. The other side then reads the end of the stream.
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
    /// Our close_notify has left.
    closing: bool,
    tally: Tally,
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
            closing: false,
            tally: Tally::default(),
        }
    }

    /// Each connection tries to resume the TLS session of the one before it; the tally says how often it did.
    #[must_use]
    pub fn resuming(mut self) -> Self {
        if let Target::Tls(_, config) = &mut self.target {
            *config = tls::resuming(config);
        }
        self
    }

    fn origin(&self) -> u64 {
        Pattern::origin(self.token + self.turns)
    }

    fn compare(&mut self, got: &[u8]) -> Result<(), Fault> {
        let offset = self.origin() + self.received as u64;
        if let Some(index) = self.pattern.first_difference(offset, got) {
            let offset = (self.received + index) as u64;
            return Err(Fault::Corrupted { connection: self.token, offset });
        }
        self.received += got.len();
        Ok(())
    }

    /// Closes our side; whether the server's side is still to come.
    fn begin_closing(&mut self) -> Result<bool, Fault> {
        let Some(wire) = self.wire.as_mut() else { return Ok(false) };
        if wire.is_layered() && !self.closing {
            wire.close_notify().map_err(|e| Fault::transfer("send", e, self.token))?;
            self.closing = true;
        }
        Ok(self.closing)
    }

    /// The stream has ended, or nothing is expected from it any more.
    fn finish(&mut self) -> Result<Step, Fault> {
        if self.received != self.size_bytes {
            return Err(Fault::Closed { connection: self.token });
        }
        let Some(mut wire) = self.wire.take() else { return Ok(Step::Pending) };
        if !self.closing {
            // A server that waits for our close_notify is not to wait long; one that has gone does not mind.
            let _ = wire.close_notify();
        }
        self.tally.resumed += u64::from(wire.is_resumed());
        Ok(Step::Done)
    }
}

impl Session for Accept {
    fn start(&mut self, poller: &Poller) -> Result<(), Fault> {
        self.turns += 1;
        self.received = 0;
        self.closing = false;
        let message = self.pattern.at(self.origin(), self.size_bytes);
        let (wire, sent) = Wire::connect_with(&self.target, self.token * 31 + self.turns, message)
            .map_err(|e| Fault::transfer("connect", e, self.token))?;
        if sent < self.size_bytes {
            let error = io::Error::other("a message must fit the socket buffer here");
            return Err(Fault::transfer("send", error, self.token));
        }
        poller.watch(&wire, self.token).map_err(|e| Fault::system("epoll_ctl", e))?;
        self.wire = Some(wire);
        Ok(())
    }

    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault> {
        loop {
            let Some(wire) = self.wire.as_mut() else { return Ok(Step::Pending) };
            let whole = self.received == self.size_bytes;
            match wire.read(scratch) {
                Ok(0) => break,
                Ok(count) => {
                    self.compare(&scratch[..count])?;
                    let whole = self.received >= self.size_bytes;
                    if self.closer == Closer::Client && whole && !self.begin_closing()? {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Step::Pending);
                }
                Err(error) if whole && wire.is_layered() && is_end(&error) => {
                    self.tally.truncated += 1;
                    break;
                }
                Err(error) => return Err(Fault::transfer("recv", error, self.token)),
            }
        }
        self.finish()
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// An end of the stream that TLS did not announce.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}
