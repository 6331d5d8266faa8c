//! `Event`: a message or control frame from the peer.

use crate::failure::{Failure, is_close_code};
use crate::frame::Opcode;

/// Payloads are borrowed from the input or from the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
    Ping(&'a [u8]),
    Pong(&'a [u8]),
    /// The peer sends nothing more. `None` if the frame has no code (1005 for an application).
    Close {
        code: Option<u16>,
        reason: &'a str,
    },
}

impl<'a> Event<'a> {
    pub(crate) fn of(opcode: Opcode, payload: &'a [u8]) -> Result<Self, Failure> {
        Ok(match opcode {
            Opcode::Ping => Self::Ping(payload),
            Opcode::Pong => Self::Pong(payload),
            Opcode::Close => return Self::close(payload),
            Opcode::Text => Self::Text(
                simdutf8::basic::from_utf8(payload)
                    .map_err(|_| Failure::data("text is not UTF-8"))?,
            ),
            // A message has the opcode of its first frame, which is never a continuation.
            Opcode::Binary | Opcode::Continuation => Self::Binary(payload),
        })
    }

    fn close(payload: &'a [u8]) -> Result<Self, Failure> {
        let Some((code, reason)) = payload.split_first_chunk::<2>() else {
            if payload.is_empty() {
                return Ok(Self::Close { code: None, reason: "" });
            }
            return Err(Failure::protocol("close frame of one byte"));
        };
        let code = u16::from_be_bytes(*code);
        if !is_close_code(code) {
            return Err(Failure::protocol("invalid close code"));
        }
        let reason =
            std::str::from_utf8(reason).map_err(|_| Failure::data("close reason is not UTF-8"))?;
        Ok(Self::Close { code: Some(code), reason })
    }
}
