//! `Wire`: one rustls connection, and the ciphertext that does not fit into it. Uses no Python objects except the
//! outgoing `bytes`.
//!
//! rustls decrypts in its own buffer of about one record. Input goes directly there; only the rest waits in `inbox`,
//! whose memory is freed as soon as it is empty.

use crate::ffi::bytes;
use crate::ffi::fallible;
use crate::tls::records::Records;
use crate::tls::session::Plain;
use oneloop_engine::sys::socket::Room;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustls::{Connection, Error};
use std::io::{self, BufRead, IoSlice, Write};

pub struct Wire {
    connection: Connection,
    /// Input that did not fit into rustls; the bytes before `start` are used.
    inbox: Vec<u8>,
    start: usize,
    /// Bytes that rustls holds and has not processed.
    unprocessed: usize,
    /// Decrypted bytes in rustls that were not read.
    decrypted: usize,
    /// Counts rustls's bytes of an incomplete record.
    records: Records,
    /// The peer has sent close_notify.
    is_ended: bool,
    /// A read has reported that.
    has_told_end: bool,
    /// We have sent close_notify.
    is_shut: bool,
}

impl Wire {
    pub fn new(mut connection: Connection) -> Self {
        // The transport has water marks; a limit here would make writes partial.
        connection.set_buffer_limit(None);
        Self {
            connection,
            inbox: Vec::new(),
            start: 0,
            unprocessed: 0,
            decrypted: 0,
            records: Records::default(),
            is_ended: false,
            has_told_end: false,
            is_shut: false,
        }
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn is_shut(&self) -> bool {
        self.is_shut
    }

    pub fn feed(&mut self, mut ciphertext: &[u8]) {
        if self.is_ended {
            // RFC 8446, 6.1: data after close_notify is ignored.
            return;
        }
        self.records.add(ciphertext);
        if self.inbox.is_empty() {
            self.give(&mut ciphertext);
        }
        self.inbox.extend_from_slice(ciphertext);
    }

    /// Never less than what reads can return.
    pub fn unread(&self) -> usize {
        self.waiting() + self.records.started()
    }

    pub fn waiting(&self) -> usize {
        self.inbox.len() - self.start + self.unprocessed + self.decrypted
    }

    pub fn may_read(&self) -> bool {
        let has_some = self.unprocessed > 0 || self.decrypted > 0 || !self.inbox.is_empty();
        has_some || (self.is_ended && !self.has_told_end)
    }

    /// Passes as much to rustls as fits.
    fn give(&mut self, rest: &mut &[u8]) {
        while !rest.is_empty() {
            match self.connection.read_tls(rest) {
                Ok(0) => *rest = &[],
                Ok(len) => self.unprocessed += len,
                // Full until data was processed or read.
                Err(_) => break,
            }
        }
    }

    fn give_from_inbox(&mut self) {
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = &inbox[self.start..];
        self.give(&mut rest);
        if rest.is_empty() {
            self.start = 0;
        } else {
            self.start = inbox.len() - rest.len();
            self.inbox = inbox;
        }
    }

    /// Processes fed data. Returns false if there was none.
    fn process(&mut self) -> Result<bool, Error> {
        if !self.inbox.is_empty() {
            self.give_from_inbox();
        }
        if self.unprocessed == 0 {
            return Ok(false);
        }
        self.unprocessed = 0;
        let state = self.connection.process_new_packets()?;
        self.decrypted = state.plaintext_bytes_to_read();
        if state.peer_has_closed() {
            self.is_ended = true;
            self.inbox = Vec::new();
            self.start = 0;
        }
        Ok(true)
    }

    /// Continues the handshake. Returns true when it is done.
    pub fn shake_hands(&mut self) -> Result<bool, Error> {
        while self.connection.is_handshaking() && self.process()? {}
        Ok(!self.connection.is_handshaking())
    }

    pub fn read(&mut self, room: &mut Room) -> Result<Plain, Error> {
        loop {
            match self.connection.reader().into_first_chunk() {
                Ok([]) => {
                    self.has_told_end = true;
                    return Ok(Plain::Ended);
                }
                Ok(chunk) => {
                    let len = chunk.len().min(room.len());
                    room[..len].copy_from_slice(bytes::as_uninit(&chunk[..len]));
                    self.connection.reader().consume(len);
                    self.decrypted -= len;
                    return Ok(Plain::Data(len));
                }
                // Nothing available now.
                Err(_) => {}
            }
            if !self.process()? {
                return Ok(Plain::Nothing);
            }
        }
    }

    pub fn write(&mut self, plaintext: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(plaintext)
    }

    pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if !self.connection.wants_write() {
            return Ok(None);
        }
        let mut parcel = Parcel { py, first: Ok(None), rest: Vec::new() };
        while self.connection.wants_write() {
            // A `Parcel` accepts everything.
            self.connection.write_tls(&mut parcel)?;
        }
        parcel.finish()
    }

    /// Sends close_notify, unless it was sent before. Returns true once the peer has sent it too, and `None` if the
    /// peer has sent data instead, which has to be read first.
    pub fn shut_down(&mut self) -> Result<Option<bool>, Error> {
        if !self.is_shut {
            self.is_shut = true;
            self.connection.send_close_notify();
        }
        loop {
            match self.connection.reader().into_first_chunk() {
                Ok([]) => return Ok(Some(true)),
                Ok(_) => return Ok(None),
                // Nothing available now.
                Err(_) => {}
            }
            if !self.process()? {
                return Ok(Some(false));
            }
        }
    }
}

/// Outgoing ciphertext: one `bytes` object, made directly from the records.
struct Parcel<'py> {
    py: Python<'py>,
    first: PyResult<Option<Bound<'py, PyBytes>>>,
    /// If rustls writes more than its first sixty-four records: those, followed by the later ones.
    rest: Vec<u8>,
}

impl<'py> Parcel<'py> {
    fn finish(self) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let first = self.first?;
        Ok(if self.rest.is_empty() { first } else { Some(fallible::bytes(self.py, &self.rest)?) })
    }
}

impl Write for Parcel<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(data)])
    }

    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.first {
            Ok(None) if self.rest.is_empty() => {
                self.first = bytes::joined(self.py, records).map(Some);
            }
            Ok(first) => {
                if let Some(first) = first {
                    self.rest.extend_from_slice(first.as_bytes());
                }
                for record in records {
                    self.rest.extend_from_slice(record);
                }
                self.first = Ok(None);
            }
            // No memory: `finish` reports it.
            Err(_) => {}
        }
        Ok(records.iter().map(|record| record.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
