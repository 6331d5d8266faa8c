//! `AioContext`: a Linux kernel AIO context and the operations in it.
//!
//! Kernel AIO is asynchronous for files opened with O_DIRECT, and for polls. Buffered reads and writes block inside
//! `submit`: callers that must not block must not submit them.
//!
//! Life of an operation:
//!
//! | state | who has the record | leads to |
//! |---|---|---|
//! | offered | the caller | refused → given back; taken → in flight |
//! | in flight | a slot, at a fixed address | its event → completed; dropping the context → leaked |
//! | completed | the caller, with the result | |
//! | leaked | nobody, forever (S1) | |
//!
//! Cancelling asks the kernel and changes no state. A key names a slot and a generation (S4). In the child of a fork
//! every call fails and nothing is in flight: contexts are not inherited (S6).

use super::operation::{Completion, Opcode, Operation, Submission};
use super::slots::{Key, Slots};
use crate::sys::aio::{self, ContextId, Iocb, RawEvent};
use crate::sys::{eventfd, fork};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long `drop` waits for operations in flight.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// The maximum number of events that one system call returns.
const EVENTS_PER_WAIT: usize = 512;

/// The kernel's context. It is destroyed when the last thread that may wait on it has dropped it, so that no thread
/// waits on an address that the kernel has reused for another context.
#[derive(Debug)]
struct Kernel {
    id: ContextId,
    /// `fork::generation` of the process that made the context (S6).
    forks: u32,
}

impl Kernel {
    fn refuse_foreign(&self) -> io::Result<()> {
        if self.forks == fork::generation() {
            return Ok(());
        }
        Err(io::Error::other(
            "this AIO context belongs to the parent process: a forked child must make its own",
        ))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.forks == fork::generation() {
            // The only error is EINVAL: the context is already gone.
            let _gone = aio::destroy(self.id);
        }
    }
}

/// Waits for events without access to the records, so that one thread can wait while others submit.
#[derive(Clone, Debug)]
pub struct Waiter(Arc<Kernel>);

impl Waiter {
    /// Waits until at least `min` events have arrived or `timeout_ns` has passed, and appends at most `max` events to
    /// `events`. EINTR is returned.
    pub fn wait(
        &self,
        min: usize,
        max: usize,
        events: &mut Vec<RawEvent>,
        timeout_ns: Option<u64>,
    ) -> io::Result<()> {
        self.0.refuse_foreign()?;
        aio::events(self.0.id, min.min(max), max, events, timeout_ns)
    }
}

/// An operation in flight. Boxed because io_cancel(2) identifies it by the address of its `Iocb`.
struct Record<T> {
    iocb: Iocb,
    operation: Operation<T>,
    is_cancelled: bool,
}

pub struct AioContext<T> {
    records: Slots<Box<Record<T>>>,
    capacity: usize,
    eventfd: Option<OwnedFd>,
    events: Vec<RawEvent>,
    kernel: Arc<Kernel>,
}

impl<T> AioContext<T> {
    /// Makes a context for `capacity` concurrent operations. EAGAIN: the system limit `fs.aio-max-nr` is reached.
    pub fn new(capacity: u32) -> io::Result<Self> {
        let forks = fork::generation();
        let kernel = Arc::new(Kernel { id: aio::setup(capacity)?, forks });
        Ok(Self {
            records: Slots::default(),
            capacity: capacity as usize,
            eventfd: None,
            events: Vec::new(),
            kernel,
        })
    }

    /// Like `new`, but allows up to `room` concurrent operations. The kernel counts `capacity` against the system
    /// limit and allocates more slots than that.
    pub fn with_room(capacity: u32, room: u32) -> io::Result<Self> {
        let mut context = Self::new(capacity)?;
        context.capacity = room as usize;
        Ok(context)
    }

    /// Like `new`, with an eventfd that every completion signals, for use in a poller. An operation with its own
    /// eventfd signals that one instead.
    pub fn with_eventfd(capacity: u32) -> io::Result<Self> {
        let mut context = Self::new(capacity)?;
        context.eventfd = Some(eventfd::create()?);
        Ok(context)
    }

