//! Writes a whole file in one round trip to a thread.
//!
//! Three round trips (open, write, close) cost three times as much, and the last two depend on nothing else.

use super::Files;
use super::cancel::{Abandoned, Canceller};
use super::content::is_immutable;
use super::operations::{LONG, StartOutcome, Strategy};
use super::pending::{Conversion, NOT_HERE};
use crate::ffi::buffer::View;
use oneloop_engine::files::cached;
use oneloop_engine::files::mount::Place;
use oneloop_engine::files::{Lane, Segment, Transfer};
use oneloop_engine::sys::file;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// After each piece the thread checks whether the operation was abandoned.
const PIECE: usize = 4 << 20;
impl Files {
    /// The lane for a path.
    fn lane_of(path: &CStr) -> Lane {
        if cached::is_local(path) {
            return Lane::Local;
        }
        Lane::Remote(cached::place_of(libc::AT_FDCWD, path))
    }
}

fn check(abandoned: &AtomicBool) -> io::Result<()> {
    if abandoned.load(Ordering::Acquire) {
        return Err(io::Error::from_raw_os_error(libc::ECANCELED));
    }
    Ok(())
}

/// Writes the whole segment, at offset `from` or at the end (-1).
fn write_all(fd: RawFd, from: i64, segment: Segment, abandoned: &AtomicBool) -> io::Result<usize> {
    let (mut rest, mut offset) = (segment, from);
    while !rest.is_empty() {
        check(abandoned)?;
        match Transfer::new(fd, offset, false, &[rest.cut(PIECE)]).write() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(n) => {
                rest = rest.skip(n);
                if from >= 0 {
                    offset += n.cast_signed() as i64;
                }
            }
        }
    }
    Ok(segment.len())
}

/// Closes the file in any case. An error of the work takes precedence over an error of the close.
pub(super) fn closed(fd: RawFd, done: io::Result<usize>) -> io::Result<usize> {
    let closed = file::close(fd);
    done.and_then(|n| closed.map(|()| n))
}

#[pymethods]
impl Files {
    /// Open, write and close a regular file. Returns the number of bytes, or a future of them, or of None without doing
    /// anything if the path is not a regular file. If cancelled, it ends soon, possibly with a partly written file.
    /// Returns None instead of a future also if the data could change and the filesystem could need it forever: it must be copied in pieces.
    #[pyo3(signature = (path, data, flags, mode, /))]
    fn write_file<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        data: &Bound<'py, PyAny>,
        flags: i32,
        mode: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = super::paths::path(path)?;
        let view = View::of(data)?;
        let is_owned = is_immutable(data);
        let segment = view.segment();
        if is_owned && segment.len() <= LONG && cached::is_short_to_replace(&path) {
            return Self::write_shortly(slf, path, view, flags, mode);
        }
        if !is_owned && !cached::is_local(&path) {
            return Ok(data.py().None().into_bound(data.py()));
        }
        // A filesystem on another machine may take long.
        let lane = match Self::lane_of(&path) {
            Lane::Local | Lane::Remote(Place::Local) if segment.len() > LONG => Lane::Bulk,
            lane => lane,
        };
        let abandoned = Abandoned::default();
        let theirs = Arc::clone(&abandoned);
        let work = move || {
            check(&theirs)?;
            match cached::look_up(libc::AT_FDCWD, &path, flags) {
                Ok(status) if status.is_file_or_folder() => {}
                // open(2) creates it, or says why not: a name that ends with a slash is EISDIR for it.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {}
                Ok(_) => return Ok(NOT_HERE),
                Err(e) => return Err(e),
            }
            let fd = file::open_owned(libc::AT_FDCWD, &path, flags, mode)?.into_raw_fd();
            closed(fd, write_all(fd, 0, segment, &theirs))
        };
        let (strategy, conversion) =
            (Strategy::Call(Box::new(work), lane), Conversion::Written(view));
        if is_owned {
            return Self::begin_abandonable(slf, strategy, conversion, abandoned);
        }
        Self::begin_borrowing(slf, strategy, conversion, Some(abandoned))
    }
}

impl Files {
    /// Overwrites a small file with data that nobody can change.
    fn write_shortly<'py>(
        slf: &Bound<'py, Self>,
        path: CString,
        view: View,
        flags: i32,
        mode: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let segment = view.segment();
        let abandoned = Abandoned::default();
        let theirs = Arc::clone(&abandoned);
        let work = move || {
            check(&theirs)?;
            let Some((fd, _)) = cached::open_short(libc::AT_FDCWD, &path, flags, mode)? else {
                return Ok(NOT_HERE);
            };
            let fd = fd.into_raw_fd();
            closed(fd, write_all(fd, 0, segment, &theirs))
        };
        let (strategy, conversion) =
            (Strategy::Call(Box::new(work), Lane::Local), Conversion::Written(view));
        match Self::begin_briefly(slf, strategy, conversion)? {
            StartOutcome::Finished(done) => done,
            StartOutcome::Running(future, ticket) => {
                Canceller::watch(slf, &future, ticket, Some(abandoned))?;
                Ok(future)
            }
        }
    }
}
