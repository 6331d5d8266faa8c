//! A scripted selector for tests: it reports what the test told it to report, in that order.

use crate::poller::{Interest, Selector};
use crate::sys::epoll::RawEvent;
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    registered: HashMap<RawFd, u64>,
    reports: Vec<(u64, u32)>,
}

/// Cheap to clone. All clones share one script, so that the test keeps one and the poller the other.
#[derive(Clone, Debug, Default)]
pub struct Script(Arc<Mutex<State>>);

impl Script {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next wait report `fd` as ready, with its current user data.
    pub fn will_report(&self, fd: RawFd, interest: Interest) {
        let mut state = self.state();
        if let Some(&data) = state.registered.get(&fd) {
            let mask = [(Interest::READ, libc::EPOLLIN), (Interest::WRITE, libc::EPOLLOUT)]
                .iter()
                .filter(|(wanted, _)| interest.contains(*wanted))
                .fold(0, |mask, (_, bit)| mask | bit.cast_unsigned());
            state.reports.push((data, mask));
        }
    }
}

impl Selector for Script {
    fn add(&self, fd: RawFd, _mask: u32, data: u64) -> io::Result<()> {
        if self.state().registered.insert(fd, data).is_some() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        Ok(())
    }
    fn modify(&self, fd: RawFd, _mask: u32, data: u64) -> io::Result<()> {
        match self.state().registered.get_mut(&fd) {
            Some(slot) => {
                *slot = data;
                Ok(())
            }
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }
    fn delete(&self, fd: RawFd) -> io::Result<()> {
        match self.state().registered.remove(&fd) {
            Some(_) => Ok(()),
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }
    fn wait(&self, events: &mut Vec<RawEvent>, _timeout_ns: Option<u64>) -> io::Result<()> {
        events.clear();
        events.extend(
            self.state().reports.drain(..).map(|(data, mask)| RawEvent { events: mask, u64: data }),
        );
        Ok(())
    }
    fn renewed(&self) -> io::Result<Arc<dyn Selector>> {
        self.state().registered.clear();
        Ok(Arc::new(self.clone()))
    }
    fn raw_fd(&self) -> RawFd {
        -1
    }
}
