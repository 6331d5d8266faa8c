//! `Descriptors`: the state of each open descriptor: its running operations, a close that waits for their end (S4),
//! and the properties of its filesystem.
//!
//! A number must not be released while a thread or an unsent entry still uses it: the kernel could reuse it for
//! another file.

use oneloop_engine::files::mount::Place;
use oneloop_engine::files::{Lane, cached};
use oneloop_engine::sys::statx::{Mount, Status};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// A file grows by a few MiB in this time, if its data is copied to the kernel as fast as possible.
const JUST_NOW: Duration = Duration::from_millis(1);

/// A waiting close.
pub struct Closing {
    /// The future of the close; `None` if the file was left open by the program.
    pub future: Option<Py<PyAny>>,
    /// Nothing was written.
    pub clean: bool,
}

/// Defaults to the worst case for a descriptor that was not checked.
#[derive(Clone, Copy, Default)]
struct Known {
    under_way: u32,
    /// Its filesystem answers without blocking.
    is_local: bool,
    is_file: bool,
    /// Its filesystem cannot tell whether a write would block.
    is_mute: bool,
    mount: Option<Mount>,
    /// When it was a small file.
    small_at: Option<Instant>,
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

    /// Stores the result of a status check.
    pub fn learn(&mut self, fd: RawFd, status: &Status, is_local: bool) {
        if let Some(known) = self.at(fd) {
            let is_file = status.has_offsets();
            let small_at = cached::is_small(status).then(Instant::now);
            let mount = Some(status.mount);
            *known = Known { is_local, is_file, is_mute: false, mount, small_at, ..*known };
        }
    }

    /// It was a small file just now. Nobody makes it one that takes long to close in such a short time.
    pub fn is_still_small(&self, fd: RawFd) -> bool {
        self.get(fd).small_at.is_some_and(|at| at.elapsed() < JUST_NOW)
    }

    /// It has an end, so that no operation waits forever.
    pub fn is_file(&self, fd: RawFd) -> bool {
        self.get(fd).is_file
    }

    /// Whether a non-blocking write may be tried.
    pub fn may_write_at_once(&self, fd: RawFd) -> bool {
        let known = self.get(fd);
        known.is_local && known.is_file && !known.is_mute
    }

    /// Records that its filesystem cannot tell whether a write would block.
    pub fn is_mute(&mut self, fd: RawFd) {
        if let Some(known) = self.at(fd) {
            known.is_mute = true;
        }
    }

    /// The threads that work on it.
    pub fn lane(&self, fd: RawFd) -> Lane {
        let known = self.get(fd);
        if known.is_local {
            Lane::Local
        } else {
            Lane::Remote(known.mount.map_or(Place::Unknown, Place::Mount))
        }
    }

    pub fn begin(&mut self, fd: RawFd) {
        if let Some(known) = self.at(fd) {
            known.under_way += 1;
        }
    }

    /// Records the end of an operation. If it was the last one, returns the close that waited for it.
    pub fn end(&mut self, fd: RawFd) -> Option<Closing> {
        let known = self.at(fd)?;
        known.under_way = known.under_way.saturating_sub(1);
        if known.under_way == 0 { self.closings.remove(&fd) } else { None }
    }

    pub fn is_busy(&self, fd: RawFd) -> bool {
        self.get(fd).under_way > 0
    }

    /// Forgets the descriptor because it is being closed, and the number may be reused. Returns the lane for the
    /// close.
    pub fn forget(&mut self, fd: RawFd) -> Lane {
        let lane = self.lane(fd);
        if let Some(known) = self.at(fd) {
            *known = Known::default();
        }
        lane
    }

    /// Returns the close to the caller if another one is already waiting.
    pub fn close_later(&mut self, fd: RawFd, closing: Closing) -> Option<Closing> {
        if self.closings.contains_key(&fd) {
            return Some(closing);
        }
        self.closings.insert(fd, closing);
        None
    }

    /// Takes all waiting closes, at the loop's end.
    pub fn take_closings(&mut self) -> Vec<(RawFd, Closing)> {
        self.closings.drain().collect()
    }
}
