//! Wakes a sleeping loop from any thread through an eventfd, which is written only while the loop sleeps.
//!
//! A producer publishes its work and then calls `wake`. The loop calls `about_to_sleep`, checks for work once more, and
//! only then waits. Whichever of the two comes second always detects the first. While the loop is awake, a wake-up costs
//! the producer one load and no system call. `models/waker.rs` tries all orders.
//!
//! The eventfd is registered edge-triggered and not read: every write to it is one event, whatever the counter is.
//!
//! ```text
//! awake ⇄ asleep → signalled → awake
//!               ↖ it failed ↙
//! ```

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Bell, Mutex, MutexGuard, eventfd};
use std::io;
use std::os::fd::RawFd;
#[cfg(not(feature = "models"))]
use std::os::fd::{AsFd, AsRawFd};
use std::sync::PoisonError;

#[derive(Debug)]
pub struct Waker {
    /// Locked only to signal or close, so that a producer can never write to a number that `close` has
    /// released to the kernel (S4).
    fd: Mutex<Option<Bell>>,
    raw_fd: RawFd,
    /// The loop sets `ASLEEP` before it waits and `AWAKE` after it. A producer that finds it asleep changes it to
    /// `SIGNALLED` and writes. Only with the lock does a producer change it. Every change also reads, so that each thread
    /// has seen the changes before its own.
    state: AtomicU8,
}

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
/// A producer is writing. The others wait for the result, because they rely on it.
const SIGNALLED: u8 = 2;

impl Waker {
    pub fn new() -> io::Result<Self> {
        let fd = eventfd::create()?;
        let raw_fd = fd.as_raw_fd();
        Ok(Self { fd: Mutex::new(Some(fd)), raw_fd, state: AtomicU8::new(AWAKE) })
    }

    fn fd(&self) -> MutexGuard<'_, Option<Bell>> {
        // Nothing panics while the lock is held.
        self.fd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From any thread: makes the loop's current or next wait return.
    pub fn wake(&self) -> io::Result<()> {
        if self.state.load(Ordering::SeqCst) == AWAKE { Ok(()) } else { self.signal() }
    }

    fn signal(&self) -> io::Result<()> {
        let fd = self.fd();
        let Some(bell) = &*fd else { return Ok(()) };
        if !self.moves(ASLEEP, SIGNALLED) {
            return Ok(());
        }
        let done = match eventfd::signal(bell.as_fd()) {
            // The counter is full, which takes centuries: begin again.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                eventfd::drain(bell.as_fd()).and_then(|()| eventfd::signal(bell.as_fd()))
            }
            done => done,
        };
        // After an error the loop still sleeps: the next producer must try again. If the loop has gone on meanwhile,
        // the state is its own.
        self.moves(SIGNALLED, if done.is_ok() { AWAKE } else { ASLEEP });
        done
    }

    fn moves(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// From the loop's thread: producers signal from now on. Check for work after this, then wait.
    pub fn about_to_sleep(&self) {
        self.state.swap(ASLEEP, Ordering::SeqCst);
    }

    /// From the loop's thread: producers need not signal any more.
    pub fn awake(&self) {
        self.state.swap(AWAKE, Ordering::SeqCst);
    }

    /// From any thread: closes the descriptor. Later wake-ups do nothing.
    pub fn close(&self) {
        drop(self.fd().take());
    }

    /// What a poll does, and a signal that fails.
    #[cfg(feature = "models")]
    pub fn poll(&self) {
        // As in a poll, nobody is kept out meanwhile.
        let bell = self.fd().clone();
        if let Some(bell) = bell {
            bell.poll();
        }
    }

    #[cfg(feature = "models")]
    pub fn fail(&self, failures: u32) {
        if let Some(bell) = &*self.fd() {
            bell.fail(failures);
        }
    }

    /// The descriptor's number for the poller; stale after `close`.
    pub fn raw_fd(&self) -> RawFd {
        self.raw_fd
    }
}

#[cfg(all(test, not(feature = "models")))]
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
        let interest = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();
        crate::sys::epoll::add(poller.as_fd(), waker.raw_fd(), interest, 0)?;
        let mut events = Vec::with_capacity(4);
        let mut seen = 0;
        while seen < ROUNDS {
            waker.about_to_sleep();
            let now = work.load(Ordering::SeqCst);
            if now == seen {
                // A lost wake-up would time out here with no event.
                crate::sys::epoll::wait(poller.as_fd(), &mut events, Some(10_000_000_000))?;
                assert!(!events.is_empty(), "slept through a wake-up");
            }
            waker.awake();
            seen = work.load(Ordering::SeqCst);
        }
        producer.join().expect("the producer does not panic")
    }
}
