//! `KeyLogFile`: the secrets of every connection, for decrypting recorded traffic (Wireshark's format).

use rustls::KeyLog;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

#[derive(Debug)]
pub struct KeyLogFile(File);

impl KeyLogFile {
    /// Appends to the file. A new one is readable only by its owner.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(Self)
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        push_hex(&mut line, client_random);
        line.push(' ');
        push_hex(&mut line, secret);
        line.push('\n');
        // A single write, so that lines of several threads and processes do not mix. A handshake does not fail if the
        // log cannot be written: `ssl`, too, only prints such an error.
        if let Err(e) = (&self.0).write_all(line.as_bytes()) {
            eprintln!("oneloop.tls: cannot write a line of the key log: {e}");
        }
    }
}

fn push_hex(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(line, "{byte:02x}");
    }
}
