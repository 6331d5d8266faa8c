//! File I/O: one interface, three engines, chosen at run time.
//!
//! `Engines` takes requests with their owners and returns both with the result. This file alone decides which engine
//! executes a request:
//!
//! | chosen | requests with an opcode | O_DIRECT reads and writes | opening FIFOs | calls |
//! |---|---|---|---|---|
//! | ring | ring | ring | ring, a few; threads | threads |
//! | aio | threads | kernel AIO; threads | threads | threads |
//! | threads | threads | threads | threads | threads |
//!
//! Operations that cannot block need no engine: `cached` does them directly. Nothing here uses Python.
//!
//! The memory of a request belongs to its owner, which an engine keeps until the completion (S1). Operations still
//! running when the engines are shut down keep their owners forever.

pub mod aio;
pub mod beneath;
pub mod blocking;
pub mod cached;
mod direct;
mod entry;
mod fifo;
pub(crate) mod handover;
mod leaving;
pub mod mount;
pub mod operation;
pub mod polled;
pub mod polled_ring;
pub mod probe;
pub mod request;
pub mod ring;
pub mod served;
pub mod slots;
pub mod threads;

pub use crate::sys::transfer::{Segment, Transfer};
pub use request::{Place, Request};

use crate::sys::fork;
use direct::Direct;
pub use leaving::{Left, Lost, Why};
use ring::Ring;
use slots::Key;
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
pub use threads::{Brief, Call, Lane};
use threads::{Pool, Work};

/// Relative paths start in the current folder.
pub const AT_FDCWD: RawFd = libc::AT_FDCWD;
/// unlinkat(2): remove a folder.
pub const REMOVE_FOLDER: libc::c_int = libc::AT_REMOVEDIR;
/// linkat(2): link the target of a symbolic link.
pub const FOLLOW: libc::c_int = libc::AT_SYMLINK_FOLLOW;

/// One way to do file I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Ring,
    Aio,
    Threads,
}

impl Choice {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Aio => "aio",
            Self::Threads => "threads",
        }
    }
}

/// The result of a request. A call has no request.
#[derive(Debug)]
pub struct Outcome {
    pub request: Option<Request>,
    /// A descriptor, a number of bytes, or 0.
    pub result: io::Result<usize>,
}

#[derive(Debug)]
pub struct Completion<T> {
    pub owner: T,
    pub outcome: Outcome,
}

/// Identifies a running operation, to cancel it.
#[derive(Clone, Copy, Debug)]
pub enum Ticket {
    Ring(Key),
    /// In kernel AIO, which cannot cancel disk operations.
    Direct,
    Threads(Key),
}

pub struct Engines<T> {
    choice: Choice,
    ring: Option<Ring<T>>,
    /// Made by the first O_DIRECT transfer, because destroying a kernel AIO context takes about 30 ms.
    direct: Option<Direct<T>>,
    pool: Pool<T>,
    /// A ring that is not used any more; for `take_lost`.
    lost: Option<Lost<T>>,
    /// The present tickets of requests that were moved from a ring to threads.
    moved: HashMap<Key, Ticket>,
    born: u32,
}

/// The error and the owner of a request that could not be submitted.
pub type Refused<T> = (io::Error, T);

impl<T> Engines<T> {
    /// `choice` must have passed `probe::trial`.
    pub fn new(choice: Choice) -> io::Result<Self> {
        let ring = if choice == Choice::Ring { Some(Ring::new()?) } else { None };
        Ok(Self {
            choice,
            ring,
            direct: None,
            pool: Pool::new()?,
            lost: None,
            moved: HashMap::new(),
            born: fork::generation(),
        })
    }

    /// Signals an edge whenever the pool has completions to reap; never read.
    pub fn pool_fd(&self) -> RawFd {
        self.pool.raw_fd()
    }

    /// Readable when kernel AIO has completions to reap.
    pub fn direct_fd(&self) -> Option<RawFd> {
        self.direct.as_ref().map(Direct::raw_fd)
    }

