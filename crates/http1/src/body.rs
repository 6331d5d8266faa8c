//! `BodyReader`: finds the end of a body, and its bytes in the input.
//!
//! ```text
//! Line ── size > 0 ──▶ Data ──▶ DataCr ──▶ DataLf ──▶ Line
//!   └──── size = 0 ──▶ Trailers ──▶ Complete        Length, UntilClose stay; Length ends in Complete
//! ```

use crate::chunk_line::ChunkLine;
use crate::head::Framing;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::trailers::{TrailerField, Trailers};
use std::mem::discriminant;

/// The start of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the body, and how many input bytes they took, including framing. `data` may be empty while `consumed`
    /// is not. `ends`: the body is complete, and its framing and trailers were read.
    Data { data: &'a [u8], consumed: usize, ends: bool },
    /// More input is needed before any of it can be used.
    Incomplete,
}

/// A step of a body, for callers that report chunks.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The line before a chunk is complete; also for the last chunk.
    ChunkBegins,
    Data(&'a [u8]),
    /// The CRLF after a chunk's data is complete.
    ChunkEnds,
    /// The trailers are complete, and with them the body.
    Ends,
    Incomplete,
}

#[derive(Debug)]
enum State {
    Length,
    UntilClose,
    Line(ChunkLine),
    Data,
    DataCr,
    DataLf,
    Trailers,
    Complete,
    /// The framing is invalid: every later call returns the same refusal.
    Refused(Refusal),
}

/// Reads one body with a known framing.
#[derive(Debug)]
pub struct BodyReader {
    state: State,
    /// Bytes of the body, or of the chunk, that are still to come.
    left: u64,
    /// Bytes of the body so far, including those of the current chunk.
    len_bytes: u64,
    trailers: Option<Box<Trailers>>,
}

impl BodyReader {
    /// 413 if the announced length is above the limit.
    pub fn new(framing: Framing, limits: &Limits) -> Result<Self, Refusal> {
        let (state, left) = match framing {
            Framing::None | Framing::Length(0) => (State::Complete, 0),
            Framing::Length(len) if len > limits.body_bytes => return Err(TOO_LONG),
            Framing::Length(len) => (State::Length, len),
            Framing::Chunked => (State::Line(ChunkLine::default()), 0),
            Framing::UntilClose => (State::UntilClose, 0),
        };
        Ok(Self { state, left, len_bytes: 0, trailers: None })
    }

    /// Whether the body is complete. True from the start if there is none; never true for a body that ends with the
    /// connection.
    #[inline]
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// Whether the end of the connection is the end of the body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// The trailer fields that are allowed there.
    pub fn trailers(&self) -> &[TrailerField] {
        self.trailers.as_ref().map_or(&[], |trailers| &trailers.fields)
    }

