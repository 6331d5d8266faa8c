//! What other threads hand to the loop: `call_soon_threadsafe`.

use super::Ready;
use oneloop_engine::Waker;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Inbox {
    /// Any thread pushes, the loop's thread takes all at once.
    items: Mutex<Vec<Ready>>,
    /// A hint that saves the loop a lock per tick; set after the push, cleared before the take.
    filled: AtomicBool,
    waker: Waker,
}

impl Inbox {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            items: Mutex::new(Vec::new()),
            filled: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    fn items(&self) -> MutexGuard<'_, Vec<Ready>> {
        // A panic while the lock is held is impossible: only pushes and swaps happen under it.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Any thread.
    pub fn push(&self, item: Ready) -> io::Result<()> {
        self.items().push(item);
        self.filled.store(true, Ordering::SeqCst);
        self.waker.wake()
    }

    /// Loop's thread. Clears the hint first, so that a push in between sets it again.
    pub fn take(&self) -> Vec<Ready> {
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.items())
    }

    #[inline]
    pub fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}
