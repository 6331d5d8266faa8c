//! `Inflater`: decompresses messages piece by piece, and never writes more than the limit.
//!
//! The limit is checked while inflating, so a compression bomb costs only the limit's bytes. Between messages a
//! connection only keeps its window. For each message it takes a zlib state from the thread's spare ones: 0.38 µs for
//! a message of 125 bytes, against 0.23 µs with a state per connection.

use crate::deflate::TRAILER;
use crate::failure::Failure;
use crate::window::Window;
use std::cell::RefCell;
use std::cmp;
use zlib_rs::{Inflate, InflateFlush, Status};

/// The maximum number of final blocks in one message. Each needs a new stream: without a limit, two bytes would cost
/// microseconds.
const MAX_FINAL_BLOCKS: u32 = 64;
const LEAST_ROOM_BYTES: usize = 512;
const MAX_SPARE_STREAMS: usize = 4;

const BROKEN: Failure = Failure::data("invalid compressed data");

thread_local! {
    static SPARE: RefCell<Vec<Inflate>> = const { RefCell::new(Vec::new()) };
}

pub struct Inflater {
    window: Window,
    keeps_context: bool,
    max_output_bytes: usize,
    /// Present during a message.
    stream: Option<Inflate>,
    final_blocks: u32,
}

impl Inflater {
    pub fn new(window_bits: u8, keeps_context: bool, max_output_bytes: usize) -> Self {
        let window = Window::new(1 << window_bits.clamp(8, 15));
        Self { window, keeps_context, max_output_bytes, stream: None, final_blocks: 0 }
    }

    /// The number of bytes in the window.
    pub fn window_bytes(&self) -> usize {
        self.window.capacity()
    }

    /// Appends the decompressed `piece`. `message` holds the previous data of the same message, and nothing else.
    pub fn push(&mut self, mut piece: &[u8], message: &mut Vec<u8>) -> Result<(), Failure> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(taken(self.window.bytes())?),
        };
        let mut room = cmp::max(LEAST_ROOM_BYTES, piece.len().saturating_mul(4));
        loop {
            let start = message.len();
            // One byte above the limit, to distinguish a message that is too long from one that fits exactly.
            let most = self.max_output_bytes.saturating_add(1) - start;
            let added = cmp::min(room, most);
            if message.capacity() - start < added {
                // Doubles each time, but never exceeds the limit.
                message.reserve_exact(cmp::min(cmp::max(room, start), most));
            }
            message.resize(start + added, 0);
            let (before_in, before_out) = (stream.total_in(), stream.total_out());
            let result = stream.decompress(piece, &mut message[start..], InflateFlush::SyncFlush);
            let written = (stream.total_out() - before_out) as usize;
            message.truncate(start + written);
            piece = &piece[(stream.total_in() - before_in) as usize..];
            if message.len() > self.max_output_bytes {
                return Err(Failure::too_big("message too long"));
            }
            match result {
                Ok(Status::StreamEnd) => {
                    // The rest may refer to the data before it (RFC 7692 section 7.2.3.4).
                    self.final_blocks += 1;
                    if self.final_blocks > MAX_FINAL_BLOCKS {
                        return Err(Failure::data("too many final blocks"));
                    }
                    restart(stream, &self.window.with(message))?;
                }
                Ok(_) if written == added => room = room.saturating_mul(2),
                Ok(_) if piece.is_empty() => return Ok(()),
                Ok(_) | Err(_) => return Err(BROKEN),
            }
        }
    }

    /// Ends the message: appends its last bytes.
    pub fn finish(&mut self, message: &mut Vec<u8>) -> Result<(), Failure> {
        self.push(&TRAILER, message)?;
        self.final_blocks = 0;
        if self.keeps_context {
            self.window.push(message);
        }
        if let Some(stream) = self.stream.take() {
            // While the thread ends it has no list, and the stream is dropped.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < MAX_SPARE_STREAMS {
                    spare.push(stream);
                }
            });
        }
        Ok(())
    }
}

/// A stream for a message that may refer to `window`.
fn taken(window: &[u8]) -> Result<Inflate, Failure> {
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
    let mut stream = spare.unwrap_or_else(|| Inflate::new(false, 15));
    restart(&mut stream, window)?;
    Ok(stream)
}

fn restart(stream: &mut Inflate, window: &[u8]) -> Result<(), Failure> {
    stream.reset(false);
    if !window.is_empty() {
        stream.set_dictionary(window).map_err(|_| BROKEN)?;
    }
    Ok(())
}
