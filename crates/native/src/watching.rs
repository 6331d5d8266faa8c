//! `SnapshotSocket`: a Unix socket through which other processes look at this one, for `oneloop top`.
//!
//! A thread waits for connections. It has no thread state of the interpreter while it waits, so that nothing changes for
//! the loops: they hold the GIL during short polls, and a hub that nobody can wake knows it. The thread takes the GIL for
//! each connection and calls a Python function, which answers also while a loop is in a long callback.
//!
//! The thread ends before a fork and before the interpreter goes down (`stop`, called by `oneloop.stats_socket`), so that
//! neither finds it at work (S6, S7). It knows no loop.

use crate::errors;
use oneloop_engine::sys::{eventfd, thread};
use oneloop_engine::{Interest, Poller};
use pyo3::prelude::*;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Where no descriptor is left, the next attempt comes after this.
const REST: Duration = Duration::from_millis(50);

/// Ends one thread. Each has its own: while one thread of the program waits for the end of ours before it forks, another
/// may fork too, and start the next.
struct End {
    bell: OwnedFd,
    is_wanted: AtomicBool,
}

struct Shared {
    listener: UnixListener,
    /// Called with the descriptor of each connection, which it closes.
    answer: Py<PyAny>,
}

impl Shared {
    fn serve(&self, end: &End) -> io::Result<()> {
        let mut poller = Poller::new()?;
        poller.register(self.listener.as_raw_fd(), Interest::READ)?;
        poller.register(end.bell.as_raw_fd(), Interest::READ)?;
        loop {
            match poller.wait(None) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => while poller.next_event().is_some() {},
            }
            if end.is_wanted.load(Ordering::SeqCst) {
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
        // The interpreter is going down; the connection was closed with the closure that owned it.
        let _gone = attached.is_none();
    }
}

/// The connection is gone again, or was never there.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Listens at a path, and calls a function for each connection.
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

    /// The thread, which has been told to end.
    fn end_thread(&self) -> Option<JoinHandle<()>> {
        let (thread, end) = self.thread().take()?;
        end.is_wanted.store(true, Ordering::SeqCst);
        // A counter that is full rings as well.
        let _rung = eventfd::signal(end.bell.as_fd());
        Some(thread)
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

    /// Starts the thread, unless it runs. OSError if there can be no further thread.
    fn start(&self) -> PyResult<()> {
        let mut running = self.thread();
        if running.is_none() {
            let bell = eventfd::create().map_err(|e| errors::os_error("eventfd", &e))?;
            let end = Arc::new(End { bell, is_wanted: AtomicBool::new(false) });
            let (shared, told) = (Arc::clone(&self.shared), Arc::clone(&end));
            let made = thread::spawn_without_signals("oneloop-stats", move || {
                // Without its poller nobody is answered; the program goes on.
                let _failed = shared.serve(&told);
            });
            *running = Some((made.map_err(|e| errors::os_error("thread", &e))?, end));
        }
        Ok(())
    }

    /// Ends the thread, and waits for it. The socket stays; connections wait in it.
    fn stop(&self, py: Python<'_>) {
        if let Some(thread) = self.end_thread() {
            let ended = py.detach(|| thread.join());
            let _panicked = ended.is_err();
        }
    }
}

impl Drop for SnapshotSocket {
    fn drop(&mut self) {
        // It is not waited for: that might need the GIL, which may be held here.
        let _thread = self.end_thread();
    }
}
