//! Edge-triggered epoll with plain tokens. Does not depend on the kind of the descriptors.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(1024),
        })
    }

    /// Watches both directions; edge-triggered, so that one registration lasts for a connection's life.
    pub fn watch(&self, fd: impl AsFd, token: usize) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    /// Watches for input only, level-triggered: for servers.
    pub fn watch_input(&self, fd: impl AsFd, token: usize) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?)
    }

    /// Changes what a level-triggered registration waits for.
    pub fn rewatch(&self, fd: impl AsFd, token: usize, output: bool) -> io::Result<()> {
        let flags = if output { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token as u64), flags)?)
    }

    /// Waits at most `timeout` (None: for ever) and puts the tokens that are ready into `ready`.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<()> {
        let limit = timeout.map(|wait| rustix::event::Timespec {
            tv_sec: wait.as_secs().cast_signed(),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        self.events.clear();
        ready.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        ready.extend(self.events.iter().map(|event| event.data.u64() as usize));
        Ok(())
    }
}
