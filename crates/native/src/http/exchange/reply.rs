//! `Reply`: a response that is known at once: a file, parts of one, or none.

use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::files::served::Opened;
use std::io;
use std::os::fd::AsRawFd;

/// A part of an open file, or several with text between them.
pub struct FilePart {
    pub opened: Opened,
    pub first: u64,
    /// The length of the body.
    pub len_bytes: u64,
    /// If there are any, they are the body; `first` is not used.
    pub pieces: Vec<Piece>,
}

/// Text, and a part of a file, which may be empty, behind it.
pub struct Piece {
    pub text: Vec<u8>,
    pub first: u64,
    pub len_bytes: u64,
}

impl FilePart {
    pub fn new(opened: Opened, first: u64, len_bytes: u64) -> Self {
        Self { opened, first, len_bytes, pieces: Vec::new() }
    }

    /// Appends the whole body. Returns false if that might block, or the file was truncated.
    pub fn read_onto(&self, out: &mut Vec<u8>) -> bool {
        if self.pieces.is_empty() {
            return self.read_part_onto(out, self.first, self.len_bytes);
        }
        self.pieces.iter().all(|piece| {
            out.extend_from_slice(&piece.text);
            self.read_part_onto(out, piece.first, piece.len_bytes)
        })
    }

    fn read_part_onto(&self, out: &mut Vec<u8>, first: u64, len_bytes: u64) -> bool {
        let (Ok(len), Ok(first)) = (usize::try_from(len_bytes), i64::try_from(first)) else {
            return false;
        };
        if len == 0 {
            return true;
        }
        let read = cached::read_onto(self.opened.fd.as_raw_fd(), out, len, first);
        matches!(read, Ok(AtOnce::Done(read)) if read == len)
    }
}

pub struct Reply {
    pub status: u16,
    /// In their written form, including `content-length`.
    pub fields: Vec<u8>,
    /// The body of a GET, if there is one.
    pub part: Option<FilePart>,
    /// The coding of `Rules` in which the body has to be sent, as `fields` say; they have no `content-length`.
    pub coding: Option<usize>,
}

impl Reply {
    /// A response without a body.
    pub fn plain(status: u16, fields: &str) -> Self {
        let fields = format!("{fields}content-length: 0\r\n").into_bytes();
        Self { status, fields, part: None, coding: None }
    }

    /// The response to an error of the operating system: a shortage may be temporary.
    pub fn of_error(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Self::plain(503, ""),
            _ => Self::plain(500, ""),
        }
    }
}
