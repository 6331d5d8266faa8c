//! Opening a FIFO on a thread, so that the wait for its other end can be stopped.
//!
//! A thread in a blocking open(2) cannot be interrupted: after a cancellation it would keep waiting as a reader that
//! nobody uses, and take the next writer's data. So the FIFO is opened without blocking, and the thread then waits for
//! the other end. Opening the reading end succeeds immediately; then the thread waits for a writer. Opening the writing
//! end fails as long as there is no reader (fifo(7)), so the thread retries it after pauses that grow to 20 ms. This
//! path is rare; io_uring can cancel its opens.

use super::request::Place;
use crate::sys::fifo::{Scratch, Seen, watch};
use crate::sys::{file, statx};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

const FIRST_PAUSE_MS: u16 = 1;
const LONGEST_PAUSE_MS: u16 = 20;

/// True if the path currently names a FIFO.
pub fn is_fifo(at: &Place, flags: libc::c_int) -> bool {
    let look = libc::O_PATH | flags & libc::O_NOFOLLOW;
    let looked = file::open_owned(at.dir_fd, &at.path, look, 0);
    looked.and_then(|fd| statx::asked(fd.as_raw_fd())).is_ok_and(|status| status.is_fifo())
}

/// Opens like open(2) with these flags. ECANCELED once `stop` is readable.
pub fn open_until(
    at: &Place,
    flags: libc::c_int,
    mode: libc::mode_t,
    stop: RawFd,
) -> io::Result<usize> {
    let mut pause_ms = FIRST_PAUSE_MS;
    let mut rest = |fd| {
        let seen = watch(fd, stop, pause_ms)?;
        pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
        match seen {
            Seen::Stop => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            seen => Ok(seen),
        }
    };
    let fd = loop {
        match file::open_owned(at.dir_fd, &at.path, flags | libc::O_NONBLOCK, mode) {
            // There is no reader yet.
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => _ = rest(None)?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(fd) => break fd,
        }
    };
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        let scratch = Scratch::new()?;
        while !scratch.has_writer(fd.as_raw_fd())? && rest(Some(fd.as_raw_fd()))? != Seen::Traffic {
        }
    }
    file::make_blocking(&fd, flags)?;
    Ok(usize::try_from(fd.into_raw_fd()).expect("descriptors are not negative"))
}
