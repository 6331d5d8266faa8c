//! Why a run of the generator failed, in words for a table row.

use std::fmt;
use std::io;

#[derive(Debug)]
pub enum Fault {
    /// An echoed byte differs from the byte that was sent.
    Corrupted { connection: usize, offset: u64 },
    /// The server closed a connection that it should have kept.
    Closed { connection: usize },
    /// More came back than was sent.
    Excess { connection: usize },
    /// No answer within the generator's patience.
    Silent { connections: usize, seconds: u64 },
    /// A response that is not what was asked for (HTTP).
    BadResponse { what: String },
    /// A system call failed.
    System { what: &'static str, error: io::Error },
}

impl Fault {
    #[must_use]
    pub fn system(what: &'static str, error: io::Error) -> Self {
        Self::System { what, error }
    }

    /// A failed read or write on a connection; a reset is the server's way of closing it.
    #[must_use]
    pub fn transfer(what: &'static str, error: io::Error, connection: usize) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Self::Closed { connection }
            }
            _ => Self::System { what, error },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupted { connection, offset } => {
                write!(out, "wrong answer: connection {connection} differs at byte {offset}")
            }
            Self::Closed { connection } => write!(out, "server closed connection {connection}"),
            Self::Excess { connection } => {
                write!(out, "wrong answer: connection {connection} got more than it sent")
            }
            Self::Silent { connections, seconds } => {
                write!(out, "no answer on {connections} connection(s) for {seconds} s")
            }
            Self::BadResponse { what } => write!(out, "wrong answer: {what}"),
            Self::System { what, error } => write!(out, "{what}: {error}"),
        }
    }
}
