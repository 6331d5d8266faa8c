//! `Budget`: how much is done at once in one tick.
//!
//! A coroutine that reads file after file from the cache would otherwise never let the loop go on.

/// What one operation costs besides its bytes, in bytes: some half microsecond.
const OPERATION: usize = 4096;
/// Bytes a tick: some 200 microseconds.
const PER_TICK: usize = 2 << 20;

#[derive(Default)]
pub struct Budget {
    tick: u64,
    spent: usize,
}

impl Budget {
    /// Whether `len` more bytes may be copied in this tick.
    #[inline]
    pub fn allows(&mut self, tick: u64, len: usize) -> bool {
        if self.tick != tick {
            *self = Self { tick, spent: 0 };
        }
        if self.spent >= PER_TICK {
            return false;
        }
        self.spent += len + OPERATION;
        true
    }
}