    /// Bytes of the body that are still missing, if the framing has a length.
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Complete => Some(0),
            State::Length => Some(self.left),
            _ => None,
        }
    }

    /// Reads the next part. Call it again with the rest of the input, and with more input, until `is_complete`.
    ///
    /// A refusal is final: the start of the next message cannot be found.
    #[inline]
    pub fn read<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Result<Piece<'a>, Refusal> {
        if input.is_empty() {
            return Ok(Piece::Incomplete);
        }
        match self.state {
            State::Length => {
                let data = self.take_data(input);
                if self.left == 0 {
                    self.state = State::Complete;
                }
                Ok(Piece::Data { data, consumed: data.len(), ends: self.left == 0 })
            }
            State::UntilClose => {
                self.add_len(input.len() as u64, limits)?;
                Ok(Piece::Data { data: input, consumed: input.len(), ends: false })
            }
            State::Complete => Ok(Piece::Incomplete),
            _ => self.read_chunked(input, limits),
        }
    }

    /// Reads framing, then bytes of one chunk, then framing again as far as possible. The last piece has `ends` set.
    fn read_chunked<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Result<Piece<'a>, Refusal> {
        let mut data: &'a [u8] = &[];
        let mut at = 0;
        while at < input.len() && !self.is_complete() {
            if matches!(self.state, State::Data) {
                if !data.is_empty() {
                    break;
                }
                data = self.take_data(&input[at..]);
                at += data.len();
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            match self.read_framing(&input[at..], limits) {
                Ok(taken) => at += taken,
                Err(refusal) => {
                    self.state = State::Refused(refusal);
                    if at == 0 {
                        return Err(refusal);
                    }
                    // The data before it is returned first, as if the bytes had arrived one by one.
                    break;
                }
            }
        }
        Ok(Piece::Data { data, consumed: at, ends: self.is_complete() })
    }

    /// Reads bytes between the data of chunks. Returns how many.
    fn read_framing(&mut self, input: &[u8], limits: &Limits) -> Result<usize, Refusal> {
        match (&mut self.state, input[0]) {
            (State::Line(line), byte) => {
                if line.take(byte)? {
                    let size = line.size;
                    self.begin_chunk(size, limits)?;
                }
                Ok(1)
            }
            // RFC 9112 section 7.1: exactly CRLF. Other bytes would be read as the next chunk's size.
            (State::DataCr, b'\r') => {
                self.state = State::DataLf;
                Ok(1)
            }
            (State::DataLf, b'\n') => {
                self.state = State::Line(ChunkLine::default());
                Ok(1)
            }
            (State::Trailers, _) => {
                let (taken, ends) = self.take_trailers(input, limits)?;
                if ends {
                    self.state = State::Complete;
                }
                Ok(taken)
            }
            (State::Refused(refusal), _) => Err(*refusal),
            _ => Err(Refusal::bad("a chunk is longer than its size")),
        }
    }

    /// Like `read`, one step at a time. Returns the step and how many input bytes it took.
    pub fn read_event<'a>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
    ) -> Result<(Event<'a>, usize), Refusal> {
        if matches!(self.state, State::Length | State::UntilClose) {
            return Ok(match self.read(input, limits)? {
                Piece::Data { data, consumed, .. } => (Event::Data(data), consumed),
                Piece::Incomplete => (Event::Incomplete, 0),
            });
        }
        let mut at = 0;
        while at < input.len() && !self.is_complete() {
            if matches!(self.state, State::Data) {
                let data = self.take_data(&input[at..]);
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok((Event::Data(data), at + data.len()));
            }
            let before = discriminant(&self.state);
            match self.read_framing(&input[at..], limits) {
                Ok(taken) => at += taken,
                Err(refusal) => {
                    self.state = State::Refused(refusal);
                    return Err(refusal);
                }
            }
            if before != discriminant(&self.state) {
                match self.state {
                    State::Data | State::Trailers => return Ok((Event::ChunkBegins, at)),
                    State::Line(_) => return Ok((Event::ChunkEnds, at)),
                    State::Complete => return Ok((Event::Ends, at)),
                    _ => {}
                }
            }
        }
        Ok((Event::Incomplete, at))
    }

    fn begin_chunk(&mut self, size: u64, limits: &Limits) -> Result<(), Refusal> {
        self.add_len(size, limits)?;
        self.left = size;
        self.state = if size == 0 { State::Trailers } else { State::Data };
        Ok(())
    }

    /// The usual end, an empty line, needs no memory.
    fn take_trailers(&mut self, input: &[u8], limits: &Limits) -> Result<(usize, bool), Refusal> {
        if self.trailers.is_none() && input.starts_with(b"\r\n") {
            return Ok((2, true));
        }
        self.trailers.get_or_insert_default().take(input, limits)
    }

    fn add_len(&mut self, len_bytes: u64, limits: &Limits) -> Result<(), Refusal> {
        self.len_bytes = self.len_bytes.checked_add(len_bytes).ok_or(TOO_LONG)?;
        if self.len_bytes > limits.body_bytes { Err(TOO_LONG) } else { Ok(()) }
    }

    #[inline]
    fn take_data<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        self.left -= len as u64;
        &input[..len]
    }
}

const TOO_LONG: Refusal = Refusal::new(413, "the body is longer than allowed");

#[cfg(test)]
mod tests;
