//! `End`: asks a thread that sleeps in a poll to end. The eventfd is never read, so that a poll which begins afterwards
//! returns too. `models/ending.rs` tries all orders.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Bell, eventfd};
use std::io;
use std::os::fd::RawFd;
#[cfg(not(feature = "models"))]
use std::os::fd::{AsFd, AsRawFd};

/// Belongs to one thread. While one thread of the program waits for our thread to end before it forks, another one may
/// fork too and start the next thread.
#[derive(Debug)]
pub struct End {
    bell: Bell,
    is_wanted: AtomicBool,
}

impl End {
    pub fn new() -> io::Result<Self> {
        Ok(Self { bell: eventfd::create()?, is_wanted: AtomicBool::new(false) })
    }

    /// For the thread's poller: readable when the end is wanted.
    pub fn raw_fd(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// From any thread, any number of times.
    pub fn ask(&self) -> io::Result<()> {
        self.is_wanted.store(true, Ordering::SeqCst);
        match eventfd::signal(self.bell.as_fd()) {
            // The counter is full: that wakes the thread as well.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }

    /// For the thread, after each poll.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    #[cfg(all(test, feature = "models"))]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }
}