    pub fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        self.eventfd.as_ref().map(AsFd::as_fd)
    }

    /// Resets the eventfd's counter. Must be called before `reap`, so that no completion is missed.
    pub fn drain_eventfd(&self) -> io::Result<()> {
        self.eventfd().map_or(Ok(()), eventfd::drain)
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The owners of the operations in flight.
    pub fn owners(&self) -> impl Iterator<Item = &T> {
        self.records.iter().map(|record| &record.operation.owner)
    }

    pub fn in_flight(&self) -> usize {
        self.records.len()
    }

    pub fn waiter(&self) -> Waiter {
        Waiter(Arc::clone(&self.kernel))
    }

    pub fn contains(&mut self, key: Key) -> bool {
        self.records.get_mut(key).is_some()
    }

    /// Submits operations in order, until the context is full or an operation is invalid. An accepted operation keeps
    /// its owner until its completion.
    pub fn submit(&mut self, operations: Vec<Operation<T>>) -> Submission<T> {
        let mut rest = operations.into_iter();
        if let Err(e) = self.kernel.refuse_foreign() {
            return Submission { taken: Vec::new(), refused: rest.collect(), error: Some(e) };
        }
        let room = self.capacity - self.records.len();
        let mut keys = Vec::with_capacity(room.min(rest.len()));
        let mut pointers = Vec::with_capacity(room.min(rest.len()));
        for operation in rest.by_ref().take(room) {
            let (key, pointer) = self.insert(operation);
            keys.push(key);
            pointers.push(pointer);
        }
        let mut error = None;
        if keys.is_empty() && rest.len() > 0 {
            error = Some(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let taken = match self.enter(&pointers) {
            Ok(taken) => taken,
            Err(e) => {
                error = Some(e);
                0
            }
        };
        let refused = keys.split_off(taken).into_iter().filter_map(|key| self.records.remove(key));
        let refused = refused.map(|record| record.operation).chain(rest).collect();
        Submission { taken: keys, refused, error }
    }

    fn insert(&mut self, operation: Operation<T>) -> (Key, *mut Iocb) {
        let resfd = operation.resfd.or(self.eventfd.as_ref().map(AsRawFd::as_raw_fd));
        let iocb = describe(&operation, resfd);
        let record = Record { iocb, operation, is_cancelled: false };
        let key = self.records.insert(Box::new(record));
        let record = self.records.get_mut(key).expect("it has just been inserted");
        record.iocb.data = key.as_u64();
        (key, &raw mut record.iocb)
    }

    #[allow(unsafe_code)]
    fn enter(&self, pointers: &[*mut Iocb]) -> io::Result<usize> {
        if pointers.is_empty() {
            return Ok(0);
        }
        // SAFETY: S1: the records are boxed and stay in their slots until `complete` has seen their
        // events; with them their owners, which keep the memory (`Memory::new`).
        unsafe { aio::submit(self.kernel.id, pointers) }
    }

    /// Returns at least `min` and at most `max` completions. Returns fewer than `min` if `timeout_ns` passes first
    /// (`None`: no timeout). EINTR is returned as an error only if there are no completions to return.
    pub fn reap(
        &mut self,
        min: usize,
        max: usize,
        timeout_ns: Option<u64>,
    ) -> io::Result<Vec<Completion<T>>> {
        self.kernel.refuse_foreign()?;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let max = max.min(EVENTS_PER_WAIT.max(min)).min(self.capacity);
        let waited = aio::events(self.kernel.id, min.min(max), max, &mut events, timeout_ns);
        let completions = self.complete(&events);
        self.events = events;
        waited.map(|()| completions)
    }

    /// Turns events from a `Waiter` into completions. Drops an event whose operation is not in flight (S4).
    pub fn complete(&mut self, events: &[RawEvent]) -> Vec<Completion<T>> {
        events.iter().filter_map(|event| self.complete_one(event)).collect()
    }

    fn complete_one(&mut self, event: &RawEvent) -> Option<Completion<T>> {
        let key = Key::from_u64(event.data);
        let record = self.records.remove(key)?;
        let result = match record.operation.opcode {
            Opcode::Poll { mask } => readiness(event.result, mask, record.is_cancelled),
            _ => event.result,
        };
        let owner = record.operation.owner;
        Some(Completion { key, result, second_result: event.second_result, owner })
    }

    /// Asks the kernel to end an operation early. Its completion still arrives and says how it ended. EINVAL: the
    /// operation cannot be cancelled, which is true of every disk operation. ENOENT: it is not in flight.
    pub fn cancel(&mut self, key: Key) -> io::Result<()> {
        self.kernel.refuse_foreign()?;
        let Some(record) = self.records.get_mut(key) else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        aio::cancel(self.kernel.id, &mut record.iocb)?;
        record.is_cancelled = true;
        Ok(())
    }

    /// Cancels what can be cancelled and waits up to `limit` for the rest. Returns the completions. Operations still
    /// in flight after that are left to `drop`.
    pub fn drain(&mut self, limit: Duration) -> Vec<Completion<T>> {
        if self.kernel.refuse_foreign().is_err() {
            return self.disown();
        }
        let keys: Vec<Key> = self.records.keys().collect();
        for key in keys {
            // Disk operations cannot be cancelled; they complete on their own.
            let _uncancellable = self.cancel(key);
        }
        let end = Instant::now() + limit;
        let mut completions = Vec::new();
        while !self.records.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            match self.reap(1, usize::MAX, Some(left_ns)) {
                Ok(more) if more.is_empty() && left.is_zero() => break,
                Ok(more) => completions.extend(more),
                Err(e) if e.kind() == io::ErrorKind::Interrupted && !left.is_zero() => {}
                Err(_) => break,
            }
        }
        completions
    }

    /// In the child of a fork these operations do not exist in the kernel: completes them all with ECANCELED.
    fn disown(&mut self) -> Vec<Completion<T>> {
        let result = -i64::from(libc::ECANCELED);
        let cancelled = |key: Key| RawEvent { data: key.as_u64(), result, ..RawEvent::default() };
        let events: Vec<RawEvent> = self.records.keys().map(cancelled).collect();
        self.complete(&events)
    }

    /// Gives up the operations in flight and returns their number. Their memory is never freed (S1), and the kernel's
    /// context stays until the process ends, because io_destroy(2) would wait for them.
    pub(super) fn leak(&mut self) -> usize {
        let leaked = self.records.len();
        if leaked > 0 {
            std::mem::forget(std::mem::take(&mut self.records));
            std::mem::forget(Arc::clone(&self.kernel));
        }
        leaked
    }
}

impl<T> Drop for AioContext<T> {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            drop(self.drain(LAST_WAIT));
        }
        self.leak();
    }
}

