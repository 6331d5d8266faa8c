//! `Callbacks`: the callbacks of `add_reader` and `add_writer` on one descriptor.
//!
//! They are level-triggered, as in asyncio, and run repeatedly until they are removed or replaced. Must not depend on
//! how the descriptor is registered.

use super::Side;
use super::watch::Watch;
use crate::errors;
use crate::event_loop::{Handle, LoopCore};
use oneloop_engine::Interest;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::os::fd::RawFd;

pub struct Callback {
    pub handle: Py<Handle>,
    /// The tick in which it was added. Events that this tick's poll returned belong to the previous callback.
    pub added_in_tick: u64,
}

#[derive(Default)]
pub struct Callbacks {
    reader: Option<Callback>,
    writer: Option<Callback>,
}

impl Callbacks {
    pub fn on(&mut self, side: Side) -> &mut Option<Callback> {
        match side {
            Side::Read => &mut self.reader,
            Side::Write => &mut self.writer,
        }
    }

    /// `None` without any callback.
    pub fn interest(&self) -> Option<Interest> {
        match (&self.reader, &self.writer) {
            (None, None) => None,
            (Some(_), None) => Some(Interest::READ),
            (None, Some(_)) => Some(Interest::WRITE),
            (Some(_), Some(_)) => Some(Interest::READ | Interest::WRITE),
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut callbacks = self.reader.iter().chain(&self.writer);
        callbacks.try_for_each(|callback| visit.call(&callback.handle))
    }
}

/// The methods of `oneloop.Loop` on descriptors.
#[pymethods]
impl LoopCore {
    /// Watches `fd` on one side. An existing callback is replaced and cancelled.
    fn _add_callback_for(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        is_write: bool,
        callback: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let py = slf.py();
        slf.get().check_closed()?;
        let handle = Handle::make(py, callback, args)?;
        let side = if is_write { Side::Write } else { Side::Read };
        let watch = Watch::on_current_file(slf, fd)?;
        let new = Callback { handle, added_in_tick: slf.get().tick_number(py) };
        let old = watch.get().with(py, |s| s.callbacks.on(side).replace(new));
        if let Some(old) = old {
            old.handle.get().work.cancel(py);
        }
        if let Err(e) = Watch::update(&watch, slf, fd) {
            let refused = watch.get().with(py, |s| s.callbacks.on(side).take());
            drop(refused);
            return Err(errors::os_error("epoll_ctl", &e));
        }
        Ok(())
    }

    /// Removes a callback. Returns True if there was one.
    fn _remove_callback_for(slf: &Bound<'_, Self>, fd: RawFd, is_write: bool) -> PyResult<bool> {
        let py = slf.py();
        if slf.get().is_closed_now() {
            return Ok(false);
        }
        let side = if is_write { Side::Write } else { Side::Read };
        let Some(watch) = Watch::existing(slf, fd) else { return Ok(false) };
        let Some(old) = watch.get().with(py, |s| s.callbacks.on(side).take()) else {
            return Ok(false);
        };
        old.handle.get().work.cancel(py);
        Watch::update(&watch, slf, fd).map_err(|e| errors::os_error("epoll_ctl", &e))?;
        Ok(true)
    }

    /// True if `fd` has a reader or a writer.
    fn _has_callbacks_for(slf: &Bound<'_, Self>, fd: RawFd) -> bool {
        Watch::existing(slf, fd)
            .is_some_and(|watch| watch.get().with(slf.py(), |s| s.callbacks.interest().is_some()))
    }

    /// Raises RuntimeError if a transport owns the descriptor.
    fn _ensure_fd_no_transport(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        Watch::on(slf, fd).map(drop)
    }
}
