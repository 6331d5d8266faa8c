//! Wakes a sleeping loop from any thread: an eventfd, written only while the loop sleeps.
//!
//! The protocol, with both flags sequentially consistent so that neither side can miss the other:
//! a producer publishes its work, then calls `wake`; the loop calls `about_to_sleep`, looks for
//! work once more, and only then waits. Whichever comes second sees the first. A loop that is
//! awake costs a producer one load and no system call.

use crate::sys::eventfd;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
    /// Set by the loop before it waits, cleared by the first producer or by the loop.
    asleep: AtomicBool,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd::create()?, asleep: AtomicBool::new(false) })
    }

    /// Any thread: make the loop's current or next wait return.
    pub fn wake(&self) -> io::Result<()> {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            match eventfd::signal(self.fd.as_fd()) {
                // The counter is full: the loop has more than one wake-up waiting already.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
                other => other,
            }
        } else {
            Ok(())
        }
    }

    /// Loop's thread: from here on a producer signals. Look for work after this, then wait.
    pub fn about_to_sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Loop's thread: producers need not signal any more.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Loop's thread, when the poller reports the descriptor readable.
    pub fn drain(&self) -> io::Result<()> {
        eventfd::drain(self.fd.as_fd())
    }

    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn awake_loop_is_not_signalled() -> io::Result<()> {
        let waker = Waker::new()?;
        waker.wake()?;
        waker.about_to_sleep();
        waker.wake()?;
        waker.wake()?;
        waker.drain()?;
        waker.awake();
        Ok(())
    }

    #[test]
    fn no_wake_up_is_missed() -> io::Result<()> {
        const ROUNDS: usize = 2_000;
        let waker = Arc::new(Waker::new()?);
        let work = Arc::new(AtomicUsize::new(0));
        let (theirs, done) = (Arc::clone(&waker), Arc::clone(&work));
        let producer = std::thread::spawn(move || -> io::Result<()> {
            for _ in 0..ROUNDS {
                done.fetch_add(1, Ordering::SeqCst);
                theirs.wake()?;
            }
            Ok(())
        });
        let poller = crate::sys::epoll::create()?;
        crate::sys::epoll::add(poller.as_fd(), waker.raw_fd(), libc::EPOLLIN.cast_unsigned(), 0)?;
        let mut events = Vec::with_capacity(4);
        let mut seen = 0;
        while seen < ROUNDS {
            waker.about_to_sleep();
            let now = work.load(Ordering::SeqCst);
            if now == seen {
                // A lost wake-up would time out here with no event.
                crate::sys::epoll::wait(poller.as_fd(), &mut events, Some(10_000_000_000))?;
                assert!(!events.is_empty(), "slept through a wake-up");
                waker.drain()?;
            }
            waker.awake();
            seen = work.load(Ordering::SeqCst);
        }
        producer.join().expect("the producer does not panic")
    }
}
