//! `Registration`: a transport's place in the loop's poller (S4).
//!
//! Made by the first `set`, ended once by `end`; in between it follows the transport's interest. Must not depend on
//! the reasons for that interest.

use crate::event_loop::{LoopCore, OnReady};
use crate::ffi::LoopCell;
use oneloop_engine::{Interest, Token};
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;

#[derive(Default)]
pub struct Registration(LoopCell<Option<Token>>);

impl Registration {
    pub fn exists(&self, py: Python<'_>) -> bool {
        self.0.get(py).is_some()
    }

    /// Sets the interest of `transport` in `fd`. Without one it is not kept alive.
    pub fn set(
        &self,
        owner: &LoopCore,
        transport: &Bound<'_, PyAny>,
        fd: RawFd,
        interest: Interest,
        on_ready: OnReady,
    ) -> io::Result<()> {
        let py = transport.py();
        let is_kept = interest != Interest::NONE;
        // The kernel reports a hang-up in any case: then only once.
        let interest = if is_kept { interest } else { Interest::EDGE };
        if let Some(token) = self.0.get(py) {
            owner.change_interest(transport, token, interest, false)?;
            owner.keep(transport, token, is_kept);
            return Ok(());
        }
        // Next to a closing transport, or the other direction of a terminal.
        let token = if owner.is_transports(py, fd) {
            owner.join_or_register(transport, fd, interest, on_ready)?
        } else {
            owner.register(py, fd, interest, transport.clone().unbind(), on_ready)?
        };
        self.0.set(py, Some(token));
        owner.keep(transport, token, is_kept);
        Ok(())
    }

    /// Ends it in any case (S9); the descriptor stays open. If the descriptor was closed elsewhere, its number may
    /// already belong to another connection, so the kernel is not called.
    pub fn end(&self, owner: &LoopCore, transport: &Bound<'_, PyAny>, is_open: bool) {
        let Some(token) = self.0.take(transport.py()) else { return };
        if is_open {
            owner.deregister(transport, token);
        } else {
            owner.vacate(transport, token);
        }
    }

    /// Ends it for a transport that is being freed.
    pub fn end_freed(&self, py: Python<'_>, owner: &LoopCore, is_open: bool) {
        if let Some(token) = self.0.take(py) {
            owner.forget_freed(py, token, is_open);
        }
    }
}
