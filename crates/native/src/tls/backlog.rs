//! `Backlog`: plaintext waiting to be encrypted, in pieces that make few records.
//!
//! Short writes are copied together up to a record's length; long ones are kept by reference.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;

/// The maximum plaintext of a record (RFC 8446, 5.1).
const RECORD: usize = 16 * 1024;

pub enum Piece {
    /// Starting at this byte.
    Object(Py<PyBytes>, usize),
    Copy(Vec<u8>, usize),
}

impl Piece {
    pub fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Self::Object(object, from) => &object.as_bytes(py)[*from..],
            Self::Copy(copy, from) => &copy[*from..],
        }
    }

    fn skip(&mut self, len: usize) {
        match self {
            Self::Object(_, from) | Self::Copy(_, from) => *from += len,
        }
    }
}

#[derive(Default)]
pub struct Backlog {
    pieces: VecDeque<Piece>,
    len_bytes: usize,
}

impl Backlog {
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends an object's data, starting at byte `from`.
    pub fn push(&mut self, object: &Bound<'_, PyBytes>, from: usize) {
        let bytes = &object.as_bytes()[from..];
        if bytes.is_empty() {
            return;
        }
        self.len_bytes += bytes.len();
        if let Some(Piece::Copy(copy, _)) = self.pieces.back_mut()
            && copy.len() + bytes.len() <= RECORD
        {
            copy.extend_from_slice(bytes);
            return;
        }
        self.pieces.push_back(if bytes.len() < RECORD / 2 {
            Piece::Copy(bytes.to_vec(), 0)
        } else {
            Piece::Object(object.clone().unbind(), from)
        });
    }

    /// Takes out the first piece, which the caller puts back if it is not used up.
    pub fn pop(&mut self, py: Python<'_>) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.len_bytes -= piece.bytes(py).len();
        if self.pieces.is_empty() {
            // An idle connection keeps no memory for it.
            self.pieces = VecDeque::new();
        }
        Some(piece)
    }

    /// Puts back a piece without its first `used` bytes.
    pub fn put_back(&mut self, py: Python<'_>, mut piece: Piece, used: usize) {
        piece.skip(used);
        let left = piece.bytes(py).len();
        if left > 0 {
            self.len_bytes += left;
            self.pieces.push_front(piece);
        }
    }
}
