//! `Lost`: a ring or an AIO context that this process must not use any more, and how its work goes on.
//!
//! | reason | what the kernel has not taken | what it has taken |
//! |---|---|---|
//! | the loop runs in another thread, which made a new ring | is lost with the ring | is lost |
//! | a sandbox forbids io_uring_enter(2) or, for a new ring, io_uring_setup(2) | threads do it | is lost |
//! | a sandbox forbids io_getevents(2) | threads do it | is lost |
//!
//! Lost: its future fails, and the memory of its record is never freed (S1). From then on threads do the work. After a
//! ring, kernel AIO is not tried: finding out whether it works takes tens of milliseconds, on the loop's thread.

use super::direct::Direct;
use super::ring::{Ring, Untaken};
use super::threads::Lane;
use super::{Choice, Completion, Engines, Request, refused};
use std::io;

/// Why a ring is not used any more.
pub enum Why {
    /// Only the thread that made it may enter it.
    Moved,
    /// The kernel refuses it with this error.
    Forbidden(io::Error),
}

pub enum Left<T> {
    Ring(Box<Ring<T>>),
    Direct(Direct<T>),
}

/// What is not used any more, with the operations whose end nobody will see.
pub struct Lost<T> {
    pub left: Left<T>,
    pub why: Why,
}

impl<T> Lost<T> {
    /// The operations, with their owners.
    pub fn operations(&self) -> Vec<(&Request, &T)> {
        match &self.left {
            Left::Ring(ring) => ring.operations().collect(),
            Left::Direct(direct) => direct.operations().collect(),
        }
    }
}

impl<T> Engines<T> {
    /// If the loop now runs in another thread, makes a new ring for it.
    pub fn follow_thread(&mut self, completions: &mut Vec<Completion<T>>) {
        if self.ring.as_ref().is_none_or(Ring::is_ours) {
            return;
        }
        match Ring::new() {
            Ok(new) => {
                let old = self.ring.replace(new);
                self.lost =
                    old.map(|ring| Lost { left: Left::Ring(Box::new(ring)), why: Why::Moved });
            }
            Err(error) => self.leave_ring(error, completions),
        }
    }

    /// What was left by the previous call. Its operations have to be given up.
    pub fn take_lost(&mut self) -> Option<Lost<T>> {
        self.lost.take()
    }

    pub(super) fn leave_if_forbidden(
        &mut self,
        entered: io::Result<()>,
        completions: &mut Vec<Completion<T>>,
    ) {
        if let Err(error) = entered {
            self.leave_ring(error, completions);
        }
    }

    /// Threads go on with what the kernel has not taken.
    fn leave_ring(&mut self, error: io::Error, completions: &mut Vec<Completion<T>>) {
        let Some(mut ring) = self.ring.take() else { return };
        self.choice = Choice::Threads;
        for Untaken { key, request, owner, lane, may_wait_for_ever } in ring.give_back(completions)
        {
            let copy = request.clone();
            let handed = if may_wait_for_ever {
                self.submit_unbounded(request, owner)
            } else {
                self.submit(request, lane, owner)
            };
            if let Some(ticket) = refused(handed, copy, completions) {
                self.moved.insert(key, ticket);
            }
        }
        self.lost = Some(Lost { left: Left::Ring(Box::new(ring)), why: Why::Forbidden(error) });
    }

    /// Like `leave_ring`.
    pub(super) fn leave_direct(&mut self, error: io::Error, completions: &mut Vec<Completion<T>>) {
        let Some(mut direct) = self.direct.take() else { return };
        self.choice = Choice::Threads;
        for (request, owner) in direct.give_back() {
            let copy = request.clone();
            refused(self.submit(request, Lane::Local, owner), copy, completions);
        }
        self.lost = Some(Lost { left: Left::Direct(direct), why: Why::Forbidden(error) });
    }
}
