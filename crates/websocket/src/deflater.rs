//! `Deflater`: compresses messages (RFC 7692 section 7.2.1).
//!
//! The state of zlib is allocated with the first message that is compressed.

use crate::deflate::TRAILER;
use std::cmp;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status};

/// zlib has no raw stream with a window of 256 bytes. With one of 512 it refers back at most 250 bytes
/// (the window less the 262 bytes that it looks ahead), which is right for the smaller window, too.
const LEAST_WINDOW_BITS: u8 = 9;

pub struct Deflater {
    config: DeflateConfig,
    keeps_context: bool,
    stream: Option<Box<Deflate>>,
}

impl Deflater {
    pub fn new(window_bits: u8, keeps_context: bool, level: u8, memory: u8) -> Self {
        let mut config = DeflateConfig::new(i32::from(level.clamp(1, 9)));
        config.window_bits = -i32::from(window_bits.clamp(LEAST_WINDOW_BITS, 15));
        config.mem_level = i32::from(memory.clamp(1, 9));
        Self { config, keeps_context, stream: None }
    }

    /// Appends the compressed message to `out`. `message` may not be empty: zlib has nothing to flush then.
    pub fn compress(&mut self, mut message: &[u8], out: &mut Vec<u8>) {
        let config = self.config;
        let stream = self.stream.get_or_insert_with(|| Box::new(Deflate::new_with_config(config)));
        // Enough for what does not compress; the loop is for what the estimate misses.
        let mut room = message.len() + message.len() / 8 + 64;
        loop {
            let start = out.len();
            out.resize(start + room, 0);
            let (before_in, before_out) = (stream.total_in(), stream.total_out());
            let result = stream.compress(message, &mut out[start..], DeflateFlush::SyncFlush);
            let written = (stream.total_out() - before_out) as usize;
            message = &message[(stream.total_in() - before_in) as usize..];
            out.truncate(start + written);
            match result {
                Ok(Status::Ok) if written == room => room = cmp::max(room / 4, 64),
                // With room left everything is flushed; BufError says that nothing was left to flush.
                Ok(_) => break,
                Err(error) => unreachable!("zlib refused its own state: {error:?}"),
            }
        }
        debug_assert!(message.is_empty() && out.ends_with(&TRAILER));
        out.truncate(out.len() - TRAILER.len());
        if !self.keeps_context {
            self.stream = None;
        }
    }
}
