//! epoll behind a small interface that takes interests, returns readiness and filters out stale events (S4).
//!
//! Every registration of a descriptor gets a new generation, which travels through the kernel in the event's 64 bits
//! of user data. An event with another generation than its slot's current one belongs to an earlier owner of that
//! descriptor number. It is counted and dropped, so no owner ever receives another owner's event.
//!
//! epoll identifies a registration by open file, not by number. If a program closes a descriptor that is still open
//! elsewhere (a dup, a forked child), the registration remains but can no longer be named, and a level-triggered
//! event would be reported forever. After `REBUILD_AFTER` waits with only stale events, a new epoll instance is built
//! from the live slots.
//!
//! A wait that may sleep is a `Wait`, separate from the poller. Any thread may call epoll_ctl(2) while another one
//! waits, so registrations can be made, changed and ended meanwhile (S5).
//!
//! This file must not depend on what is registered or why.

use crate::sys::{epoll, fork};
use std::fmt::Debug;
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Room for the events of one wait. Further events arrive with the next wait.
const EVENTS_PER_WAIT: usize = 512;
const REBUILD_AFTER: u32 = 16;

/// The events that a registration is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest(u32);

impl Interest {
    pub const NONE: Self = Self(0);
    pub const READ: Self = Self(libc::EPOLLIN.cast_unsigned());
    pub const WRITE: Self = Self(libc::EPOLLOUT.cast_unsigned());
    /// Report changes instead of levels: for descriptors that are always tried before they are waited for.
    pub const EDGE: Self = Self(libc::EPOLLET.cast_unsigned());
    /// Also report the end of the peer's side and urgent data.
    pub const ENDS: Self = Self((libc::EPOLLRDHUP | libc::EPOLLPRI).cast_unsigned());
    /// Several processes wait for the same file: an event wakes one that sleeps, not all. The interest of such a
    /// registration cannot be changed (epoll_ctl(2)).
    pub const EXCLUSIVE: Self = Self(libc::EPOLLEXCLUSIVE.cast_unsigned());

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Interest {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What the kernel reports. An error or hang-up makes both directions ready, so that the waiting code tries its
/// operation and gets the errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readiness(u32);

impl Readiness {
    const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();

    pub fn is_readable(self) -> bool {
        self.0 & (libc::EPOLLIN.cast_unsigned() | Self::BROKEN) != 0
    }

    /// Both directions were requested and both are ready.
    pub fn is_both(self) -> bool {
        let both = (libc::EPOLLIN | libc::EPOLLOUT).cast_unsigned();
        self.0 & both == both && self.0 & Self::BROKEN == 0
    }

    /// A short read is not the last one: an end of file, an error or urgent data follows. Needs `Interest::ENDS`.
    pub fn is_last(self) -> bool {
        self.0 & (Interest::ENDS.0 | Self::BROKEN) != 0
    }

    pub fn is_writable(self) -> bool {
        self.0 & (libc::EPOLLOUT.cast_unsigned() | Self::BROKEN) != 0
    }
}

/// One registration: a descriptor number and the generation of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    fd: u32,
    generation: u32,
}

impl Token {
    fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.fd)
    }

    fn from_u64(data: u64) -> Self {
        Self { fd: (data & 0xffff_ffff) as u32, generation: (data >> 32) as u32 }
    }

    pub fn fd(self) -> RawFd {
        self.fd.cast_signed()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub token: Token,
    pub readiness: Readiness,
}

/// What a poller needs from the kernel; `fake::Script` is the other implementation. Any thread may call it, even
/// while another one waits.
pub trait Selector: Debug + Send + Sync {
    fn add(&self, fd: RawFd, mask: u32, data: u64) -> io::Result<()>;
    fn modify(&self, fd: RawFd, mask: u32, data: u64) -> io::Result<()>;
    fn delete(&self, fd: RawFd) -> io::Result<()>;
    fn wait(&self, events: &mut Vec<epoll::RawEvent>, timeout_ns: Option<u64>) -> io::Result<()>;
    /// A new, empty selector to replace this one.
    fn renewed(&self) -> io::Result<Arc<dyn Selector>>;
    fn raw_fd(&self) -> RawFd;
}

#[derive(Debug)]
struct Epoll(OwnedFd);

