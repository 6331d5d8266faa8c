//! `Polled`: one of the two engines that a program polls itself, with the same methods for both.
//!
//! | engine | asynchronous for | needs |
//! |---|---|---|
//! | ring | everything | io_uring, Linux 5.11, and a sandbox that allows it |
//! | aio | files opened with O_DIRECT, and polls; other operations block in `submit` | Linux kernel AIO |
//!
//! Waiting is separate: `Waiter::wait` needs no `&mut`, so that other threads can submit meanwhile.

use super::aio::{self, AioContext};
use super::operation::{Completion, Operation, Submission};
use super::polled_ring::{self, PolledRing};
use super::slots::Key;
use crate::sys::aio::RawEvent;
use std::io;
use std::time::Duration;

pub enum Polled<T> {
    Ring(PolledRing<T>),
    Aio(AioContext<T>),
}

#[derive(Clone)]
pub enum Waiter {
    Ring(polled_ring::Waiter),
    Aio(aio::Waiter),
}

/// Events from a wait, for `collect`. The ring's completions stay in its queue.
#[derive(Default)]
pub struct Events(Vec<RawEvent>);

impl Waiter {
    /// Waits for at least `min` completions or until `timeout_ns` has passed. `max` limits how many `events`
    /// receives. EINTR is returned.
    pub fn wait(
        &self,
        min: usize,
        max: usize,
        timeout_ns: Option<u64>,
        events: &mut Events,
    ) -> io::Result<()> {
        match self {
            Self::Ring(waiter) => waiter.wait(min, timeout_ns),
            Self::Aio(waiter) => waiter.wait(min, max, &mut events.0, timeout_ns),
        }
    }
}

impl<T> Polled<T> {
    pub fn ring(capacity: u32) -> io::Result<Self> {
        PolledRing::new(capacity).map(Self::Ring)
    }

    pub fn aio(capacity: u32) -> io::Result<Self> {
        AioContext::new(capacity).map(Self::Aio)
    }

    /// A ring with the ordering and capacity of kernel AIO; see `PolledRing::in_order`.
    pub fn ring_in_order(capacity: u32, room: u32) -> io::Result<Self> {
        PolledRing::in_order(capacity, room).map(Self::Ring)
    }

    /// Uses all the slots that the kernel allocates for `capacity` operations, up to `room`.
    pub fn aio_with_room(capacity: u32, room: u32) -> io::Result<Self> {
        AioContext::with_room(capacity, room).map(Self::Aio)
    }

    pub fn capacity(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.capacity(),
            Self::Aio(context) => context.capacity(),
        }
    }

    pub fn in_flight(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.in_flight(),
            Self::Aio(context) => context.in_flight(),
        }
    }

    pub fn waiter(&self) -> Waiter {
        match self {
            Self::Ring(ring) => Waiter::Ring(ring.waiter()),
            Self::Aio(context) => Waiter::Aio(context.waiter()),
        }
    }

    pub fn submit(&mut self, operations: Vec<Operation<T>>) -> Submission<T> {
        match self {
            Self::Ring(ring) => ring.submit(operations),
            Self::Aio(context) => context.submit(operations),
        }
    }

    /// Returns completions without waiting: up to `max` from the ring's queue, or those in `events` for kernel AIO.
    pub fn collect(&mut self, events: &mut Events, max: usize) -> io::Result<Vec<Completion<T>>> {
        match self {
            Self::Ring(ring) => ring.collect(max),
            Self::Aio(context) => {
                let completions = context.complete(&events.0);
                events.0.clear();
                Ok(completions)
            }
        }
    }

    /// Asks for an operation to end early. ENOENT: not in flight. EINVAL: it cannot be cancelled.
    pub fn cancel(&mut self, key: Key) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.cancel(key),
            Self::Aio(context) => context.cancel(key),
        }
    }

    /// Cancels and waits, at most for `limit`.
    pub fn drain(&mut self, limit: Duration) -> Vec<Completion<T>> {
        match self {
            Self::Ring(ring) => ring.drain(limit),
            Self::Aio(context) => context.drain(limit),
        }
    }

    /// Ends the engine immediately. Returns how many operations were still in flight: they are leaked (S1).
    pub fn abandon(mut self) -> usize {
        match &mut self {
            Self::Ring(ring) => ring.leak(),
            Self::Aio(context) => context.leak(),
        }
    }
}

#[cfg(test)]
mod tests;
