//! `Frame`: the head of a frame (RFC 6455 section 5.2), parsed strictly and written in its shortest form.

use crate::failure::Failure;

/// The maximum head: two bytes, eight of length, four of mask.
pub const MAX_HEAD_BYTES: usize = 14;
/// The maximum payload of a control frame.
pub const MAX_CONTROL_BYTES: usize = 125;

const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
const RSV2_AND_3: u8 = 0x30;
const MASKED: u8 = 0x80;
const LENGTH_IN_2_BYTES: u8 = 0x7E;
const LENGTH_IN_8_BYTES: u8 = 0x7F;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xA,
        }
    }

    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub opcode: Opcode,
    pub is_final: bool,
    /// RSV1: the message is compressed (RFC 7692 section 6).
    pub is_compressed: bool,
    pub payload_bytes: u64,
    pub mask: Option<[u8; 4]>,
}

impl Frame {
    /// Parses a head at the start of `input`: the frame and the length of its head; `None` while bytes are missing.
    ///
    /// `is_masked` depends on the peer's role. A head is refused at its first invalid byte.
    pub fn parse(input: &[u8], is_masked: bool) -> Result<Option<(Self, usize)>, Failure> {
        let Some(&first) = input.first() else { return Ok(None) };
        if first & RSV2_AND_3 != 0 {
            return Err(Failure::protocol("reserved bit set"));
        }
        let opcode = Opcode::from_bits(first & 0x0F).ok_or(Failure::protocol("reserved opcode"))?;
        let (is_final, is_compressed) = (first & FIN != 0, first & RSV1 != 0);
        if opcode.is_control() && !is_final {
            return Err(Failure::protocol("fragmented control frame"));
        }
        if is_compressed && !matches!(opcode, Opcode::Text | Opcode::Binary) {
            return Err(Failure::protocol("reserved bit set"));
        }
        let Some(&second) = input.get(1) else { return Ok(None) };
        if (second & MASKED != 0) != is_masked {
            return Err(Failure::protocol(if is_masked {
                "frame without a mask"
            } else {
                "frame with a mask"
            }));
        }
        let short = second & !MASKED;
        if opcode.is_control() && usize::from(short) > MAX_CONTROL_BYTES {
            return Err(Failure::protocol("control frame too long"));
        }
        let Some((payload_bytes, mut len)) = parse_length(short, &input[2..])? else {
            return Ok(None);
        };
        let mut mask = None;
        if is_masked {
            let Some(key) = input[len..].first_chunk::<4>() else { return Ok(None) };
            mask = Some(*key);
            len += 4;
        }
        Ok(Some((Self { opcode, is_final, is_compressed, payload_bytes, mask }, len)))
    }

    /// Appends the head to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let first = self.opcode.bits()
            | if self.is_final { FIN } else { 0 }
            | if self.is_compressed { RSV1 } else { 0 };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        match self.payload_bytes {
            len @ 0..=125 => out.extend_from_slice(&[first, masked | len as u8]),
            len @ 126..=0xFFFF => {
                let [high, low] = (len as u16).to_be_bytes();
                out.extend_from_slice(&[first, masked | LENGTH_IN_2_BYTES, high, low]);
            }
            len => {
                out.extend_from_slice(&[first, masked | LENGTH_IN_8_BYTES]);
                out.extend_from_slice(&len.to_be_bytes());
            }
        }
        if let Some(key) = self.mask {
            out.extend_from_slice(&key);
        }
    }
}

/// The length of the payload, and that of the head without the mask.
fn parse_length(short: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, Failure> {
    let (payload_bytes, len, least) = match short {
        LENGTH_IN_2_BYTES => match rest.first_chunk::<2>() {
            Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 4, 126),
            None => return Ok(None),
        },
        LENGTH_IN_8_BYTES => match rest.first_chunk::<8>() {
            Some(bytes) => (u64::from_be_bytes(*bytes), 10, 0x1_0000),
            None => return Ok(None),
        },
        short => (u64::from(short), 2, 0),
    };
    if payload_bytes < least {
        return Err(Failure::protocol("length not in its shortest form"));
    }
    if payload_bytes > i64::MAX as u64 {
        return Err(Failure::protocol("length above 2^63 - 1"));
    }
    Ok(Some((payload_bytes, len)))
}