impl Selector for Epoll {
    fn add(&self, fd: RawFd, mask: u32, data: u64) -> io::Result<()> {
        epoll::add(self.0.as_fd(), fd, mask, data)
    }
    fn modify(&self, fd: RawFd, mask: u32, data: u64) -> io::Result<()> {
        epoll::modify(self.0.as_fd(), fd, mask, data)
    }
    fn delete(&self, fd: RawFd) -> io::Result<()> {
        epoll::delete(self.0.as_fd(), fd)
    }
    fn wait(&self, events: &mut Vec<epoll::RawEvent>, timeout_ns: Option<u64>) -> io::Result<()> {
        epoll::wait(self.0.as_fd(), events, timeout_ns)
    }
    fn renewed(&self) -> io::Result<Arc<dyn Selector>> {
        Ok(Arc::new(Self(epoll::create()?)))
    }
    fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A separate wait: the data that the waiting thread needs and nobody else touches.
#[derive(Debug)]
pub struct Wait {
    selector: Arc<dyn Selector>,
    /// Written by the kernel.
    events: Vec<epoll::RawEvent>,
}

impl Wait {
    /// Waits once; `None` waits forever. Must be returned with `Poller::end_wait`, whatever the result.
    pub fn run(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        self.selector.wait(&mut self.events, timeout_ns)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    /// `None`: vacant.
    interest: Option<Interest>,
}

#[derive(Debug)]
pub struct Poller {
    selector: Arc<dyn Selector>,
    /// Indexed by descriptor number. The kernel allocates the lowest free number, so this stays dense.
    slots: Vec<Slot>,
    /// Written by the kernel in `wait`, read by `next_event`.
    events: Vec<epoll::RawEvent>,
    next: usize,
    fork_generation: u32,
    stale: u64,
    waits_with_only_stale: u32,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        Ok(Self::with_selector(Arc::new(Epoll(epoll::create()?))))
    }

    pub fn with_selector(selector: Arc<dyn Selector>) -> Self {
        Self {
            selector,
            slots: Vec::new(),
            events: Vec::new(),
            next: 0,
            fork_generation: fork::generation(),
            stale: 0,
            waits_with_only_stale: 0,
        }
    }

    /// True in a child of the process that made this poller. The kernel's instance is shared with the parent, and
    /// using it would corrupt the parent's registrations (S6).
    #[inline]
    pub fn is_foreign(&self) -> bool {
        self.fork_generation != fork::generation()
    }

