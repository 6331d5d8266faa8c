//! `Descriptors`: what is known of each open descriptor: operations under way, closes that wait for their end (S4), and how
//! long its file may take.
//!
//! A number must not be given back while a thread, or an entry that was not sent yet, still names it:
//! the kernel could hand it to another file.

use oneloop_engine::files::Lane;
use oneloop_engine::sys::statx::Status;
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

/// Of what nobody has looked at, the worst is assumed.
#[derive(Clone, Copy, Default)]
struct Known {
    under_way: u32,
    /// Its filesystem answers at once.
    is_near: bool,
    is_file: bool,
    /// Its filesystem cannot say whether a write would wait.
    is_mute: bool,
}

#[derive(Default)]
pub struct Descriptors {
    known: Vec<Known>,
    closings: HashMap<RawFd, Closing>,
}

impl Descriptors {
    fn at(&mut self, fd: RawFd) -> Option<&mut Known> {
        let index = usize::try_from(fd).ok()?;
        if self.known.len() <= index {
            self.known.resize(index + 1, Known::default());
        }
        Some(&mut self.known[index])
    }

    fn get(&self, fd: RawFd) -> Known {
        let index = usize::try_from(fd).unwrap_or(usize::MAX);
        self.known.get(index).copied().unwrap_or_default()
    }

    /// Keeps what a look at a descriptor has brought.
    pub fn learn(&mut self, fd: RawFd, status: &Status, is_near: bool) {
        if let Some(known) = self.at(fd) {
            let is_file = status.has_offsets();
            *known = Known { is_near, is_file, is_mute: false, ..*known };
        }
    }

    /// It has an end, so that nothing waits for ever.
    pub fn is_file(&self, fd: RawFd) -> bool {
        self.get(fd).is_file
    }

    /// Whether a write may be tried at once.
    pub fn may_write_at_once(&self, fd: RawFd) -> bool {
        let known = self.get(fd);
        known.is_near && known.is_file && !known.is_mute
    }

    /// Its filesystem cannot say whether a write would wait.
    pub fn is_mute(&mut self, fd: RawFd) {
        if let Some(known) = self.at(fd) {
            known.is_mute = true;
        }
    }

    /// Whose threads work on it.
    pub fn lane(&self, fd: RawFd) -> Lane {
        if self.get(fd).is_near { Lane::Near } else { Lane::Far }
    }

    pub fn begin(&mut self, fd: RawFd) {
        if let Some(known) = self.at(fd) {
            known.under_way += 1;
        }
    }

    /// One has ended; the close that it was the last to hold up.
    pub fn end(&mut self, fd: RawFd) -> Option<Closing> {
        let known = self.at(fd)?;
        known.under_way = known.under_way.saturating_sub(1);
        if known.under_way == 0 { self.closings.remove(&fd) } else { None }
    }

    pub fn is_busy(&self, fd: RawFd) -> bool {
        self.get(fd).under_way > 0
    }

    /// The number is being given back: the next file of that number is another one. How it is to be closed.
    pub fn forget(&mut self, fd: RawFd) -> Lane {
        let lane = self.lane(fd);
        if let Some(known) = self.at(fd) {
            *known = Known::default();
        }
        lane
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
