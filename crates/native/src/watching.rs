//! `SnapshotSocket`: a Unix socket through which other processes can watch this one, for `oneloop top`.
//!
//! A thread waits for connections. It has no Python thread state while it waits, so it does not change what the loops
//! do: without other Python threads they keep the GIL during short polls, and a hub still detects that no thread can
//! wake it. For each connection the thread takes the GIL and calls a Python function, even while a loop runs a long
//! callback.
//!
//! The thread is stopped before a fork and before the interpreter is finalized (`stop`, called by
//! `oneloop.stats_socket`), so it never runs during either of them (S6, S7). This file does not use loops.

use crate::errors;
use crate::ffi::thread_state;
use oneloop_engine::sys::thread;
use oneloop_engine::{End, Interest, Poller};
use pyo3::prelude::*;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// The pause before the next attempt if the process has no file descriptor left.
const REST: Duration = Duration::from_millis(50);

struct Shared {
    listener: UnixListener,
    /// Called with the descriptor of each connection. The function must close it.
    answer: Py<PyAny>,
}

impl Shared {
    fn serve(&self, end: &End) -> io::Result<()> {
        let mut poller = Poller::new()?;
        poller.register(self.listener.as_raw_fd(), Interest::READ)?;
        poller.register(end.raw_fd(), Interest::READ)?;
        loop {
            match poller.wait(None) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => while poller.next_event().is_some() {},
            }
            if end.is_wanted() {
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
        let attached = thread_state::attached(|py| {
            let answer = self.answer.bind(py);
            if let Err(error) = answer.call1((connection.into_raw_fd(),)) {
                error.write_unraisable(py, Some(answer));
            }
        });
        // Without memory, or if the interpreter is being finalized, the closure was dropped, and with it the connection,
        // which is thereby closed.
        let _gone = attached.is_err();
    }
}

/// Whether `accept` failed only because the client has already closed the connection, or because there was none.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Listens at a path and calls a function for each connection.
#[pyclass(frozen, module = "oneloop._native")]
pub struct SnapshotSocket {
    shared: Arc<Shared>,
    thread: Mutex<Option<Running>>,
}

type Running = (JoinHandle<()>, Arc<End>);

impl SnapshotSocket {
    fn thread(&self) -> MutexGuard<'_, Option<Running>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the thread to end and returns it. None if no thread runs, or if it cannot be woken: it then ends after
    /// the next connection, and nobody waits for that.
    fn end_thread(&self) -> Option<JoinHandle<()>> {
        let (thread, end) = self.thread().take()?;
        end.ask().is_ok().then_some(thread)
    }
}

#[pymethods]
impl SnapshotSocket {
    #[new]
    fn new(path: PathBuf, answer: Py<PyAny>) -> PyResult<Self> {
        let make = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = make().map_err(|e| errors::os_error("bind", &e))?;
        let shared = Shared { listener, answer };
        Ok(Self { shared: Arc::new(shared), thread: Mutex::new(None) })
    }

    /// Starts the thread unless it is running. Raises OSError if the thread cannot be created.
    fn start(&self) -> PyResult<()> {
        let mut running = self.thread();
        if running.is_none() {
            let end = Arc::new(End::new().map_err(|e| errors::os_error("eventfd", &e))?);
            let (shared, ended) = (Arc::clone(&self.shared), Arc::clone(&end));
            let made = thread::spawn_without_signals("oneloop-stats", move || {
                // If polling fails, connections are no longer answered, but the program continues.
                let _failed = shared.serve(&ended);
            });
            *running = Some((made.map_err(|e| errors::os_error("thread", &e))?, end));
        }
        Ok(())
    }

    /// Ends the thread and waits for it. The socket stays open; connections wait in its backlog.
    fn stop(&self, py: Python<'_>) {
        if let Some(thread) = self.end_thread() {
            let ended = py.detach(|| thread.join());
            let _panicked = ended.is_err();
        }
    }
}

impl Drop for SnapshotSocket {
    fn drop(&mut self) {
        // Do not wait for the thread: it may be waiting for the GIL, which this thread may hold.
        let _thread = self.end_thread();
    }
}