    pub fn register(&mut self, fd: RawFd, interest: Interest) -> io::Result<Token> {
        self.refuse_foreign()?;
        let index = usize::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation).wrapping_add(1);
        let token = Token { fd: fd.cast_unsigned(), generation };
        match self.selector.add(fd, interest.0, token.to_u64()) {
            // The same open file under an earlier generation: take over the registration.
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {
                self.selector.modify(fd, interest.0, token.to_u64())?;
            }
            other => other?,
        }
        // Only now: the kernel has accepted the number, so an invalid large number does not grow the table.
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot { generation: 0, interest: None });
        }
        self.slots[index] = Slot { generation, interest: Some(interest) };
        Ok(token)
    }

    /// Changes the interest of a live registration. ENOENT or EBADF if its kernel side is gone because its file was
    /// closed elsewhere.
    pub fn modify(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        self.refuse_foreign()?;
        match self.live_slot(token) {
            Some(slot) if slot.interest == Some(interest) => Ok(()),
            _ => self.reaffirm(token, interest),
        }
    }

    /// Like `modify`, but calls the kernel even if nothing has changed.
    pub fn reaffirm(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        self.refuse_foreign()?;
        let Some(slot) = self.live_slot(token) else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        slot.interest = Some(interest);
        self.selector.modify(token.fd(), interest.0, token.to_u64())
    }

    /// Ends a registration while its descriptor is still open. Its events in flight become stale.
    pub fn deregister(&mut self, token: Token) -> io::Result<()> {
        if !self.vacate(token) || self.is_foreign() {
            return Ok(());
        }
        self.selector.delete(token.fd())
    }

    /// Ends a registration whose descriptor was closed elsewhere. Makes no system call, because the number may
    /// already belong to another file. Returns true if the token was live.
    pub fn vacate(&mut self, token: Token) -> bool {
        match self.live_slot(token) {
            Some(slot) => {
                slot.interest = None;
                slot.generation = slot.generation.wrapping_add(1);
                true
            }
            None => false,
        }
    }

    pub fn is_live(&self, token: Token) -> bool {
        self.slots
            .get(token.fd as usize)
            .is_some_and(|s| s.interest.is_some() && s.generation == token.generation)
    }

    /// All that are registered.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        let is_live = |(fd, slot): (usize, &Slot)| slot.interest.map(|_| fd as RawFd);
        self.slots.iter().enumerate().filter_map(is_live)
    }

    fn live_slot(&mut self, token: Token) -> Option<&mut Slot> {
        self.slots
            .get_mut(token.fd as usize)
            .filter(|s| s.interest.is_some() && s.generation == token.generation)
    }

    /// Waits; `next_event` then returns the events. `None` waits forever. EINTR is returned, because only the caller
    /// can handle signals.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        self.make_room()?;
        self.selector.wait(&mut self.events, timeout_ns)?;
        self.look_for_live()
    }

    /// Starts a wait that other threads need not wait for: call `Wait::run`, then `end_wait`.
    pub fn begin_wait(&mut self) -> io::Result<Wait> {
        self.make_room()?;
        Ok(Wait { selector: Arc::clone(&self.selector), events: std::mem::take(&mut self.events) })
    }

    /// Takes over the events of a wait.
    pub fn end_wait(&mut self, wait: Wait) -> io::Result<()> {
        self.events = wait.events;
        self.look_for_live()
    }

    fn make_room(&mut self) -> io::Result<()> {
        debug_assert!(!self.has_pending(), "events of the last wait are left");
        self.refuse_foreign()?;
        if self.events.capacity() == 0 {
            self.events.reserve_exact(EVENTS_PER_WAIT);
        }
        self.next = 0;
        self.events.clear();
        Ok(())
    }

    fn look_for_live(&mut self) -> io::Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        if self.events.iter().any(|e| self.is_live(Token::from_u64(e.u64))) {
            self.waits_with_only_stale = 0;
        } else {
            self.waits_with_only_stale += 1;
            if self.waits_with_only_stale >= REBUILD_AFTER {
                self.rebuild()?;
            }
        }
        Ok(())
    }

    /// The next event of the last wait whose registration is still live.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(raw) = self.events.get(self.next) {
            self.next += 1;
            let token = Token::from_u64(raw.u64);
            let readiness = Readiness(raw.events);
            if self.is_live(token) {
                return Some(Event { token, readiness });
            }
            self.stale += 1;
        }
        None
    }

    /// Repeats the last event, for its writable part only. Used when serving its readable part ended early.
    pub fn repeat_writable(&mut self) {
        if let Some(raw) = self.next.checked_sub(1).and_then(|last| self.events.get_mut(last)) {
            raw.events &= !libc::EPOLLIN.cast_unsigned();
            self.next -= 1;
        }
    }

    pub fn has_pending(&self) -> bool {
        self.next < self.events.len()
    }

    /// True if an event of the last wait is of this descriptor; a stale one counts too.
    pub fn has_event_of(&self, fd: RawFd) -> bool {
        self.events.iter().any(|event| Token::from_u64(event.u64).fd() == fd)
    }

    /// Events dropped because their registration had ended.
    pub fn stale_events(&self) -> u64 {
        self.stale
    }

    pub fn raw_fd(&self) -> RawFd {
        self.selector.raw_fd()
    }

    /// Always finishes, even if the kernel refuses some registrations (S9). Refused ones are vacated, and the first
    /// error other than a closed file is returned.
    fn rebuild(&mut self) -> io::Result<()> {
        self.waits_with_only_stale = 0;
        self.selector = self.selector.renewed()?;
        let mut outcome = Ok(());
        for (fd, slot) in self.slots.iter_mut().enumerate() {
            let Some(interest) = slot.interest else { continue };
            let token = Token { fd: fd as u32, generation: slot.generation };
            if let Err(e) = self.selector.add(token.fd(), interest.0, token.to_u64()) {
                slot.interest = None;
                slot.generation = slot.generation.wrapping_add(1);
                // Closed without a `deregister`; the number may now belong to a regular file.
                if !matches!(e.raw_os_error(), Some(libc::EBADF | libc::EPERM)) {
                    outcome = outcome.and(Err(e));
                }
            }
        }
        outcome
    }

    #[inline]
    fn refuse_foreign(&self) -> io::Result<()> {
        if self.is_foreign() { Err(foreign()) } else { Ok(()) }
    }
}

#[cold]
fn foreign() -> io::Error {
    io::Error::other(
        "this event loop belongs to the parent process: a forked child must make its own",
    )
}

#[cfg(test)]
mod tests;
