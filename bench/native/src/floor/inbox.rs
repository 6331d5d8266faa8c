//! The ciphertext from one read of a socket. All connections of a server share one buffer.

use std::cell::RefCell;
use std::io::{self, Read};
use std::net::TcpStream;
use std::rc::Rc;

use super::stream::BUFFER_LEN;

/// A record and what stands around it: what may come out beyond what one read brought in (RFC 8446, 5.2).
const RECORD_LEN: usize = 18 * 1024;

/// Cloned for each connection; a connection leaves nothing in it when its turn ends.
#[derive(Debug, Clone)]
pub struct Inbox(Rc<RefCell<Vec<u8>>>);

impl Default for Inbox {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(vec![0; BUFFER_LEN - RECORD_LEN])))
    }
}

impl Inbox {
    /// Reads the socket once. Its plaintext fits a buffer of `BUFFER_LEN`, a record begun earlier included.
    pub fn fill(&self, socket: &mut TcpStream) -> io::Result<usize> {
        socket.read(&mut self.0.borrow_mut())
    }

    /// Gives the bytes from `from` to `upto` to a reader of them.
    pub fn with<T>(&self, from: usize, upto: usize, take: impl FnOnce(&[u8]) -> T) -> T {
        take(&self.0.borrow()[from..upto])
    }
}