    /// Signals an edge whenever the ring has completions to reap.
    pub fn ring_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(Ring::raw_fd)
    }

    /// Queues a request; `flush` sends it. `lane` selects the threads, if they execute it.
    pub fn submit(&mut self, request: Request, lane: Lane, owner: T) -> Result<Ticket, Refused<T>> {
        match (request, &mut self.ring) {
            (request, Some(ring))
                if request.suits_ring()
                    && ring.is_supported(&request)
                    && ring.has_room(&request, lane) =>
            {
                Ok(Ticket::Ring(ring.submit(request, lane, owner)))
            }
            (request, _) if request.is_direct() && self.choice == Choice::Aio => {
                self.submit_direct(request, owner)
            }
            (request, _) if request.may_wait_for_ever() => self.submit_unbounded(request, owner),
            (request, _) => self.hand_to_pool(request, lane, owner),
        }
    }

    fn submit_direct(&mut self, request: Request, owner: T) -> Result<Ticket, Refused<T>> {
        let direct = match &mut self.direct {
            Some(direct) => direct,
            slot => match Direct::new() {
                Ok(direct) => slot.insert(direct),
                // The system limit of contexts is reached (fs.aio-max-nr): a thread does the transfer.
                Err(_) => return self.hand_to_pool(request, Lane::Local, owner),
            },
        };
        direct.submit(request, owner);
        Ok(Ticket::Direct)
    }

    fn hand_to_pool(
        &mut self,
        request: Request,
        lane: Lane,
        owner: T,
    ) -> Result<Ticket, Refused<T>> {
        self.pool.submit(lane, Work::Request(request), owner).map(Ticket::Threads)
    }

    /// Submits a request that may wait forever, such as opening a FIFO, to a kernel worker that can be stopped or to
    /// a separate thread.
    pub fn submit_unbounded(
        &mut self,
        mut request: Request,
        mut owner: T,
    ) -> Result<Ticket, Refused<T>> {
        if let Some(ring) = &mut self.ring {
            match ring.submit_unbounded(request, owner) {
                Ok(key) => return Ok(Ticket::Ring(key)),
                Err(back) => (request, owner) = back,
            }
        }
        self.pool.submit_unbounded(request, owner).map(Ticket::Threads)
    }

    /// Calls a function on a thread.
    pub fn call(&mut self, call: Call, lane: Lane, owner: T) -> Result<Ticket, Refused<T>> {
        self.pool.submit(lane, Work::Call(call), owner).map(Ticket::Threads)
    }

    /// Like `call`, for work that must be done even while the engines are being shut down.
    pub fn call_uncancellable(
        &mut self,
        call: Call,
        lane: Lane,
        owner: T,
    ) -> Result<Ticket, Refused<T>> {
        self.pool.submit_uncancellable(lane, Work::Call(call), owner).map(Ticket::Threads)
    }

    /// Submits work for a thread and waits for its end, at most for `patience`, if a thread can start it immediately.
    /// `is_uncancellable`: as for `call_uncancellable`.
    pub fn work_and_wait(
        &mut self,
        work: Work,
        lane: Lane,
        is_uncancellable: bool,
        owner: T,
        patience: Duration,
    ) -> Result<Brief<T>, Refused<T>> {
        self.pool.submit_and_wait(lane, work, is_uncancellable, owner, patience)
    }

    /// The owner of work that `work_and_wait` did not see the end of.
    pub fn owner(&mut self, key: Key) -> Option<&mut T> {
        self.pool.owner(key)
    }

    /// Asks for an operation to end early. Its completion arrives in any case.
    pub fn cancel(&mut self, ticket: Ticket) {
        match (ticket, &mut self.ring) {
            (Ticket::Ring(key), Some(ring)) => ring.cancel(key),
            (Ticket::Ring(key), None) => {
                if let Some(ticket) = self.moved.remove(&key) {
                    self.cancel(ticket);
                }
            }
            (Ticket::Direct, _) => {}
            (Ticket::Threads(key), _) => self.pool.cancel(key),
        }
    }

    /// True if `flush` has something to send.
    pub fn has_unsent(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::has_unsent)
            || self.direct.as_ref().is_some_and(Direct::has_unsent)
    }

    /// Sends queued requests in one system call, and appends those that completed during it.
    pub fn flush(&mut self, completions: &mut Vec<Completion<T>>) {
        if let Some(direct) = &mut self.direct {
            let mut refused = Vec::new();
            direct.flush(&mut refused);
            self.pass_on(refused, completions);
        }
        let flushed = self.ring.as_mut().map_or(Ok(()), |ring| ring.flush(completions));
        self.leave_if_forbidden(flushed, completions);
    }

    /// Appends the ring's completions.
    pub fn reap_ring(&mut self, completions: &mut Vec<Completion<T>>) {
        let reaped = self.ring.as_mut().map_or(Ok(()), |ring| ring.reap(completions));
        self.leave_if_forbidden(reaped, completions);
    }

    /// Appends kernel AIO's completions.
    pub fn reap_direct(&mut self, completions: &mut Vec<Completion<T>>) {
        let Some(direct) = &mut self.direct else { return };
        let mut reaped = Vec::new();
        let result = direct.reap(&mut reaped);
        self.pass_on(reaped, completions);
        if let Err(error) = result {
            self.leave_direct(error, completions);
        }
    }

    /// Passes transfers that kernel AIO could not do without blocking, not on this filesystem, or not any more because a
    /// sandbox forbids it, to a thread, whose result counts.
    fn pass_on(&mut self, ended: Vec<Completion<T>>, completions: &mut Vec<Completion<T>>) {
        let is_refusal = |error: &io::Error| {
            matches!(
                error.raw_os_error(),
                Some(
                    libc::EAGAIN
                        | libc::EOPNOTSUPP
                        | libc::EINVAL
                        | libc::EPERM
                        | libc::EACCES
                        | libc::ENOSYS
                )
            )
        };
        for Completion { owner, outcome: Outcome { request, result } } in ended {
            match (request, result) {
                (Some(request), Err(error)) if is_refusal(&error) => {
                    let copy = request.clone();
                    let handed = self.hand_to_pool(request, Lane::Local, owner);
                    refused(handed, copy, completions);
                }
                (request, result) => {
                    completions.push(Completion { owner, outcome: Outcome { request, result } });
                }
            }
        }
    }

    /// Appends the pool's completions.
    pub fn reap_pool(&mut self, completions: &mut Vec<Completion<T>>) {
        self.pool.reap(completions);
    }

    pub fn under_way(&self) -> usize {
        self.ring.as_ref().map_or(0, Ring::under_way)
            + self.direct.as_ref().map_or(0, Direct::under_way)
            + self.pool.under_way()
    }

    /// O_DIRECT transfers waiting for `flush`.
    pub fn unsent_direct(&self) -> usize {
        self.ring.as_ref().map_or(0, Ring::unsent_direct)
            + self.direct.as_ref().map_or(0, Direct::unsent)
    }

    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// See `Pool::has_spare_thread`.
    pub fn has_spare_thread(&self) -> bool {
        self.pool.has_spare_thread()
    }

    /// Cancels everything, waits until `deadline` and reaps. Returns the number of operations that were given up.
    pub fn shut(mut self, deadline: Instant, completions: &mut Vec<Completion<T>>) -> usize {
        if self.born != fork::generation() {
            // The threads and the ring belong to the parent process (S6).
            std::mem::forget(self);
            return 0;
        }
        let mut left = self.pool.shut(deadline, completions);
        if let Some(direct) = &mut self.direct {
            let limit = deadline.saturating_duration_since(Instant::now());
            left += direct.shut(limit, completions);
        }
        if let Some(ring) = &mut self.ring {
            left += ring.shut(deadline, completions);
        }
        left
    }
}

/// Completes a request that no thread could be started for. It is returned with its error, because its descriptor waits
/// for its end.
fn refused<T>(
    handed: Result<Ticket, Refused<T>>,
    request: Request,
    completions: &mut Vec<Completion<T>>,
) -> Option<Ticket> {
    match handed {
        Ok(ticket) => Some(ticket),
        Err((error, owner)) => {
            let outcome = Outcome { request: Some(request), result: Err(error) };
            completions.push(Completion { owner, outcome });
            None
        }
    }
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
