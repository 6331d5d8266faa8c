//! Shared by the tests: frames written by hand, readers that split their input, a random number generator.

#![allow(dead_code, reason = "no test needs all of it")]

use oneloop_websocket::{Config, DeflateParams, Event, Failure, Receiver, Role};

pub const KEY: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

pub fn mask() -> [u8; 4] {
    KEY
}

pub fn server() -> Config {
    Config::new(Role::Server)
}

pub fn client() -> Config {
    Config::new(Role::Client { mask })
}

pub fn deflating(mut config: Config, params: DeflateParams) -> Config {
    config.deflate = Some(params);
    config.compress_from_bytes = 0;
    config.compression_level = 6;
    config
}

/// An event that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

impl From<Event<'_>> for Said {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Text(text) => Self::Text(text.to_owned()),
            Event::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Event::Ping(bytes) => Self::Ping(bytes.to_vec()),
            Event::Pong(bytes) => Self::Pong(bytes.to_vec()),
            Event::Close { code, reason } => Self::Close(code, reason.to_owned()),
        }
    }
}

/// A frame from a client. `first` is the first byte: flags and opcode.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len() as u64, true);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// A frame from a server.
pub fn bare(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len() as u64, false);
    bytes.extend_from_slice(payload);
    bytes
}

pub fn head(first: u8, len: u64, is_masked: bool) -> Vec<u8> {
    let masked = if is_masked { 0x80 } else { 0 };
    let mut bytes = vec![first];
    if len <= 125 {
        bytes.push(masked | len as u8);
    } else if let Ok(len) = u16::try_from(len) {
        bytes.push(masked | 0x7E);
        bytes.extend_from_slice(&len.to_be_bytes());
    } else {
        bytes.push(masked | 0x7F);
        bytes.extend_from_slice(&len.to_be_bytes());
    }
    if is_masked {
        bytes.extend_from_slice(&KEY);
    }
    bytes
}

pub type Outcome = (Vec<Said>, Option<Failure>);

/// Feeds the pieces to a receiver until it fails.
pub fn feed<'a>(receiver: &mut Receiver, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut said = Vec::new();
    for piece in pieces {
        let mut input = piece.to_vec();
        let mut rest = &mut input[..];
        loop {
            match receiver.read(rest) {
                Err(failure) => return (said, Some(failure)),
                Ok(step) => {
                    let (consumed, is_end) = (step.consumed, step.event.is_none());
                    said.extend(step.event.map(Said::from));
                    if is_end {
                        assert_eq!(consumed, rest.len(), "bytes left without an event");
                        break;
                    }
                    rest = &mut rest[consumed..];
                }
            }
        }
    }
    (said, None)
}

/// The outcome, which must be the same for the whole input, byte by byte, and in random pieces.
pub fn outcome(config: &Config, bytes: &[u8]) -> Outcome {
    let whole = feed(&mut Receiver::new(config), [bytes]);
    assert_eq!(feed(&mut Receiver::new(config), bytes.chunks(1)), whole, "bytewise");
    let mut random = Random::new(bytes.len() as u64);
    for _ in 0..20 {
        let pieces = random.cut(bytes, 40);
        assert_eq!(feed(&mut Receiver::new(config), pieces), whole, "in random pieces");
    }
    whole
}

/// The code of the failure that ends these bytes, sent to a server.
pub fn refused(config: &Config, bytes: &[u8]) -> u16 {
    let (said, failure) = outcome(config, bytes);
    failure.unwrap_or_else(|| panic!("accepted: {said:?}")).code
}

/// The content of these bytes, sent to a server, without a failure.
pub fn accepted(config: &Config, bytes: &[u8]) -> Vec<Said> {
    let (said, failure) = outcome(config, bytes);
    assert_eq!(failure, None);
    said
}

/// splitmix64: the same numbers in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Pieces of at most `most` bytes.
    pub fn cut<'a>(&mut self, mut bytes: &'a [u8], most: usize) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(1 + self.below(most.min(bytes.len())));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }

    /// Text or bytes with repetitions, so that they compress.
    pub fn payload(&mut self, most: usize) -> Vec<u8> {
        let len = self.below(most + 1);
        let alphabet = 1 + self.below(256);
        let mut bytes: Vec<u8> = Vec::with_capacity(len);
        while bytes.len() < len {
            if !bytes.is_empty() && self.is(3) {
                let start = self.below(bytes.len());
                let end = (start + 1 + self.below(300)).min(bytes.len());
                bytes.extend_from_within(start..end);
            } else {
                bytes.push(self.below(alphabet) as u8);
            }
        }
        bytes.truncate(len);
        bytes
    }

    pub fn text(&mut self, most_characters: usize) -> String {
        let len = self.below(most_characters + 1);
        let mut text = String::new();
        for _ in 0..len {
            let most = [0x80, 0x800, 0x1_0000, 0x11_0000][self.below(4)];
            text.extend(char::from_u32(self.below(most) as u32));
        }
        text
    }
}
