//! Who owns which descriptor: one source per descriptor number (S4).

use super::LoopCore;
use crate::ffi::Object;
use oneloop_engine::{Interest, Readiness, Token};
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;

/// Serves the readiness of one source. Runs on the loop's thread with no borrow held (S2);
/// returns only KeyboardInterrupt and SystemExit (S7).
pub type OnReady =
    for<'py> fn(&Bound<'py, LoopCore>, &Bound<'py, PyAny>, Readiness) -> PyResult<()>;

pub struct Source {
    pub object: Py<PyAny>,
    pub on_ready: OnReady,
    pub token: Token,
}

/// Writes out what an object has queued during the tick.
pub type Flush = super::ready::Run;

impl LoopCore {
    /// Registers `object` as the owner of `fd`.
    pub fn register(
        &self,
        py: Python<'_>,
        fd: RawFd,
        interest: Interest,
        object: Py<PyAny>,
        on_ready: OnReady,
    ) -> io::Result<Token> {
        let token = self.with_poller(py, |poller| poller.register(fd, interest))??;
        let index = token.fd().cast_unsigned() as usize;
        let old = self.sources.with(py, |sources| {
            if sources.len() <= index {
                sources.resize_with(index + 1, || None);
            }
            sources[index].replace(Source { object, on_ready, token })
        });
        // An owner whose descriptor was closed behind its back; its token is stale by now.
        drop(old);
        Ok(token)
    }

    pub fn change_interest(
        &self,
        py: Python<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.with_poller(py, |poller| poller.modify(token, interest))?
    }

    /// Like `change_interest`, but asks the kernel even if nothing has changed: ENOENT tells that
    /// the registered file is gone.
    pub fn reaffirm_interest(
        &self,
        py: Python<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.with_poller(py, |poller| poller.reaffirm(token, interest))?
    }

    /// Ends a registration while its descriptor is still open.
    pub fn deregister(&self, py: Python<'_>, token: Token) -> io::Result<()> {
        let result = self.with_poller(py, |poller| poller.deregister(token));
        drop(self.take_source(py, token));
        result?
    }

    /// Ends a registration whose descriptor somebody else has closed.
    pub fn vacate(&self, py: Python<'_>, token: Token) -> io::Result<()> {
        let result = self.with_poller(py, |poller| poller.vacate(token));
        drop(self.take_source(py, token));
        result.map(drop)
    }

    /// The owner of a descriptor number, if it has one.
    pub fn source_of<'py>(&self, py: Python<'py>, fd: RawFd) -> Option<(Bound<'py, PyAny>, Token)> {
        let index = usize::try_from(fd).ok()?;
        self.sources.with(py, |sources| {
            let source = sources.get(index)?.as_ref()?;
            Some((source.object.bind(py).clone(), source.token))
        })
    }

    fn take_source(&self, py: Python<'_>, token: Token) -> Option<Source> {
        self.sources.with(py, |sources| {
            let slot = sources.get_mut(token.fd().cast_unsigned() as usize)?;
            if slot.as_ref().is_some_and(|source| source.token == token) {
                return slot.take();
            }
            None
        })
    }

    /// Asks for `flush(object)` at the end of this tick.
    pub fn flush_later(&self, py: Python<'_>, object: Object, flush: Flush) {
        self.dirty.with(py, |dirty| dirty.push((object, flush)));
    }

    /// Puts a native completion at the end of the ready queue.
    pub fn run_soon(&self, py: Python<'_>, object: Py<PyAny>, run: super::Run) {
        self.ready.with(py, |ready| ready.push_back(super::Ready::Native(object, run)));
    }
}
