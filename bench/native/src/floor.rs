//! Servers that do the rivals' work without Python: they show what the kernel's part costs on this machine.

pub mod answer;
pub mod ask;
pub mod datagram;
pub mod files;
pub mod http;
pub mod inbox;
pub mod listen;
pub mod names;
#[cfg(feature = "openssl")]
pub mod openssl_peer;
pub mod repeat;
pub mod rustls_peer;
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
