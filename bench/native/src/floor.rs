//! Servers that do the rivals' work without Python: what the kernel alone costs on this machine.

pub mod datagram;
pub mod files;
pub mod http;
pub mod listen;
pub mod spawn;
pub mod stream;
pub mod timers;
pub mod uring;

use std::io::{self, Write};

/// Tells the starter that connections will be accepted.
pub fn announce(port: u16) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready {port}")?;
    out.flush()
}
