//! The interface between the engine and one client connection, for every protocol.
//!
//! ```text
//!  idle --start--> busy --ready: Done--> idle
//!                  busy --overdue: Again--> busy (a datagram was lost)
//! ```

mod accept;
mod chunked;
mod datagram;
mod echo;
mod http;
mod websocket;

pub use accept::{Accept, Closer};
pub use datagram::Datagram;
pub use echo::Echo;
pub use http::{Exchange, Http};
pub use websocket::WebSocket;

use crate::fault::Fault;
use crate::poller::Poller;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Step {
    Pending,
    Done,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Overdue {
    /// The message is counted as lost and has been sent again.
    Again,
    /// A stream does not lose messages: the server hangs.
    Hangs,
}

/// TLS connections that are over, of those that a session opens and closes.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub struct Tally {
    /// Their handshake resumed an earlier session.
    pub resumed: u64,
    /// The server ended them without close_notify.
    pub truncated: u64,
}

impl Tally {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let truncated = self.truncated + other.truncated;
        Self { resumed: self.resumed + other.resumed, truncated }
    }

    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let truncated = self.truncated - earlier.truncated;
        Self { resumed: self.resumed - earlier.resumed, truncated }
    }
}

pub trait Session {
    /// Begins a turn; registers its descriptor with the poller when it is new.
    fn start(&mut self, poller: &Poller) -> Result<(), Fault>;

    /// Reads and writes what is possible; Done when the whole turn has come back and is right.
    fn ready(&mut self, scratch: &mut [u8]) -> Result<Step, Fault>;

    /// Messages in a turn.
    fn messages_per_turn(&self) -> u64 {
        1
    }

    /// How long a turn may take before `overdue` is asked; None: as long as the engine's patience.
    fn patience_ns(&self) -> Option<u64> {
        None
    }

    /// What TLS did so far on connections that are over.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    fn overdue(&mut self) -> Result<Overdue, Fault> {
        Ok(Overdue::Hangs)
    }
}
