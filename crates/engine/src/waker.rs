//! Wakes a sleeping loop from any thread through an eventfd, which is written only while the loop sleeps.
//!
//! Both flags are sequentially consistent, so that neither side can miss the other. A producer publishes its work and
//! then calls `wake`. The loop calls `about_to_sleep`, checks for work once more, and only then waits. Whichever of the
//! two comes second always detects the first. While the loop is awake, a wake-up costs the producer one load and no
//! system call.

use crate::sys::eventfd;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct Waker {
    /// Locked only to signal, drain or close, so that a producer can never write to a number that `close` has
    /// released to the kernel (S4).
    fd: Mutex<Option<OwnedFd>>,
    raw_fd: RawFd,
    /// Set by the loop before it waits, cleared by the first producer or by the loop.
    asleep: AtomicBool,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let fd = eventfd::create()?;
        let raw_fd = fd.as_raw_fd();
        Ok(Self { fd: Mutex::new(Some(fd)), raw_fd, asleep: AtomicBool::new(false) })
    }

    fn fd(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        // Nothing panics while the lock is held.
        self.fd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From any thread: makes the loop's current or next wait return.
    pub fn wake(&self) -> io::Result<()> {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            if let Some(fd) = &*self.fd() {
                return match eventfd::signal(fd.as_fd()) {
                    // The counter is full: a wake-up is already pending.
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    other => other,
                };
            }
        }
        Ok(())
    }

    /// From the loop's thread: producers signal from now on. Check for work after this, then wait.
    pub fn about_to_sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// From the loop's thread: producers need not signal any more.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// From the loop's thread, when the poller reports the descriptor readable.
    pub fn drain(&self) -> io::Result<()> {
        self.fd().as_ref().map_or(Ok(()), |fd| eventfd::drain(fd.as_fd()))
    }

    /// From any thread: closes the descriptor. Later wake-ups do nothing.
    pub fn close(&self) {
        drop(self.fd().take());
    }

    /// The descriptor's number for the poller; stale after `close`.
    pub fn raw_fd(&self) -> RawFd {
        self.raw_fd
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
