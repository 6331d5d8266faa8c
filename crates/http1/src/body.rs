//! `BodyReader`: where a body ends, and what of the input belongs to it.

use crate::head::Framing;
use crate::limits::Limits;
use crate::refusal::Refusal;

/// What the start of the input is.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the body, and how many bytes of the input they took, framing included. `data` may be empty while
    /// `consumed` is not. `ends`: the body is complete, its framing and trailers read.
    Data { data: &'a [u8], consumed: usize, ends: bool },
    /// Nothing of the input can be used before more of it comes.
    Incomplete,
}

/// Reads one body of a known framing.
#[derive(Debug)]
pub struct BodyReader {
    left: u64,
}

impl BodyReader {
    /// 413 if the announced length is above the limit.
    pub fn new(framing: Framing, limits: &Limits) -> Result<Self, Refusal> {
        match framing {
            Framing::Length(len) if len > limits.body_bytes => {
                Err(Refusal::new(413, "the body is longer than allowed"))
            }
            Framing::Length(len) => Ok(Self { left: len }),
            Framing::None | Framing::Chunked | Framing::UntilClose => Ok(Self { left: 0 }),
        }
    }

    /// Whether the body is complete; at once where there is none.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Bytes of the body that have not come, where the framing says so.
    pub fn left(&self) -> Option<u64> {
        Some(self.left)
    }

    /// Reads on. Called again with the rest of the input, and with more of it, until `is_complete`.
    pub fn read<'a>(&mut self, input: &'a [u8], _limits: &Limits) -> Result<Piece<'a>, Refusal> {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        if len == 0 {
            return Ok(Piece::Incomplete);
        }
        self.left -= len as u64;
        Ok(Piece::Data { data: &input[..len], consumed: len, ends: self.left == 0 })
    }
}
