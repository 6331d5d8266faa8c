//! An eventfd without a kernel, polled edge-triggered: a wait for the writes since the last one.

use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::io;
use std::os::fd::RawFd;
use std::sync::PoisonError;

#[derive(Clone, Debug)]
pub struct Bell(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Writes that no poll has reported.
    count: u64,
    /// So many signals fail from now on.
    failures: u32,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands for `AsFd`, so that the engine's code is the same.
    pub fn as_fd(&self) -> &Self {
        self
    }

    /// There is none.
    pub fn as_raw_fd(&self) -> RawFd {
        -1
    }

    /// The next signals fail.
    pub fn fail(&self, failures: u32) {
        self.lock().failures = failures;
    }

    /// A poll without a time limit. Without a signal it never returns, which loom reports as a deadlock.
    pub fn poll(&self) {
        let mut state = self.lock();
        while state.count == 0 {
            state = self.0.rung.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.count = 0;
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the real one may fail")]
pub fn create() -> io::Result<Bell> {
    Ok(Bell(Arc::new(Inner { state: Mutex::new(State::default()), rung: Condvar::new() })))
}

pub fn signal(bell: &Bell) -> io::Result<()> {
    let mut state = bell.lock();
    if state.failures > 0 {
        state.failures -= 1;
        return Err(io::Error::from_raw_os_error(libc::EIO));
    }
    state.count += 1;
    drop(state);
    bell.0.rung.notify_all();
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "the real one may fail")]
pub fn drain(bell: &Bell) -> io::Result<()> {
    bell.lock().count = 0;
    Ok(())
}
