//! The methods of `oneloop.Loop` for `add_reader` and `add_writer`.

use super::Side;
use super::callbacks::Callback;
use super::watch::Watch;
use crate::errors;
use crate::event_loop::{Handle, LoopCore};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::os::fd::RawFd;

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
