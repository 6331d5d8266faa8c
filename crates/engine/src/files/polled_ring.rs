//! `PolledRing`: a separate io_uring for a program that polls for completions, from any thread.
//!
//! The loop's ring belongs to one thread, and the loop's poller waits for it. This ring is waited for in the kernel,
//! and one thread may wait while another submits, so it uses none of the modes that bind a ring to its thread. It
//! gives the same guarantees as `AioContext`:
//!
//! | state | who has the record | leads to |
//! |---|---|---|
//! | offered | the caller | refused → given back; taken → in flight |
//! | in flight | a slot | its completion → completed; dropping the ring → leaked |
//! | completed | the caller, with the result | |
//! | leaked | nobody, forever (S1): closing a ring does not wait for its operations | |
//!
//! S4: keys carry generations. S6: a ring inherited by fork is neither used nor unmapped.

// The rings are one of the engine's places for `unsafe`; see SAFETY.md.
#![allow(unsafe_code)]

mod entry;
mod order;

use super::Segment;
use super::operation::{Completion, Memory, Opcode, Operation, Submission};
use super::slots::{Key, Slots};
use crate::sys::{eventfd, fork};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use order::Order;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long `drop` waits for operations in flight.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// Entries per system call. Longer submissions need several calls.
const SUBMISSIONS: u32 = 256;
/// The user data of entries that are not operations: cancellations and writes to eventfds.
const NOBODY: u64 = u64::MAX;

struct Kernel {
    ring: ManuallyDrop<IoUring>,
    /// `fork::generation` of the process that made the ring (S6).
    forks: u32,
}

impl Kernel {
    fn refuse_foreign(&self) -> io::Result<()> {
        if self.forks == fork::generation() {
            return Ok(());
        }
        Err(io::Error::other(
            "this ring belongs to the parent process: a forked child must make its own",
        ))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.forks == fork::generation() {
            // SAFETY: dropped once, here. In a forked child the ring is not mapped (`dontfork`) and other memory may
            // be at its address, so it is not dropped there.
            unsafe { ManuallyDrop::drop(&mut self.ring) }
        }
    }
}

/// Waits for completions without access to the records, so that one thread can wait while others submit.
#[derive(Clone)]
pub struct Waiter(Arc<Kernel>);