/// Converts a poll's result to what the ring would return: kernel AIO may report events that were not requested, and
/// ends a cancelled poll with an empty mask.
fn readiness(result: i64, mask: u16, is_cancelled: bool) -> i64 {
    let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    match result {
        0 if is_cancelled => -i64::from(libc::ECANCELED),
        ready if ready > 0 => ready & i64::from(mask | always.cast_unsigned()),
        other => other,
    }
}

/// Converts an operation to the kernel's `iocb`.
fn describe<T>(operation: &Operation<T>, resfd: Option<RawFd>) -> Iocb {
    let segments = operation.memory.segments();
    let one = |scalar, vectored| match segments {
        [only] => (scalar, only.iov_base.expose_provenance(), only.iov_len),
        many => (vectored, many.as_ptr().expose_provenance(), many.len()),
    };
    let (opcode, buffer, len) = match operation.opcode {
        Opcode::Read => one(aio::PREAD, aio::PREADV),
        Opcode::Write => one(aio::PWRITE, aio::PWRITEV),
        Opcode::Fsync => (aio::FSYNC, 0, 0),
        Opcode::Fdsync => (aio::FDSYNC, 0, 0),
        Opcode::Poll { mask } => (aio::POLL, usize::from(mask), 0),
    };
    let mut iocb = Iocb {
        rw_flags: operation.rw_flags.cast_unsigned(),
        opcode,
        fd: operation.fd.cast_unsigned(),
        buffer: buffer as u64,
        len: len as u64,
        offset: operation.offset,
        ..Iocb::default()
    };
    if operation.priority != 0 {
        iocb.flags |= aio::IOPRIO;
        iocb.priority = operation.priority.cast_signed();
    }
    if let Some(fd) = resfd {
        iocb.flags |= aio::RESFD;
        iocb.resfd = fd.cast_unsigned();
    }
    iocb
}

#[cfg(test)]
mod tests;
