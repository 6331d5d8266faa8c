//! Writes a whole file in one round trip to a thread.
//!
//! Three round trips (open, write, close) cost three times as much, and the last two depend on nothing else.

use super::Files;
use super::operations::{LONG, Way};
use super::pending::Want;
use crate::ffi::buffer::View;
use oneloop_engine::files::cached;
use oneloop_engine::files::{Lane, Segment, Transfer};
use oneloop_engine::sys::file;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CStr;
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// After each piece the thread checks whether the operation was abandoned.
const PIECE: usize = 4 << 20;
/// A thread returns this for a path that is not a regular file: opening it may wait forever.
pub const NOT_HERE: usize = usize::MAX;

/// Set when nobody waits any more.
pub type Abandoned = Arc<AtomicBool>;

impl Files {
    /// The lane for a path.
    fn lane_of(path: &CStr) -> Lane {
        if cached::is_near(path) { Lane::Near } else { Lane::Far }
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
    /// Open, write and close a regular file. Returns the number of bytes, or None without doing anything if the path
    /// is not a regular file. If cancelled, it ends soon, possibly with a partly written file.
    #[pyo3(signature = (path, data, flags, mode, /))]
    fn write_file<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        data: &Bound<'py, PyAny>,
        flags: i32,
        mode: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = super::names::path(path)?;
        let view = View::of(data)?;
        let segment = view.segment();
        // A filesystem on another machine may take long.
        let lane = if segment.len() > LONG { Lane::Bulk } else { Self::lane_of(&path) };
        let abandoned = Abandoned::default();
        let theirs = Arc::clone(&abandoned);
        let work = move || {
            check(&theirs)?;
            match cached::look_up(libc::AT_FDCWD, &path, flags) {
                Ok(status) if status.is_file_or_folder() => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
                Ok(_) => return Ok(NOT_HERE),
                Err(e) => return Err(e),
            }
            let fd = file::open_owned(libc::AT_FDCWD, &path, flags, mode)?.into_raw_fd();
            closed(fd, write_all(fd, 0, segment, &theirs))
        };
        Self::begin_abandonable(
            slf,
            Way::Call(Box::new(work), lane),
            Want::Written(view),
            abandoned,
        )
    }
}