impl Waiter {
    /// Returns when at least `min` completions can be collected or `timeout_ns` has passed. EINTR is returned.
    pub fn wait(&self, min: usize, timeout_ns: Option<u64>) -> io::Result<()> {
        self.0.refuse_foreign()?;
        let submitter = self.0.ring.submitter();
        let waited = match timeout_ns {
            None => submitter.submit_and_wait(min),
            Some(ns) => {
                let time =
                    Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                submitter.submit_with_args(min, &SubmitArgs::new().timespec(&time))
            }
        };
        match waited {
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => Ok(()),
            // EBUSY: completions have to be collected first.
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

struct Record<T> {
    operation: Operation<T>,
    is_cancelled: bool,
}

pub struct PolledRing<T> {
    records: Slots<Box<Record<T>>>,
    capacity: usize,
    /// `None`: operations may overtake each other.
    order: Option<Order>,
    kernel: Arc<Kernel>,
}

impl<T> PolledRing<T> {
    /// Makes a ring for `capacity` concurrent operations. ENOSYS, EPERM: io_uring is not available. EOPNOTSUPP: the
    /// kernel is older than 5.11, and its rings cannot wait with a timeout.
    pub fn new(capacity: u32) -> io::Result<Self> {
        let forks = fork::generation();
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp();
        // An operation and the write to its eventfd have separate completions.
        builder.setup_cqsize(capacity.max(SUBMISSIONS).saturating_mul(2));
        let ring = builder.build(capacity.clamp(2, SUBMISSIONS))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let kernel = Arc::new(Kernel { ring: ManuallyDrop::new(ring), forks });
        Ok(Self { records: Slots::default(), capacity: capacity as usize, order: None, kernel })
    }

    /// Keeps the order of kernel AIO, and has room for `room` operations instead of `capacity`; see `order`.
    pub fn in_order(capacity: u32, room: u32) -> io::Result<Self> {
        let mut ring = Self::new(capacity)?;
        ring.capacity = room as usize;
        ring.order = Some(Order::default());
        Ok(ring)
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn in_flight(&self) -> usize {
        self.records.len()
    }

    pub fn waiter(&self) -> Waiter {
        Waiter(Arc::clone(&self.kernel))
    }

    /// Submits operations in order, until the ring is full or a descriptor is invalid. An accepted operation keeps
    /// its owner until its completion. Blocks only in a ring made by `in_order`, while an operation has to wait for
    /// an earlier one.
    pub fn submit(&mut self, operations: Vec<Operation<T>>) -> Submission<T> {
        let mut rest = operations.into_iter();
        let mut taken = Vec::with_capacity(rest.len().min(self.capacity));
        let mut refused = Vec::new();
        let mut error = self.kernel.refuse_foreign().err();
        while error.is_none()
            && let Some(operation) = rest.next()
        {
            match self.queue(operation) {
                Ok(key) => taken.push(key),
                Err((operation, e)) => {
                    refused.push(operation);
                    error = Some(e);
                }
            }
        }
        refused.extend(rest);
        if !taken.is_empty() {
            // If the cause remains, the next submission returns the same error.
            error = self.enter().err();
        }
        Submission { taken, refused, error }
    }

    /// Puts an operation into the submission queue; `enter` sends it.
    fn queue(&mut self, operation: Operation<T>) -> Result<Key, (Operation<T>, io::Error)> {
        let full = || io::Error::from_raw_os_error(libc::EAGAIN);
        if self.records.len() >= self.capacity {
            return Err((operation, full()));
        }
        let resfd = operation.resfd;
        if let Err(e) = entry::check(&operation) {
            return Err((operation, e));
        }
        let place = match self.wait_for_turn(&operation) {
            Ok(place) => place,
            Err(e) => return Err((operation, e)),
        };
        let key = self.records.insert(Box::new(Record { operation, is_cancelled: false }));
        if self.push(key, resfd) {
            if let (Some(order), Some(place)) = (&mut self.order, place) {
                order.enter(key, place);
            }
            return Ok(key);
        }
        let record = self.records.remove(key).expect("it has just been inserted");
        Err((record.operation, full()))
    }

    /// Waits until no operation is in flight that this one must not overtake. Returns this operation's own place in
    /// the order, for later ones. Leaves completions in the kernel's queue, because another thread may be about to
    /// wait for them.
    fn wait_for_turn(&mut self, operation: &Operation<T>) -> io::Result<Option<order::Place>> {
        let Some(order) = &self.order else { return Ok(None) };
        let place = order::Place::of(operation)?;
        let Some(mut earlier) = place.as_ref().map(|place| order.before(place)) else {
            return Ok(None);
        };
        while !earlier.is_empty() {
            self.enter()?;
            // SAFETY: `&mut self`, so nobody else takes from this queue. Never dropped, because dropping it would
            // consume completions that were only looked at.
            let mut queue = ManuallyDrop::new(unsafe { self.kernel.ring.completion_shared() });
            let (is_full, mut there) = (queue.is_full(), 0);
            for event in queue.by_ref() {
                there += 1;
                earlier.retain(|key| key.as_u64() != event.user_data());
            }
            if earlier.is_empty() {
                break;
            }
            if is_full {
                // The kernel may hold back its completion: the program has to collect some first.
                return Err(io::Error::from_raw_os_error(libc::EAGAIN));
            }
            match self.waiter().wait(there + 1, None) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        Ok(place.filter(|place| !place.is_direct))
    }

    /// False: the queue is full and the kernel accepts no entries at the moment.
    fn push(&mut self, key: Key, resfd: Option<RawFd>) -> bool {
        let Some(record) = self.records.get_mut(key) else { return false };
        let entry = entry::of(&record.operation).user_data(key.as_u64());
        let Some(fd) = resfd else { return self.push_all(&[entry]) };
        let raise = entry::raise(fd).user_data(NOBODY);
        self.push_all(&[entry.flags(Flags::IO_HARDLINK), raise])
    }

    fn push_all(&mut self, entries: &[Entry]) -> bool {
        for may_retry in [true, false] {
            // SAFETY: `&mut self`, so nobody else has the queue; a `Waiter` only lets the kernel read it.
            let mut queue = unsafe { self.kernel.ring.submission_shared() };
            // SAFETY: S1: the record, and with it the owner of the memory (`Memory::new`), stays in its slot until
            // `complete` has seen the completion.
            if unsafe { queue.push_multiple(entries) }.is_ok() {
                return true;
            }
            drop(queue);
            if !may_retry || self.enter().is_err() {
                break;
            }
        }
        false
    }

    /// Submits the queued entries to the kernel. Entries for which the kernel has no memory stay queued for the next
    /// call.
    fn enter(&self) -> io::Result<()> {
        loop {
            match self.kernel.ring.submit() {
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::EBUSY) => return Ok(()),
                    _ => return Err(e),
                },
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Returns the completions that have arrived, at most `max`.
    pub fn collect(&mut self, max: usize) -> io::Result<Vec<Completion<T>>> {
        self.kernel.refuse_foreign()?;
        let mut completions = Vec::new();
        while completions.len() < max {
            // SAFETY: `&mut self`, so nobody else takes from this queue.
            let event = unsafe { self.kernel.ring.completion_shared() }.next();
            if let Some(event) = event {
                completions.extend(self.complete(event.user_data(), event.result()));
                continue;
            }
            // SAFETY: as in `push_all`.
            let queue = unsafe { self.kernel.ring.submission_shared() };
            let (overflown, unsent) = (queue.cq_overflow(), !queue.is_empty());
            drop(queue);
            if !overflown && !unsent {
                break;
            }
            // The kernel holds completions back or has not accepted all submissions.
            self.enter()?;
            if !overflown {
                break;
            }
        }
        Ok(completions)
    }

    /// Drops the completion of an operation that is not in flight (S4).
    fn complete(&mut self, data: u64, result: i32) -> Option<Completion<T>> {
        let key = Key::from_u64(data);
        let record = self.records.get_mut(key)?;
        // A signal interrupted it before it did anything. The write to its eventfd was linked to this attempt and has
        // happened; one signal too many is allowed.
        let resfd = record.operation.resfd;
        if result == -libc::EINTR && !record.is_cancelled && self.push(key, resfd) {
            return None;
        }
        if let Some(order) = &mut self.order {
            order.leave(key);
        }
        let owner = self.records.remove(key)?.operation.owner;
        Some(Completion { key, result: i64::from(result), second_result: 0, owner })
    }

    /// Asks the kernel to end an operation early. Its completion says how it ended. ENOENT: it is not in flight.
    pub fn cancel(&mut self, key: Key) -> io::Result<()> {
        self.kernel.refuse_foreign()?;
        let Some(record) = self.records.get_mut(key) else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        record.is_cancelled = true;
        let entry = opcode::AsyncCancel::new(key.as_u64()).build().user_data(NOBODY);
        if self.push_all(&[entry]) {
            return self.enter();
        }
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Cancels reads and polls, waits up to `limit` for the other operations and then cancels those too. Returns the
    /// completions. Operations still in flight after that are left to `drop`.
    pub fn drain(&mut self, limit: Duration) -> Vec<Completion<T>> {
        if self.kernel.refuse_foreign().is_err() {
            return self.disown();
        }
        self.cancel_all(|opcode| matches!(opcode, Opcode::Read | Opcode::Poll { .. }));
        let mut completions = self.wait_for_all(limit);
        if !self.records.is_empty() {
            self.cancel_all(|_| true);
            completions.extend(self.wait_for_all(LAST_WAIT));
        }
        completions
    }

    fn cancel_all(&mut self, wanted: impl Fn(Opcode) -> bool) {
        let keys: Vec<Key> = self.records.keys().collect();
        for key in keys {
            let record = self.records.get_mut(key);
            if record.is_some_and(|record| wanted(record.operation.opcode)) {
                // An operation that cannot be cancelled ends on its own or is leaked.
                let _unsent = self.cancel(key);
            }
        }
    }

    fn wait_for_all(&mut self, limit: Duration) -> Vec<Completion<T>> {
        let end = Instant::now() + limit;
        let mut completions = Vec::new();
        loop {
            let Ok(more) = self.collect(usize::MAX) else { break };
            completions.extend(more);
            let left = end.saturating_duration_since(Instant::now());
            if self.records.is_empty() || left.is_zero() {
                break;
            }
            let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            match self.waiter().wait(1, Some(left_ns)) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
        completions
    }

    /// In the child of a fork the kernel does not touch this memory: completes all operations with ECANCELED.
    fn disown(&mut self) -> Vec<Completion<T>> {
        let keys: Vec<Key> = self.records.keys().collect();
        let result = -i64::from(libc::ECANCELED);
        let records = keys.into_iter().filter_map(|key| Some((key, self.records.remove(key)?)));
        let completion = |(key, record): (Key, Box<Record<T>>)| Completion {
            key,
            result,
            second_result: 0,
            owner: record.operation.owner,
        };
        records.map(completion).collect()
    }

    /// Leaks the operations in flight (S1) and returns their number.
    pub(super) fn leak(&mut self) -> usize {
        self.records.leak()
    }
}

impl<T> Drop for PolledRing<T> {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            drop(self.drain(LAST_WAIT));
        }
        self.leak();
    }
}

/// Checks whether a ring works here by reading from an eventfd through one.
pub fn trial() -> io::Result<()> {
    let mut ring = PolledRing::<Box<[u8; 8]>>::new(1)?;
    let source = eventfd::create()?;
    eventfd::signal(std::os::fd::AsFd::as_fd(&source))?;
    let mut target = Box::new([0; 8]);
    // SAFETY: the box is the owner, and moving it does not move its content.
    let segment = unsafe { Segment::new(target.as_mut_ptr(), target.len()) };
    let read = Operation {
        opcode: Opcode::Read,
        fd: source.as_raw_fd(),
        offset: 0,
        memory: Memory::new(&[segment]),
        rw_flags: 0,
        priority: 0,
        resfd: None,
        owner: target,
    };
    if let Some(e) = ring.submit(vec![read]).error {
        return Err(e);
    }
    ring.waiter().wait(1, Some(LAST_WAIT.as_nanos() as u64))?;
    match ring.collect(1)?.pop() {
        Some(done) if done.result == 8 && *done.owner == 1u64.to_ne_bytes() => Ok(()),
        Some(done) if done.result < 0 => Err(io::Error::from_raw_os_error(-done.result as i32)),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}
