//! Selects a context's engine, with advice if there is none.

use crate::errors;
use oneloop_engine::files::polled::Polled;
use oneloop_engine::files::polled_ring;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// A ring has already worked in this process.
static RING_WORKS: AtomicBool = AtomicBool::new(false);

/// The capacity of a context.
#[derive(Clone, Copy)]
pub enum Room {
    /// This many concurrent operations.
    Exact(u32),
    /// As with io_setup(2) for the first number; up to the second number of operations are accepted. Buffered files
    /// are read and written in order, as with io_submit(2).
    Kernel(u32, u32),
}

/// Opens the named engine, or the best that works. OSError: the kernel or its sandbox refuses it.
pub fn open<T>(room: Room, name: Option<&str>) -> PyResult<(Polled<T>, &'static str)> {
    match name {
        Some("ring") => ring(room).map_err(|e| refusal("io_uring", &e, RING_ADVICE)),
        Some("aio") => aio(room).map_err(|e| refusal("kernel AIO", &e, AIO_ADVICE)),
        None => match ring(room) {
            Err(e) if is_missing(&e) => {
                aio(room).map_err(|e| refusal("kernel AIO", &e, AIO_ADVICE))
            }
            opened => opened.map_err(|e| refusal("io_uring", &e, RING_ADVICE)),
        },
        Some(other) => {
            Err(PyValueError::new_err(format!("unknown engine {other:?}: use \"ring\" or \"aio\"")))
        }
    }
}

fn ring<T>(room: Room) -> io::Result<(Polled<T>, &'static str)> {
    if !RING_WORKS.load(Ordering::Relaxed) {
        polled_ring::trial()?;
        RING_WORKS.store(true, Ordering::Relaxed);
    }
    let ring = match room {
        Room::Exact(capacity) => Polled::ring(capacity),
        Room::Kernel(capacity, room) => Polled::ring_in_order(capacity, room),
    };
    Ok((ring?, "ring"))
}

fn aio<T>(room: Room) -> io::Result<(Polled<T>, &'static str)> {
    let context = match room {
        Room::Exact(capacity) => Polled::aio(capacity),
        Room::Kernel(capacity, room) => Polled::aio_with_room(capacity, room),
    };
    Ok((context?, "aio"))
}

/// Whether the error means that io_uring is not available, and not that a resource has run out.
fn is_missing(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

type Advice = &'static [(i32, &'static str)];

const RING_ADVICE: Advice = &[
    (
        libc::EPERM,
        "a seccomp filter (the default of Docker, Podman and containerd) or the sysctl \
         kernel.io_uring_disabled forbids it; allow io_uring_setup, io_uring_enter and \
         io_uring_register there, or omit engine= to use an engine that works",
    ),
    (
        libc::ENOSYS,
        "the kernel or a sandbox does not provide io_uring; omit engine= to use an engine that works",
    ),
    (libc::EOPNOTSUPP, "Linux 5.11 or later is required; omit engine= to use an engine that works"),
    (libc::ENOMEM, "raise the limit of locked memory (ulimit -l), or use a smaller max_jobs"),
];

const AIO_ADVICE: Advice = &[
    (
        libc::EPERM,
        "a seccomp filter forbids it; allow io_setup, io_submit, io_getevents, io_cancel and \
         io_destroy there",
    ),
    (libc::ENOSYS, "the kernel was built without it (CONFIG_AIO), or a sandbox forbids it"),
    (
        libc::EAGAIN,
        "all contexts of the machine together may have fs.aio-max-nr operations: raise that \
         sysctl, or use a smaller max_jobs",
    ),
];

fn refusal(what: &str, error: &io::Error, advice: Advice) -> PyErr {
    let found = advice.iter().find(|(errno, _)| error.raw_os_error() == Some(*errno));
    errors::os_error_advised(what, error, found.map(|(_, text)| *text))
}
