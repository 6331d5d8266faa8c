//! `SnapshotSocket`: a Unix socket through which other processes can watch this one, for `oneloop top`.
//!
//! A thread waits for connections. While it waits it has no thread state of the interpreter, so the loops behave as
//! without it: they hold the GIL during short polls, and a hub still detects that no thread can wake it. For each
//! connection the thread takes the GIL and calls a Python function, also while a loop runs a long callback.
//!
//! The thread is stopped before a fork and before the interpreter is finalized (`stop`, called by
//! `oneloop.stats_socket`), so it never runs during either of them (S6, S7). This file does not use loops.

use crate::errors;
use oneloop_engine::sys::eventfd;
use oneloop_engine::{Interest, Poller};
use pyo3::prelude::*;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

/// The pause before the next attempt if the process has no file descriptor left.
const REST: Duration = Duration::from_millis(50);

struct Shared {
    listener: UnixListener,
    /// An eventfd that wakes the thread.
    bell: OwnedFd,
    is_ending: AtomicBool,
    /// Called with the descriptor of each connection. The function must close it.
    answer: Py<PyAny>,
}

impl Shared {
    fn serve(&self) -> io::Result<()> {
        let mut poller = Poller::new()?;
        poller.register(self.listener.as_raw_fd(), Interest::READ)?;
        poller.register(self.bell.as_raw_fd(), Interest::READ)?;
        loop {
            match poller.wait(None) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => while poller.next_event().is_some() {},
            }
            if self.is_ending.load(Ordering::SeqCst) {
                return Ok(());
            }
            match self.listener.accept() {
                Ok((connection, _)) => self.hand_over(connection.into()),
                Err(e) if is_passing(&e) => {}
                Err(_no_descriptor) => sleep(REST),
            }
        }
    }

    fn hand_over(&self, connection: OwnedFd) {
        let attached = Python::try_attach(|py| {
            let answer = self.answer.bind(py);
            if let Err(error) = answer.call1((connection.into_raw_fd(),)) {
                error.write_unraisable(py, Some(answer));
            }
        });
        // None if the interpreter is being finalized. Then the closure was dropped, which closed the connection.
        let _gone = attached.is_none();
    }
}

/// Whether `accept` failed only because the connection was closed again, or because there was none.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Listens at a path and calls a function for each connection.
#[pyclass(frozen, module = "oneloop._native")]
pub struct SnapshotSocket {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SnapshotSocket {
    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the thread to end and returns it. None if no thread runs.
    fn end_thread(&self) -> Option<JoinHandle<()>> {
        let thread = self.thread().take()?;
        self.shared.is_ending.store(true, Ordering::SeqCst);
        // An error means that the counter is full, which wakes the thread as well.
        let _rung = eventfd::signal(self.shared.bell.as_fd());
        Some(thread)
    }
}

#[pymethods]
impl SnapshotSocket {
    #[new]
    fn new(path: PathBuf, answer: Py<PyAny>) -> PyResult<Self> {
        let make = || -> io::Result<(UnixListener, OwnedFd)> {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok((listener, eventfd::create()?))
        };
        let (listener, bell) = make().map_err(|e| errors::os_error("bind", &e))?;
        let shared = Shared { listener, bell, is_ending: AtomicBool::new(false), answer };
        Ok(Self { shared: Arc::new(shared), thread: Mutex::new(None) })
    }

    /// Starts the thread unless it is running. Raises OSError if the thread cannot be created.
    fn start(&self) -> PyResult<()> {
        let mut thread = self.thread();
        if thread.is_none() {
            self.shared.is_ending.store(false, Ordering::SeqCst);
            let shared = Arc::clone(&self.shared);
            let made = Builder::new().name("oneloop-stats".into()).spawn(move || {
                // If polling fails, connections are no longer answered, but the program continues.
                let _failed = shared.serve();
            });
            *thread = Some(made.map_err(|e| errors::os_error("thread", &e))?);
        }
        Ok(())
    }

    /// Ends the thread and waits for it. The socket stays open; connections wait in its backlog.
    fn stop(&self, py: Python<'_>) {
        if let Some(thread) = self.end_thread() {
            let ended = py.detach(|| thread.join());
            let _panicked = ended.is_err();
            let _drained = eventfd::drain(self.shared.bell.as_fd());
        }
    }
}

impl Drop for SnapshotSocket {
    fn drop(&mut self) {
        // Do not wait for the thread: it may be waiting for the GIL, which this thread may hold.
        let _thread = self.end_thread();
    }
}
