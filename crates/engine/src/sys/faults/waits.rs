//! epoll(7) with events that come late, without a cause, or in another order.
//!
//! All of that may happen with the kernel's own events too: it reports what was ready at some time.

#![allow(clippy::missing_safety_doc, clippy::cast_sign_loss, reason = "as in `calls`")]

use super::{Fault, failed, gate};
use libc::{c_int, c_long, epoll_event};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Watched {
    /// By epoll instance and descriptor: mask and user data.
    registered: HashMap<(c_int, c_int), (u32, u64)>,
    /// Events that the next wait of an instance reports.
    late: HashMap<c_int, Vec<epoll_event>>,
    /// Descriptors that were said to be not ready, with EPOLLIN or EPOLLOUT.
    refused: HashSet<(c_int, u32)>,
}

static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

fn watched() -> MutexGuard<'static, Option<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next wait reports the descriptor, although its edge has passed.
pub(super) fn will_be_ready(fd: c_int, writes: bool) {
    let event = if writes { libc::EPOLLOUT } else { libc::EPOLLIN };
    watched().get_or_insert_default().refused.insert((fd, event.cast_unsigned()));
}

fn is_open(fd: c_int) -> bool {
    // SAFETY: no pointers are passed.
    unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
}

pub unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let name = match operation {
        libc::EPOLL_CTL_ADD => "epoll_ctl add",
        libc::EPOLL_CTL_MOD => "epoll_ctl modify",
        _ => "epoll_ctl delete",
    };
    if let Some(Fault::Errno(errno)) = gate(name) {
        return failed(errno);
    }
    // SAFETY: the caller's promise to epoll_ctl(2).
    let result = unsafe { libc::epoll_ctl(epoll, operation, fd, event) };
    if result == 0 {
        let mut watched = watched();
        let registered = &mut watched.get_or_insert_default().registered;
        if operation == libc::EPOLL_CTL_DEL {
            registered.remove(&(epoll, fd));
        } else {
            // SAFETY: the kernel has just read it.
            let event = unsafe { *event };
            registered.insert((epoll, fd), (event.events, event.u64));
        }
    }
    result
}

impl Watched {
    /// What is reported without a wait: events that were held back, and descriptors that were refused.
    fn due(&mut self, epoll: c_int) -> Vec<epoll_event> {
        let mut due = self.late.remove(&epoll).unwrap_or_default();
        let refused = std::mem::take(&mut self.refused);
        for (fd, event) in refused {
            match self.registered.get(&(epoll, fd)) {
                Some(&(mask, data)) if is_open(fd) => due.push(event_of(mask & event, data)),
                _ => {}
            }
        }
        due
    }

    fn all(&self, epoll: c_int) -> Vec<epoll_event> {
        let mut all: Vec<_> =
            self.registered.iter().filter(|((of, fd), _)| *of == epoll && is_open(*fd)).collect();
        all.sort_by_key(|(key, _)| **key);
        all.into_iter()
            .map(|(&(_, fd), &(mask, data))| event_of(mask & possible(fd), data))
            .collect()
    }
}

/// The kernel never reports the writing end of a pipe as readable, nor the other way round.
fn possible(fd: c_int) -> u32 {
    // SAFETY: no pointers are passed.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    let event = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => libc::EPOLLIN,
        libc::O_WRONLY => libc::EPOLLOUT,
        _ => libc::EPOLLIN | libc::EPOLLOUT,
    };
    event.cast_unsigned()
}

/// All that the registration is for, except ends and errors.
fn event_of(mask: u32, data: u64) -> epoll_event {
    let both = (libc::EPOLLIN | libc::EPOLLOUT).cast_unsigned();
    epoll_event { events: mask & both, u64: data }
}

/// Adds events, merged with those of the same registration, as far as there is room.
fn merge(events: &mut Vec<epoll_event>, more: Vec<epoll_event>, room: usize) {
    for event in more {
        let (data, mask) = (event.u64, event.events);
        if let Some(known) = events.iter_mut().find(|known| { known.u64 } == data) {
            known.events |= mask;
        } else if events.len() < room && mask != 0 {
            events.push(event);
        }
    }
}

/// # Safety
/// `target` has room for `room` events. `wait` is one of the system calls, with that target: it gets whether it may wait
/// and the most events.
unsafe fn wait(
    epoll: c_int,
    target: *mut epoll_event,
    room: c_int,
    call: impl Fn(bool, c_int) -> c_int,
) -> c_int {
    let fault = gate("epoll_wait");
    if let Some(Fault::Errno(errno)) = fault {
        return failed(errno);
    }
    let due = watched().get_or_insert_default().due(epoll);
    let most = if fault == Some(Fault::Short) { 1 } else { room };
    let got = call(due.is_empty() && fault != Some(Fault::Spurious), most);
    if got < 0 {
        watched().get_or_insert_default().late.entry(epoll).or_default().extend(due);
        return got;
    }
    // SAFETY: the kernel has written so many events.
    let mut events = unsafe { std::slice::from_raw_parts(target, got as usize) }.to_vec();
    merge(&mut events, due, room as usize);
    let mut watched = watched();
    let watched = watched.get_or_insert_default();
    match fault {
        Some(Fault::Late) => {
            watched.late.insert(epoll, std::mem::take(&mut events));
        }
        Some(Fault::Spurious) => merge(&mut events, watched.all(epoll), room as usize),
        Some(Fault::Reversed) => events.reverse(),
        _ => {}
    }
    for (index, event) in events.iter().enumerate() {
        // SAFETY: fewer than `room` events, for which there is room.
        let place = unsafe { target.add(index) };
        // SAFETY: as above.
        unsafe { place.write_unaligned(*event) };
    }
    events.len() as c_int
}

pub unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    target: *mut epoll_event,
    room: c_int,
    timeout_ms: c_int,
) -> c_int {
    let call = |may_wait, most| {
        // SAFETY: the caller's promise to epoll_wait(2).
        unsafe { libc::epoll_wait(epoll, target, most, if may_wait { timeout_ms } else { 0 }) }
    };
    // SAFETY: as above.
    unsafe { wait(epoll, target, room, call) }
}

/// # Safety
/// The arguments of epoll_pwait2(2).
pub(super) unsafe fn epoll_pwait2(
    epoll: c_long,
    target: c_long,
    room: c_long,
    timeout: c_long,
    mask: c_long,
    mask_len: c_long,
) -> c_long {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let call = |may_wait, most: c_int| {
        let timeout = if may_wait { timeout } else { &raw const now as c_long };
        let most = c_long::from(most);
        // SAFETY: the caller's promise; `now` outlives the call.
        let got = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, epoll, target, most, timeout, mask, mask_len)
        };
        got as c_int
    };
    // SAFETY: as above.
    unsafe { wait(epoll as c_int, target as *mut epoll_event, room as c_int, call).into() }
}
