//! `Ring`: an io_uring that executes the requests of one loop.
//!
//! The life of an operation:
//!
//! | state | who owns request and memory |
//! |---|---|
//! | unsent: waits for `flush`, or for room | its record |
//! | sent: the kernel has the entry | its record, on behalf of the kernel (S1) |
//! | completed: `reap` returns record and result | the caller |
//!
//! Cancelling asks the kernel to end an operation; the record stays until the completion. Never more operations are
//! sent than the completion queue holds, so that it cannot overflow. Upholds S1, S3 (records are boxed), S4 (keys
//! with generations), S6 (an inherited ring is neither used nor unmapped).
//!
//! A sandbox may forbid io_uring_enter(2) while the ring is in use. `give_back` then returns what the kernel has not
//! taken, for another engine. What it has taken never completes here, so its records stay (S1).

// The ring is one of the engine's places for `unsafe`; see SAFETY.md.
#![allow(unsafe_code)]

use super::entry;
use super::mount::Place as Filesystem;
use super::request::Request;
use super::slots::{Key, Slots};
use super::threads::Lane;
use super::{Completion, Outcome, Segment, Transfer};
use crate::sys::{eventfd, faults, fork};
use io_uring::{IoUring, Probe, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const SUBMISSIONS: u32 = 256;
const COMPLETIONS: u32 = 1024;
/// Kernel threads (bounded, unbounded) for operations that would block; the kernel's own limit is four per CPU.
const WORKERS: [u32; 2] = [16, 8];
/// The most requests to remote filesystems in the ring; threads execute the others.
const REMOTE_WORKERS: usize = 4;
/// The number of these workers that may be blocked in operations that might never end.
const OCCUPIED_WORKERS: usize = 8;
/// Bytes that the kernel may copy on the loop's thread in one call: about 200 microseconds.
const COPIED_AT_ONCE: usize = 2 << 20;
/// The user_data of cancellation requests, whose own completions are ignored.
const CANCELLATION: u64 = u64::MAX;
/// How long the trial waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// io_uring_enter(2): run deferred work without waiting.
const ENTER_GETEVENTS: u32 = 1;

struct Record<T> {
    request: Request,
    owner: T,
    lane: Lane,
    is_sent: bool,
    is_cancelled: bool,
    may_wait_for_ever: bool,
}

/// A request that the kernel has not taken.
pub struct Untaken<T> {
    /// The key that it had.
    pub key: Key,
    pub request: Request,
    pub owner: T,
    pub lane: Lane,
    pub may_wait_for_ever: bool,
}

pub struct Ring<T> {
    uring: ManuallyDrop<IoUring>,
    /// The kernel signals this eventfd for every completion, and for work it defers until this thread enters the ring
    /// (DEFER_TASKRUN), which a poll of the ring's own descriptor does not report. Never read: only its edges are
    /// used.
    bell: OwnedFd,
    probe: Probe,
    records: Slots<Box<Record<T>>>,
    unsent: VecDeque<Key>,
    unsent_direct: usize,
    cancellations: Vec<Key>,
    /// The user_data of the entries in the submission queue that the kernel has not taken, for example because it had
    /// no memory. It takes them in this order.
    untaken: VecDeque<u64>,
    /// Entries without a completion yet, including cancellations.
    in_flight: usize,
    /// Only the thread that made the ring may enter it (IORING_SETUP_SINGLE_ISSUER).
    thread: ThreadId,
    born: u32,
    /// Empty, except in builds whose operations fail by order.
    faults: faults::Completions,
}

/// EINVAL means that the kernel does not support a flag: leave out the newest flags first.
fn build() -> io::Result<IoUring> {
    let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let mut builder = IoUring::builder();
    builder.dontfork().setup_clamp().setup_cqsize(COMPLETIONS);
    let mut modern = builder.clone();
    modern.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    match modern.build(SUBMISSIONS) {
        Err(e) if refused(&e) => {}
        result => return result,
    }
    let mut cooperative = builder.clone();
    cooperative.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    match cooperative.build(SUBMISSIONS) {
        Err(e) if refused(&e) => builder.build(SUBMISSIONS),
        result => result,
    }
}

impl<T> Ring<T> {
    /// Makes a ring for the calling thread.
    pub fn new() -> io::Result<Self> {
        faults::refusal("io_uring_setup")?;
        let ring = build()?;
        faults::refusal("io_uring_register")?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match ring.submitter().register_iowq_max_workers(&mut WORKERS.clone()) {
            // Linux before 5.15: the kernel's own limit applies.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            result => result?,
        }
        let bell = eventfd::create()?;
        ring.submitter().register_eventfd(bell.as_raw_fd())?;
        Ok(Self {
            uring: ManuallyDrop::new(ring),
            bell,
            probe,
            records: Slots::default(),
            unsent: VecDeque::new(),
            unsent_direct: 0,
            cancellations: Vec::new(),
            untaken: VecDeque::new(),
            in_flight: 0,
            thread: thread::current().id(),
            born: fork::generation(),
            faults: faults::Completions::default(),
        })
    }

    /// Signals an edge whenever there are completions to reap.
    pub fn raw_fd(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    pub fn is_supported(&self, request: &Request) -> bool {
        entry::is_supported(request, &self.probe)
    }

    /// Whether this thread may use the ring. A loop may run in one thread after another.
    pub fn is_ours(&self) -> bool {
        self.thread == thread::current().id() && self.born == fork::generation()
    }

    /// O_DIRECT transfers among the unsent.
    pub fn unsent_direct(&self) -> usize {
        self.unsent_direct
    }

    pub fn under_way(&self) -> usize {
        self.records.len()
    }

    /// The running operations with their owners.
    pub fn operations(&self) -> impl Iterator<Item = (&Request, &T)> {
        self.records.iter().map(|record| (&record.request, &record.owner))
    }

    /// Whether the ring may take a request. A filesystem that hangs must not occupy all of the kernel's workers, of
    /// which there are at least eight.
    pub fn has_room(&self, request: &Request, lane: Lane) -> bool {
        match lane {
            Lane::Remote(place) if place != Filesystem::Local => {
                let remote = self
                    .records
                    .iter()
                    .filter(|record| record.lane != Lane::Local && record.request.fd().is_some());
                request.fd().is_some() && remote.count() < REMOTE_WORKERS
            }
            _ => true,
        }
    }

    /// Queues a request; `flush` sends it. If its lane is not `Local`, for example on a network filesystem, the kernel
    /// does not try it on the loop's thread: a kernel worker executes it.
    pub fn submit(&mut self, request: Request, lane: Lane, owner: T) -> Key {
        self.insert(request, owner, lane, false)
    }

    /// Like `submit`, for a request that blocks a kernel worker until another process acts or the request is
    /// cancelled: opening a FIFO. If enough workers are occupied, request and owner are returned.
    pub fn submit_unbounded(&mut self, request: Request, owner: T) -> Result<Key, (Request, T)> {
        let occupied = self.records.iter().filter(|record| record.may_wait_for_ever).count();
        if occupied >= OCCUPIED_WORKERS {
            return Err((request, owner));
        }
        Ok(self.insert(request, owner, Lane::Local, true))
    }

    fn insert(&mut self, request: Request, owner: T, lane: Lane, may_wait_for_ever: bool) -> Key {
        self.unsent_direct += usize::from(request.is_direct());
        let (is_sent, is_cancelled) = (false, false);
        let record = Record { request, owner, lane, is_sent, is_cancelled, may_wait_for_ever };
        let key = self.records.insert(Box::new(record));
        self.unsent.push_back(key);
        key
    }

    /// Asks for an operation to end early. Its completion says ECANCELED unless it finished first.
    pub fn cancel(&mut self, key: Key) {
        let Some(record) = self.records.get_mut(key) else { return };
        record.is_cancelled = true;
        if record.is_sent {
            self.cancellations.push(key);
        }
    }

    /// True if `flush` has something to send and room for it.
    pub fn has_unsent(&self) -> bool {
        let waits = !self.unsent.is_empty() || !self.cancellations.is_empty();
        !self.untaken.is_empty() || (waits && self.in_flight < COMPLETIONS as usize)
    }

    /// Sends queued requests in one system call, as far as there is room. The kernel does what needs no waiting in
    /// that call. More than one full queue is left for the next call, so that no tick becomes too long.
    pub fn flush(&mut self, completions: &mut Vec<Completion<T>>) -> io::Result<()> {
        self.push_some(completions);
        if !self.untaken.is_empty() {
            self.enter()?;
        }
        self.take_completions(completions);
        Ok(())
    }

    fn has_slot(&self) -> bool {
        self.untaken.len() < SUBMISSIONS as usize && self.in_flight < COMPLETIONS as usize
    }

    /// Fills the submission queue.
    fn push_some(&mut self, completions: &mut Vec<Completion<T>>) {
        while self.has_slot() {
            let Some(key) = self.cancellations.pop() else { break };
            let cancel = if self.faults.is_cancelled() {
                opcode::AsyncCancel::new(key.as_u64()).build()
            } else {
                opcode::Nop::new().build()
            };
            // SAFETY: the entry has no pointers.
            unsafe { self.push(cancel, CANCELLATION) };
        }
        let mut copied = 0;
        while self.has_slot() && copied < COPIED_AT_ONCE {
            let Some(key) = self.unsent.pop_front() else { break };
            let Some(record) = self.records.get_mut(key) else { continue };
            if record.is_cancelled {
                self.unsent_direct -= usize::from(record.request.is_direct());
                self.complete(key, -libc::ECANCELED, completions);
                continue;
            }
            record.is_sent = true;
            copied += entry::copied_at_once(&record.request);
            let is_direct = record.request.is_direct();
            let has_offset =
                matches!(&record.request, Request::Read(t) | Request::Write(t) if t.offset >= 0);
            let entry = if self.faults.is_sent(record.request.name(), key.as_u64(), has_offset) {
                entry::of(&record.request, record.lane == Lane::Local)
            } else {
                opcode::Nop::new().build()
            };
            // SAFETY: request and memory stay until the completion: the record is boxed, and only `complete` removes
            // it (S1, S3).
            unsafe { self.push(entry, key.as_u64()) };
            self.unsent_direct -= usize::from(is_direct);
        }
    }

    /// # Safety
    /// The memory that the entry points to must live until the entry's completion.
    unsafe fn push(&mut self, entry: squeue::Entry, user_data: u64) {
        // SAFETY: the caller's promise.
        let pushed = unsafe { self.uring.submission().push(&entry.user_data(user_data)) };
        pushed.expect("no more than SUBMISSIONS entries are untaken");
        self.untaken.push_back(user_data);
        self.in_flight += 1;
    }

    /// Submits entries to the kernel and runs the work it has deferred until this thread enters (DEFER_TASKRUN).
    fn enter(&mut self) -> io::Result<()> {
        loop {
            let untaken = self.untaken.len() as u32;
            let submitter = self.uring.submitter();
            let result = faults::refusal("io_uring_enter").and_then(|()| {
                // SAFETY: no argument structure is passed.
                unsafe { submitter.enter::<libc::sigset_t>(untaken, 0, ENTER_GETEVENTS, None) }
            });
            match result {
                Ok(taken) => {
                    self.untaken.drain(..taken);
                    return Ok(());
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // No memory at the moment, or completions have to be reaped first. The work that the kernel has
                    // deferred was not run then, and it does not ring for it again.
                    Some(libc::EAGAIN | libc::EBUSY) => return eventfd::signal(self.bell.as_fd()),
                    _ => return Err(e),
                },
            }
        }
    }

    /// Appends completions. Costs no system call if they are already in the queue.
    pub fn reap(&mut self, completions: &mut Vec<Completion<T>>) -> io::Result<()> {
        self.push_some(completions);
        let submission = self.uring.submission();
        let is_put_off = submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if !self.untaken.is_empty() || is_put_off {
            self.enter()?;
        }
        self.take_completions(completions);
        Ok(())
    }

    fn take_completions(&mut self, completions: &mut Vec<Completion<T>>) {
        loop {
            let uring = &mut self.uring;
            let next =
                || uring.completion().next().map(|event| (event.user_data(), event.result()));
            let Some((user_data, result)) = self.faults.next(next) else { break };
            self.in_flight -= 1;
            if user_data == CANCELLATION {
                continue;
            }
            self.complete(Key::from_u64(user_data), result, completions);
        }
        if self.faults.is_holding() {
            // If the counter is full, the bell rings already.
            drop(eventfd::signal(self.bell.as_fd()));
        }
    }

    fn complete(&mut self, key: Key, result: i32, completions: &mut Vec<Completion<T>>) {
        let Some(record) = self.records.get_mut(key) else { return };
        // close(2) has released the number in any case. Another close might hit the number's next owner.
        let is_close = matches!(record.request, Request::Close { .. });
        let result = if is_close && result == -libc::EINTR { 0 } else { result };
        if result == -libc::EINTR && !record.is_cancelled {
            record.is_sent = false;
            self.unsent_direct += usize::from(record.request.is_direct());
            self.unsent.push_back(key);
            return;
        }
        let Some(record) = self.records.remove(key) else { return };
        let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        let Record { request, owner, .. } = *record;
        completions.push(Completion { owner, outcome: Outcome { request: Some(request), result } });
    }

    /// The kernel lets nobody enter this ring any more: appends what has completed, and returns what the kernel has
    /// not taken. The ring must be dropped then, because its queue still has entries with the addresses of these.
    pub fn give_back(&mut self, completions: &mut Vec<Completion<T>>) -> Vec<Untaken<T>> {
        self.take_completions(completions);
        let untaken = std::mem::take(&mut self.untaken).into_iter();
        let pushed = untaken.filter(|data| *data != CANCELLATION).map(Key::from_u64);
        let keys: Vec<_> = pushed.chain(std::mem::take(&mut self.unsent)).collect();
        let mut back = Vec::new();
        for key in keys {
            let Some(record) = self.records.get_mut(key) else { continue };
            if record.is_cancelled {
                self.complete(key, -libc::ECANCELED, completions);
            } else if let Some(record) = self.records.remove(key) {
                let Record { request, owner, lane, may_wait_for_ever, .. } = *record;
                back.push(Untaken { key, request, owner, lane, may_wait_for_ever });
            }
        }
        back
    }

    /// Cancels everything, waits until `deadline` and reaps. Operations that the kernel still holds keep their
    /// records forever (S1): closing a ring does not wait for them. Returns their number.
    pub fn shut(&mut self, deadline: Instant, completions: &mut Vec<Completion<T>>) -> usize {
        if self.is_ours() {
            let keys: Vec<_> = self.records.keys().collect();
            for key in keys {
                self.cancel(key);
            }
            while !self.records.is_empty() && Instant::now() < deadline {
                thread::sleep(Duration::from_micros(200));
                if self.reap(completions).is_err() {
                    for Untaken { request, owner, .. } in self.give_back(completions) {
                        let result = Err(io::Error::from_raw_os_error(libc::ECANCELED));
                        let outcome = Outcome { request: Some(request), result };
                        completions.push(Completion { owner, outcome });
                    }
                    break;
                }
            }
        }
        self.records.leak()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Memory of operations that the kernel still holds must outlive the ring.
        self.records.leak();
        if self.born == fork::generation() {
            // SAFETY: dropped once, here. In a forked child the ring is left alone, because it was never mapped there
            // (S6).
            unsafe { ManuallyDrop::drop(&mut self.uring) }
        }
    }
}

/// Checks whether a ring works here by reading an eventfd through one, which needs no kernel worker.
pub fn trial() -> io::Result<()> {
    let mut ring = Ring::<Box<[u8; 8]>>::new()?;
    let source = eventfd::create()?;
    eventfd::signal(source.as_fd())?;
    let mut target = Box::new([0; 8]);
    // SAFETY: the ring keeps the box until the completion (S1), and moving a box does not move its content.
    let segment = unsafe { Segment::new(target.as_mut_ptr(), target.len()) };
    let transfer = Transfer::new(source.as_raw_fd(), -1, false, &[segment]);
    ring.submit(Request::Read(transfer), Lane::Local, target);
    let mut completions = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    ring.flush(&mut completions)?;
    while completions.is_empty() {
        if Instant::now() > deadline {
            return Err(io::Error::other("a trial read of an eventfd did not complete"));
        }
        thread::sleep(Duration::from_micros(50));
        ring.reap(&mut completions)?;
    }
    let done = completions.pop().expect("not empty, as the loop has seen");
    match done.outcome.result? {
        8 if *done.owner == 1u64.to_ne_bytes() => Ok(()),
        n => Err(io::Error::other(format!(
            "a trial read of 8 bytes returned {n} bytes or wrong data"
        ))),
    }
}

#[cfg(test)]
mod tests;
