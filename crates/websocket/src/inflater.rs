//! `Inflater`: decompresses messages piece by piece, and never writes more than the limit.
//!
//! The limit is looked at while inflating: a bomb costs the limit's bytes, never its own. The state of zlib is
//! allocated with the first compressed message.

use crate::deflate::TRAILER;
use crate::failure::Failure;
use std::cmp;
use zlib_rs::{Inflate, InflateFlush, Status};

/// Final blocks in one message. Each needs a new stream: without a limit, two bytes would cost microseconds.
const MAX_FINAL_BLOCKS: u32 = 64;
const LEAST_ROOM_BYTES: usize = 512;

const BROKEN: Failure = Failure::data("invalid compressed data");

pub struct Inflater {
    window_bits: u8,
    keeps_context: bool,
    max_output_bytes: usize,
    stream: Option<Box<Inflate>>,
    final_blocks: u32,
}

impl Inflater {
    pub fn new(window_bits: u8, keeps_context: bool, max_output_bytes: usize) -> Self {
        Self { window_bits, keeps_context, max_output_bytes, stream: None, final_blocks: 0 }
    }

    /// Appends what `piece` decompresses to. `message` holds what came before of the same message, and nothing else.
    pub fn push(&mut self, mut piece: &[u8], message: &mut Vec<u8>) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        let stream = self.stream.get_or_insert_with(|| Box::new(fresh(self.window_bits)));
        let mut room = cmp::max(LEAST_ROOM_BYTES, piece.len().saturating_mul(4));
        loop {
            let start = message.len();
            // One byte above the limit, which tells a message that is too long from one that just fits.
            let most = self.max_output_bytes.saturating_add(1) - start;
            let added = cmp::min(room, most);
            if message.capacity() - start < added {
                // Twofold each time, and never beyond the limit.
                message.reserve_exact(cmp::min(cmp::max(room, start), most));
            }
            message.resize(start + added, 0);
            let (before_in, before_out) = (stream.total_in(), stream.total_out());
            let result = stream.decompress(piece, &mut message[start..], InflateFlush::SyncFlush);
            let written = (stream.total_out() - before_out) as usize;
            let has_room = start + written < message.len();
            message.truncate(start + written);
            piece = &piece[(stream.total_in() - before_in) as usize..];
            if message.len() > self.max_output_bytes {
                return Err(Failure::too_big("message too long"));
            }
            match result {
                Ok(Status::StreamEnd) => {
                    self.final_blocks += 1;
                    if self.final_blocks > MAX_FINAL_BLOCKS {
                        return Err(Failure::data("too many final blocks"));
                    }
                    **stream = continued(self.window_bits, message)?;
                }
                Ok(Status::Ok | Status::BufError) if has_room && piece.is_empty() => return Ok(()),
                Ok(Status::Ok | Status::BufError) if has_room => return Err(BROKEN),
                Ok(Status::Ok | Status::BufError) => room = room.saturating_mul(2),
                Err(_) => return Err(BROKEN),
            }
        }
    }

    /// The message has ended: appends the rest of it.
    pub fn finish(&mut self, message: &mut Vec<u8>) -> Result<(), Failure> {
        self.push(&TRAILER, message)?;
        self.final_blocks = 0;
        if !self.keeps_context {
            self.stream = None;
        }
        Ok(())
    }
}

fn fresh(window_bits: u8) -> Inflate {
    Inflate::new(false, window_bits)
}

/// A stream for what follows a final block (RFC 7692 section 7.2.3.4), which may refer back to this message.
///
/// Earlier messages are lost to it. No known peer refers to them after a final block; if one does, its data is
/// refused, not misread.
fn continued(window_bits: u8, message: &[u8]) -> Result<Inflate, Failure> {
    let mut stream = fresh(window_bits);
    let window_bytes = 1 << window_bits;
    let window = &message[message.len().saturating_sub(window_bytes)..];
    if !window.is_empty() {
        stream.set_dictionary(window).map_err(|_| BROKEN)?;
    }
    Ok(stream)
}
