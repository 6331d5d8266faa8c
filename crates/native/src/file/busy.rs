//! `Busy`: operations under way on each descriptor, and closes that wait for their end (S4).
//!
//! A number must not be given back while a thread, or an entry that was not sent yet, still names it:
//! the kernel could hand it to another file.

use pyo3::prelude::*;
use std::collections::HashMap;
use std::os::fd::RawFd;

/// A close that waits.
pub struct Closing {
    /// Whoever hears of it; nobody, if the file was left open.
    pub future: Option<Py<PyAny>>,
    /// Nothing was written.
    pub clean: bool,
}

#[derive(Default)]
pub struct Busy {
    counts: Vec<u32>,
    closings: HashMap<RawFd, Closing>,
}

impl Busy {
    fn count(&mut self, fd: RawFd) -> Option<&mut u32> {
        let index = usize::try_from(fd).ok()?;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        Some(&mut self.counts[index])
    }

    pub fn begin(&mut self, fd: RawFd) {
        if let Some(count) = self.count(fd) {
            *count += 1;
        }
    }

    /// One has ended; the close that it was the last to hold up.
    pub fn end(&mut self, fd: RawFd) -> Option<Closing> {
        let count = self.count(fd)?;
        *count = count.saturating_sub(1);
        if *count == 0 { self.closings.remove(&fd) } else { None }
    }

    pub fn is_busy(&self, fd: RawFd) -> bool {
        usize::try_from(fd).is_ok_and(|index| self.counts.get(index).is_some_and(|n| *n > 0))
    }

    /// Gives the close back if another one waits already.
    pub fn close_later(&mut self, fd: RawFd, closing: Closing) -> Option<Closing> {
        if self.closings.contains_key(&fd) {
            return Some(closing);
        }
        self.closings.insert(fd, closing);
        None
    }

    /// The descriptors that wait to be closed, at the loop's end.
    pub fn take_closings(&mut self) -> Vec<(RawFd, Closing)> {
        self.closings.drain().collect()
    }
}
