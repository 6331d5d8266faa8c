//! `Sender`: takes messages and control frames, and appends their bytes to the caller's buffer.

use crate::config::{Config, Role};
use crate::deflater::Deflater;
use crate::failure::is_close_code;
use crate::frame::{Frame, MAX_CONTROL_BYTES, Opcode};
use crate::mask;
use std::fmt;

/// Why nothing was sent: an error of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// A close frame was sent: it is the last frame (RFC 6455 section 5.5.1).
    Closed,
    /// A ping or pong carries at most 125 bytes.
    TooLong,
    /// Not a valid code for a close frame; see `is_close_code`.
    BadCode(u16),
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => out.write_str("a close frame has been sent"),
            Self::TooLong => out.write_str("a control frame carries at most 125 bytes"),
            Self::BadCode(code) => write!(out, "{code} is not a valid code for a close frame"),
        }
    }
}

impl std::error::Error for SendError {}

pub struct Sender {
    mask: Option<fn() -> [u8; 4]>,
    deflater: Option<Box<Deflater>>,
    compress_from_bytes: usize,
    is_closed: bool,
}

impl Sender {
    pub fn new(config: &Config) -> Self {
        let mask = match config.role {
            Role::Server => None,
            Role::Client { mask } => Some(mask),
        };
        let deflater = config.deflate.map(|params| {
            let (bits, resets) = if mask.is_none() {
                (params.server_max_window_bits, params.server_no_context_takeover)
            } else {
                (params.client_max_window_bits, params.client_no_context_takeover)
            };
            let (level, memory) = (config.compression_level, config.compression_memory);
            Box::new(Deflater::new(bits, !resets, level, memory))
        });
        Self { mask, deflater, compress_from_bytes: config.compress_from_bytes, is_closed: false }
    }

    pub fn text(&mut self, out: &mut Vec<u8>, text: &str) -> Result<(), SendError> {
        self.message(out, Opcode::Text, text.as_bytes())
    }

    pub fn binary(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), SendError> {
        self.message(out, Opcode::Binary, bytes)
    }

    /// Appends only the head of an unmasked, uncompressed message; the caller sends the `payload_bytes` after it,
    /// without a copy. Returns false, with nothing appended, if the message must be masked or compressed.
    pub fn head(
        &mut self,
        out: &mut Vec<u8>,
        is_text: bool,
        payload_bytes: usize,
    ) -> Result<bool, SendError> {
        self.check_open()?;
        if self.mask.is_some() || self.is_compressing(payload_bytes) {
            return Ok(false);
        }
        let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
        frame(opcode, payload_bytes).write(out);
        Ok(true)
    }

    pub fn ping(&mut self, out: &mut Vec<u8>, payload: &[u8]) -> Result<(), SendError> {
        self.control(out, Opcode::Ping, payload)
    }

    pub fn pong(&mut self, out: &mut Vec<u8>, payload: &[u8]) -> Result<(), SendError> {
        self.control(out, Opcode::Pong, payload)
    }

    /// The last frame. Without a code it is empty and the reason is omitted; a reason above 123 bytes is truncated.
    pub fn close(
        &mut self,
        out: &mut Vec<u8>,
        code: Option<u16>,
        reason: &str,
    ) -> Result<(), SendError> {
        let mut payload = [0; MAX_CONTROL_BYTES];
        let mut len = 0;
        if let Some(code) = code {
            if !is_close_code(code) {
                return Err(SendError::BadCode(code));
            }
            let reason = &reason[..boundary(reason, MAX_CONTROL_BYTES - 2)];
            len = 2 + reason.len();
            payload[..2].copy_from_slice(&code.to_be_bytes());
            payload[2..len].copy_from_slice(reason.as_bytes());
        }
        self.control(out, Opcode::Close, &payload[..len])?;
        self.is_closed = true;
        self.deflater = None;
        Ok(())
    }

    /// Whether a close frame was sent.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Bytes kept as context for the next compressed message: at most 1 KiB.
    pub fn window_bytes(&self) -> usize {
        self.deflater.as_ref().map_or(0, |deflater| deflater.window_bytes())
    }

    fn check_open(&self) -> Result<(), SendError> {
        if self.is_closed { Err(SendError::Closed) } else { Ok(()) }
    }

    fn is_compressing(&self, payload_bytes: usize) -> bool {
        self.deflater.is_some() && payload_bytes >= self.compress_from_bytes && payload_bytes > 0
    }

    fn control(
        &mut self,
        out: &mut Vec<u8>,
        opcode: Opcode,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.check_open()?;
        if payload.len() > MAX_CONTROL_BYTES {
            return Err(SendError::TooLong);
        }
        self.write(out, opcode, payload);
        Ok(())
    }

    fn message(
        &mut self,
        out: &mut Vec<u8>,
        opcode: Opcode,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.check_open()?;
        let is_compressing = self.is_compressing(payload.len());
        if let (true, Some(deflater)) = (is_compressing, &mut self.deflater) {
            let mut compressed = Vec::new();
            deflater.compress(payload, &mut compressed);
            self.write_compressed(out, opcode, &compressed);
        } else {
            self.write(out, opcode, payload);
        }
        Ok(())
    }

    fn write_compressed(&self, out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
        let head = Frame { is_compressed: true, ..frame(opcode, payload.len()) };
        self.write_frame(out, head, payload);
    }

    fn write(&self, out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
        self.write_frame(out, frame(opcode, payload.len()), payload);
    }

    fn write_frame(&self, out: &mut Vec<u8>, mut head: Frame, payload: &[u8]) {
        head.mask = self.mask.map(|mask| mask());
        out.reserve(crate::frame::MAX_HEAD_BYTES + payload.len());
        head.write(out);
        let start = out.len();
        out.extend_from_slice(payload);
        if let Some(key) = head.mask {
            mask::apply(&mut out[start..], key);
        }
    }
}

fn frame(opcode: Opcode, payload_bytes: usize) -> Frame {
    Frame {
        opcode,
        is_final: true,
        is_compressed: false,
        payload_bytes: payload_bytes as u64,
        mask: None,
    }
}

/// The length of the longest prefix of `text`, up to `most` bytes, that splits no character.
fn boundary(text: &str, most: usize) -> usize {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}
