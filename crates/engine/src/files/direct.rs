//! `Direct`: O_DIRECT transfers through Linux kernel AIO, for the loop.
//!
//! Buffered files are never submitted here, because the submission would block. An O_DIRECT transfer that has to
//! allocate blocks or read metadata may block too, so it is submitted with RWF_NOWAIT. It then fails with EAGAIN, or
//! with EOPNOTSUPP on filesystems without that flag.

use super::aio::AioContext;
use super::operation::{self, Opcode, Operation};
use super::request::Request;
use super::{Completion, Outcome};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Operations in flight; more wait in our queue. The system limit is `fs.aio-max-nr`, 65536 in total.
const CAPACITY: u32 = 256;

struct Held<T> {
    request: Request,
    owner: T,
}

pub struct Direct<T> {
    context: AioContext<Held<T>>,
    unsent: VecDeque<Operation<Held<T>>>,
}

impl<T> Direct<T> {
    pub fn new() -> io::Result<Self> {
        Ok(Self { context: AioContext::with_eventfd(CAPACITY)?, unsent: VecDeque::new() })
    }

    /// Readable when there are completions to reap.
    pub fn raw_fd(&self) -> RawFd {
        self.context.eventfd().expect("made with one").as_raw_fd()
    }

    /// Queues a read or a write; `flush` sends it.
    pub fn submit(&mut self, request: Request, owner: T) {
        let (opcode, transfer) = match &request {
            Request::Write(transfer) => (Opcode::Write, transfer),
            Request::Read(transfer) => (Opcode::Read, transfer),
            other => unreachable!("{} is not a transfer", other.name()),
        };
        self.unsent.push_back(Operation {
            opcode,
            fd: transfer.fd,
            offset: transfer.offset,
            memory: transfer.memory.clone(),
            rw_flags: libc::RWF_NOWAIT,
            priority: 0,
            resfd: None,
            owner: Held { request, owner },
        });
    }

    /// True if `flush` has something to send and room for it.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() && self.context.in_flight() < self.context.capacity()
    }

    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    pub fn under_way(&self) -> usize {
        self.unsent.len() + self.context.in_flight()
    }

    /// Sends queued operations as far as there is room. Operations that the kernel refuses complete with its error.
    pub fn flush(&mut self, completions: &mut Vec<Completion<T>>) {
        while self.has_unsent() {
            let room = self.context.capacity() - self.context.in_flight();
            let batch = self.unsent.drain(..room.min(self.unsent.len())).collect();
            let submission = self.context.submit(batch);
            let mut refused = submission.refused.into_iter();
            if let Some(error) = submission.error
                && let Some(first) = refused.next()
            {
                completions.push(completed(first.owner, Err(error)));
            }
            for operation in refused.rev() {
                self.unsent.push_front(operation);
            }
        }
    }

    /// Appends the completions that have arrived.
    pub fn reap(&mut self, completions: &mut Vec<Completion<T>>) -> io::Result<()> {
        self.context.drain_eventfd()?;
        let reaped = self.context.reap(0, usize::MAX, Some(0))?;
        completions.extend(reaped.into_iter().map(result_of));
        self.flush(completions);
        Ok(())
    }

    /// The operations in flight, with their owners.
    pub fn operations(&self) -> impl Iterator<Item = (&Request, &T)> {
        self.context.owners().map(|held| (&held.request, &held.owner))
    }

    /// Returns what was not sent.
    pub fn give_back(&mut self) -> Vec<(Request, T)> {
        let unsent = self.unsent.drain(..).map(|operation| operation.owner);
        unsent.map(|Held { request, owner }| (request, owner)).collect()
    }

    /// Waits up to `limit` for operations in flight. The memory of those that remain is never freed (S1).
    pub fn shut(&mut self, limit: Duration, completions: &mut Vec<Completion<T>>) -> usize {
        let cancelled = || Err(io::Error::from_raw_os_error(libc::ECANCELED));
        let unsent = self.unsent.drain(..);
        completions.extend(unsent.map(|operation| completed(operation.owner, cancelled())));
        let drained = self.context.drain(limit);
        completions.extend(drained.into_iter().map(result_of));
        self.context.in_flight()
    }
}

fn completed<T>(held: Held<T>, result: io::Result<usize>) -> Completion<T> {
    let Held { request, owner } = held;
    Completion { owner, outcome: Outcome { request: Some(request), result } }
}

fn result_of<T>(completion: operation::Completion<Held<T>>) -> Completion<T> {
    let result = completion.result;
    let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32));
    completed(completion.owner, result)
}

/// Checks whether kernel AIO works here by polling an eventfd through it. A success is remembered for the process.
pub fn trial() -> io::Result<()> {
    static WORKS: AtomicBool = AtomicBool::new(false);
    if WORKS.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut context = AioContext::with_eventfd(1)?;
    let source = crate::sys::eventfd::create()?;
    crate::sys::eventfd::signal(std::os::fd::AsFd::as_fd(&source))?;
    let poll = Operation {
        opcode: Opcode::Poll { mask: libc::POLLIN.cast_unsigned() },
        fd: source.as_raw_fd(),
        offset: 0,
        memory: operation::Memory::default(),
        rw_flags: 0,
        priority: 0,
        resfd: None,
        owner: (),
    };
    if let Some(error) = context.submit(vec![poll]).error {
        return Err(error);
    }
    let done = context.reap(1, 1, Some(2_000_000_000))?;
    match done.first() {
        Some(done) if done.result > 0 => {
            WORKS.store(true, Ordering::Relaxed);
            Ok(())
        }
        other => Err(io::Error::other(format!("a trial poll returned {other:?}"))),
    }
}
