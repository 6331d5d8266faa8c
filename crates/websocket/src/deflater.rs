//! `Deflater`: compresses messages (RFC 7692 section 7.2.1).
//!
//! zlib's state takes 165 KiB. So a connection only keeps the end of its sent data; the states belong to the thread,
//! and the most recent ones stay with the connections that used them:
//!
//! | 125 bytes, level 1 | time | compressed to |
//! |---|---|---|
//! | the connection's state is still there | 0.5 µs | 56 bytes |
//! | another state, which is given the last KiB | 3.3 µs | 57 bytes |
//! | no context | 2.2 µs | 87 bytes |

use crate::deflate::TRAILER;
use crate::window::Window;
use std::cell::RefCell;
use std::cmp;
use std::sync::atomic::{AtomicU64, Ordering};
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status};

/// zlib has no raw stream with a window of 256 bytes. With one of 512 its back-references reach at most 250 bytes
/// (the window minus the 262 bytes of look-ahead), which is valid for the smaller window too.
const LEAST_WINDOW_BITS: u8 = 9;
/// Giving it to another state costs 1 µs per KiB.
const MAX_SHOWN_BYTES: usize = 1 << 10;
const MAX_LIVE_STREAMS: usize = 8;

thread_local! {
    /// Ordered by use; the most recent one is at the end.
    static LIVE: RefCell<Vec<Live>> = const { RefCell::new(Vec::new()) };
}
static OWNERS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Settings {
    window_bits: u8,
    level: u8,
    memory: u8,
}

/// A zlib state that knows its owner's messages up to this number.
struct Live {
    settings: Settings,
    owner: u64,
    messages: u64,
    stream: Deflate,
}

pub struct Deflater {
    settings: Settings,
    keeps_context: bool,
    owner: u64,
    /// Counts the messages sent from any thread: a state that has missed one is not used.
    messages: u64,
    window: Window,
}

impl Deflater {
    pub fn new(window_bits: u8, keeps_context: bool, level: u8, memory: u8) -> Self {
        let window_bits = window_bits.clamp(8, 15);
        let settings = Settings {
            window_bits: cmp::max(window_bits, LEAST_WINDOW_BITS),
            level: level.clamp(1, 9),
            memory: memory.clamp(1, 9),
        };
        Self {
            settings,
            keeps_context,
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            messages: 0,
            window: Window::new(cmp::min(1 << window_bits, MAX_SHOWN_BYTES)),
        }
    }

    /// The number of bytes in the window.
    pub fn window_bytes(&self) -> usize {
        self.window.capacity()
    }

    /// Appends the compressed message to `out`. `message` must not be empty: zlib would have nothing to flush.
    pub fn compress(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let mut stream = self.taken();
        compress_with(&mut stream, message, out);
        self.messages += 1;
        if self.keeps_context {
            self.window.push(message);
        }
        let live =
            Live { settings: self.settings, owner: self.owner, messages: self.messages, stream };
        // While the thread ends it has no list, and the stream is dropped.
        let _ = LIVE.try_with(|list| {
            let mut list = list.borrow_mut();
            if list.len() == MAX_LIVE_STREAMS {
                list.remove(0);
            }
            list.push(live);
        });
    }

    /// This connection's state if it is still there, or another one that is given the last sent bytes.
    fn taken(&self) -> Deflate {
        let found = LIVE.try_with(|list| self.find(&mut list.borrow_mut())).ok().flatten();
        let mut stream = match found {
            Some(live) if self.keeps_context && self.is_own(&live) => return live.stream,
            Some(mut live) => {
                live.stream.reset();
                live.stream
            }
            None => self.fresh(),
        };
        if !self.window.bytes().is_empty() && stream.set_dictionary(self.window.bytes()).is_err() {
            debug_assert!(false, "a reset stream takes a dictionary");
            return self.fresh();
        }
        stream
    }

    fn is_own(&self, live: &Live) -> bool {
        (live.owner, live.messages) == (self.owner, self.messages)
    }

    /// This connection's, or, if the list is full, the least recently used one.
    fn find(&self, list: &mut Vec<Live>) -> Option<Live> {
        let own = list.iter().position(|live| live.owner == self.owner);
        let place = own.or_else(|| {
            let is_needed = list.len() == MAX_LIVE_STREAMS || !self.keeps_context;
            list.iter().position(|live| is_needed && live.settings == self.settings)
        });
        place.map(|place| list.remove(place))
    }

    fn fresh(&self) -> Deflate {
        let mut config = DeflateConfig::new(i32::from(self.settings.level));
        config.window_bits = -i32::from(self.settings.window_bits);
        config.mem_level = i32::from(self.settings.memory);
        Deflate::new_with_config(config)
    }
}

fn compress_with(stream: &mut Deflate, mut message: &[u8], out: &mut Vec<u8>) {
    // Enough for incompressible data; the loop handles what the estimate misses.
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
            // With space left everything is flushed; BufError means that nothing was left to flush.
            Ok(_) => break,
            Err(error) => unreachable!("zlib refused its own state: {error:?}"),
        }
    }
    debug_assert!(message.is_empty() && out.ends_with(&TRAILER));
    out.truncate(out.len() - TRAILER.len());
}
