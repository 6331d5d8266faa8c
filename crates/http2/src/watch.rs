//! `Watch`: finds frames that RFC 9113 forbids and nghttp2 ignores, because it forgets streams that are over.
//!
//! | frame | on | is |
//! |---|---|---|
//! | HEADERS, DATA | a stream whose end the peer has said | STREAM_CLOSED (section 5.1) |
//! | HEADERS | a stream that was left out | PROTOCOL_ERROR (section 5.1.1) |
//! | PRIORITY | the connection; on a stream itself | PROTOCOL_ERROR (section 6.3; RFC 7540 section 5.3.1) |
//! | WINDOW_UPDATE | any stream, by nothing | PROTOCOL_ERROR (section 6.9) |
//!
//! It reads the heads of frames only, and the few bytes of the last two. A stream that this side has reset is another
//! matter: its frames may be on their way.

use crate::event::Code;
use std::collections::VecDeque;

const PREFACE_BYTES: usize = 24;
const LEAD_BYTES: usize = 9;
/// The longest payload that is looked at: PRIORITY's.
const PAYLOAD_BYTES: usize = 5;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;

/// Streams that are remembered after their end, and ranges of such that were left out.
const REMEMBERED: usize = 64;

#[derive(Default)]
pub struct Watch {
    /// The start of the current frame: its head, and its payload if that is looked at.
    start: [u8; LEAD_BYTES + PAYLOAD_BYTES],
    start_len: usize,
    /// Bytes to pass over.
    skip: usize,
    is_past_preface: bool,
    last_stream: u32,
    left_out: VecDeque<(u32, u32)>,
    over: VecDeque<u32>,
}

/// A frame that the peer must not send. `at`: where it begins in the input; 0 if it has begun before.
pub struct Wrong {
    pub at: usize,
    pub code: Code,
    pub reason: &'static str,
}

impl Watch {
    /// A stream is over, and not because this side has reset it.
    pub fn stream_over(&mut self, stream: i32) {
        self.remember(stream.unsigned_abs());
    }

    fn remember(&mut self, stream: u32) {
        if self.over.contains(&stream) {
            return;
        }
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(stream);
    }

    /// Reads on. Stops at the first wrong frame.
    pub fn read(&mut self, input: &[u8]) -> Option<Wrong> {
        let mut at = 0;
        if !self.is_past_preface {
            self.is_past_preface = true;
            self.skip = PREFACE_BYTES;
        }
        while at < input.len() {
            if self.skip > 0 {
                let len = self.skip.min(input.len() - at);
                self.skip -= len;
                at += len;
                continue;
            }
            let begun = at.saturating_sub(self.start_len);
            let wanted = self.wanted();
            let len = (wanted - self.start_len).min(input.len() - at);
            self.start[self.start_len..self.start_len + len].copy_from_slice(&input[at..at + len]);
            self.start_len += len;
            at += len;
            if self.start_len < self.wanted() {
                continue;
            }
            let wrong = self.judge();
            self.skip = (self.payload_len() + LEAD_BYTES).saturating_sub(self.start_len);
            self.start_len = 0;
            if let Some((code, reason)) = wrong {
                return Some(Wrong { at: begun, code, reason });
            }
        }
        None
    }

    fn payload_len(&self) -> usize {
        usize::from(self.start[0]) << 16
            | usize::from(self.start[1]) << 8
            | usize::from(self.start[2])
    }

    /// The bytes of the frame that are looked at.
    fn wanted(&self) -> usize {
        if self.start_len < LEAD_BYTES {
            return LEAD_BYTES;
        }
        match (self.start[3], self.payload_len()) {
            (PRIORITY, 5) => LEAD_BYTES + 5,
            (WINDOW_UPDATE, 4) => LEAD_BYTES + 4,
            _ => LEAD_BYTES,
        }
    }

    fn number(&self, at: usize) -> u32 {
        let bytes = [self.start[at], self.start[at + 1], self.start[at + 2], self.start[at + 3]];
        u32::from_be_bytes(bytes) & 0x7fff_ffff
    }

    fn judge(&mut self) -> Option<(Code, &'static str)> {
        let stream = self.number(5);
        let (kind, wanted) = (self.start[3], self.wanted());
        match kind {
            PRIORITY if stream == 0 => Some((Code::PROTOCOL_ERROR, "PRIORITY: stream_id == 0")),
            PRIORITY if wanted > LEAD_BYTES && self.number(LEAD_BYTES) == stream => {
                Some((Code::PROTOCOL_ERROR, "PRIORITY: depends on itself"))
            }
            WINDOW_UPDATE if wanted > LEAD_BYTES && self.number(LEAD_BYTES) == 0 => {
                Some((Code::PROTOCOL_ERROR, "WINDOW_UPDATE: window_size_increment == 0"))
            }
            DATA | HEADERS if self.over.contains(&stream) => {
                Some((Code::STREAM_CLOSED, "a frame on a stream that has ended"))
            }
            HEADERS => self.opened(stream),
            RST_STREAM => {
                self.remember(stream);
                None
            }
            _ => None,
        }
    }

    fn opened(&mut self, stream: u32) -> Option<(Code, &'static str)> {
        if stream <= self.last_stream {
            let is_new = self.left_out.iter().any(|(from, to)| (*from..=*to).contains(&stream));
            return is_new.then_some((Code::PROTOCOL_ERROR, "HEADERS: the stream was left out"));
        }
        let (first, last) = (self.last_stream + 1, stream.saturating_sub(2));
        // Only odd numbers are the client's.
        if last > first || (first == last && first % 2 == 1) {
            if self.left_out.len() == REMEMBERED {
                self.left_out.pop_front();
            }
            self.left_out.push_back((first, last));
        }
        self.last_stream = stream;
        None
    }
}
