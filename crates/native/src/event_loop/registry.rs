//! Who owns which descriptor: one source per descriptor number (S4).
//!
//! A second party may join a source for the time in which a closing transport still sends: asyncio lets a program watch
//! the descriptor again by then. Both share one registration, whose interest is what either wants.

use super::LoopCore;
use crate::errors;
use crate::ffi::Object;
use oneloop_engine::{Interest, Readiness, Token};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::os::fd::RawFd;

/// Serves the readiness of one source. Runs on the loop's thread with no borrow held (S2);
/// returns only KeyboardInterrupt and SystemExit (S7).
pub type OnReady =
    for<'py> fn(&Bound<'py, LoopCore>, &Bound<'py, PyAny>, Readiness) -> PyResult<()>;

/// Who is told of a descriptor's readiness.
pub struct Party {
    pub object: Py<PyAny>,
    pub on_ready: OnReady,
    interest: Interest,
}

impl Party {
    fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        self.object.is(object)
    }
}

pub struct Source {
    pub token: Token,
    pub owner: Party,
    /// Watches the descriptor of a transport that is closing.
    pub guest: Option<Box<Party>>,
}

impl Source {
    /// What the kernel is asked for. A side that anybody wants level-triggered is level-triggered for both.
    fn interest(&self) -> Interest {
        let Some(guest) = &self.guest else { return self.owner.interest };
        let both = self.owner.interest | guest.interest;
        let all_edge =
            self.owner.interest.contains(Interest::EDGE) && guest.interest.contains(Interest::EDGE);
        if all_edge { both } else { both.without(Interest::EDGE) }
    }

    fn party(&mut self, object: &Bound<'_, PyAny>) -> Option<&mut Party> {
        if self.owner.is(object) {
            return Some(&mut self.owner);
        }
        self.guest.as_deref_mut().filter(|guest| guest.is(object))
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner.object)?;
        self.guest.as_ref().map_or(Ok(()), |guest| visit.call(&guest.object))
    }
}

/// Writes out what an object has queued during the tick.
pub type Flush = super::ready::Run;

impl LoopCore {
    /// Registers `object` as the owner of `fd`.
    pub fn register(
        &self,
        py: Python<'_>,
        fd: RawFd,
        interest: Interest,
        object: Py<PyAny>,
        on_ready: OnReady,
    ) -> io::Result<Token> {
        let token = self.with_poller(py, |poller| poller.register(fd, interest))??;
        let index = token.fd().cast_unsigned() as usize;
        let owner = Party { object, on_ready, interest };
        let old = self.sources.with(py, |sources| {
            if sources.len() <= index {
                sources.resize_with(index + 1, || None);
            }
            sources[index].replace(Source { token, owner, guest: None })
        });
        // An owner whose descriptor was closed behind its back; its token is stale by now.
        drop(old);
        Ok(token)
    }

    /// Joins the source of a descriptor that somebody else owns; the token is the owner's. `None` if it has none.
    fn join(
        &self,
        object: &Bound<'_, PyAny>,
        fd: RawFd,
        interest: Interest,
        on_ready: OnReady,
    ) -> io::Result<Option<Token>> {
        let py = object.py();
        let guest = Box::new(Party { object: object.clone().unbind(), on_ready, interest });
        let joined = self.sources.with(py, |sources| {
            let source = sources.get_mut(usize::try_from(fd).ok()?)?.as_mut()?;
            let old = source.guest.replace(guest);
            Some((source.token, source.interest(), old))
        });
        let Some((token, interest, old)) = joined else { return Ok(None) };
        drop(old);
        // The kernel is asked in any case: the number may be another file's by now.
        let shared = self.with_poller(py, |poller| poller.reaffirm(token, interest))?;
        if shared.is_err() {
            drop(self.take_party(object, token));
        }
        shared.map(|()| Some(token))
    }

    /// Joins the source of a descriptor; registers anew if its file has gone, or nobody is there.
    pub fn join_or_register(
        &self,
        object: &Bound<'_, PyAny>,
        fd: RawFd,
        interest: Interest,
        on_ready: OnReady,
    ) -> io::Result<Token> {
        match self.join(object, fd, interest, on_ready) {
            Ok(Some(token)) => Ok(token),
            Err(e) if !is_gone(&e) => Err(e),
            _ => self.register(object.py(), fd, interest, object.clone().unbind(), on_ready),
        }
    }

    /// True if a transport owns the number.
    pub fn is_transports(&self, py: Python<'_>, fd: RawFd) -> bool {
        self.source_of(py, fd)
            .is_some_and(|(other, _)| other.hasattr(intern!(py, "is_closing")).unwrap_or(false))
    }

    /// What `object` wants to hear of from now on. With `reaffirm` the kernel is asked even if nothing has changed:
    /// ENOENT tells that the registered file is gone.
    pub fn change_interest(
        &self,
        object: &Bound<'_, PyAny>,
        token: Token,
        interest: Interest,
        reaffirm: bool,
    ) -> io::Result<()> {
        let py = object.py();
        let wanted = self.sources.with(py, |sources| {
            let source = source_at(sources, token)?;
            source.party(object)?.interest = interest;
            Some(source.interest())
        });
        let Some(wanted) = wanted else { return Err(io::Error::from_raw_os_error(libc::ENOENT)) };
        self.with_poller(py, |poller| {
            if reaffirm { poller.reaffirm(token, wanted) } else { poller.modify(token, wanted) }
        })?
    }

    /// Ends what `object` has registered while its descriptor is still open; never fails (S9). Whatever the kernel
    /// says, the object is forgotten, and an event that should still come finds nobody and is ended then.
    pub fn deregister(&self, object: &Bound<'_, PyAny>, token: Token) {
        let py = object.py();
        let (left, rest) = self.take_party(object, token);
        drop(left);
        // A closed loop has no registrations left.
        let result = self
            .with_poller(py, |poller| match rest {
                Some(interest) => poller.modify(token, interest),
                None => poller.deregister(token),
            })
            .unwrap_or(Ok(()));
        if let Err(e) = ignore_gone(result) {
            errors::os_error("epoll_ctl", &e).write_unraisable(py, None);
        }
    }

    /// Ends a registration whose descriptor somebody else has closed; never fails.
    pub fn vacate(&self, object: &Bound<'_, PyAny>, token: Token) {
        let py = object.py();
        let (left, rest) = self.take_party(object, token);
        drop(left);
        if rest.is_none() {
            // A closed loop has no registrations left.
            let _was_live = self.with_poller(py, |poller| poller.vacate(token)).unwrap_or(false);
        }
    }

    /// The owner of a descriptor number, if it has one.
    pub fn source_of<'py>(&self, py: Python<'py>, fd: RawFd) -> Option<(Bound<'py, PyAny>, Token)> {
        let index = usize::try_from(fd).ok()?;
        self.sources.with(py, |sources| {
            let source = sources.get(index)?.as_ref()?;
            Some((source.owner.object.bind(py).clone(), source.token))
        })
    }

    /// Everybody who is told of a descriptor number's readiness.
    pub fn parties_of<'py>(&self, py: Python<'py>, fd: RawFd) -> [Option<Bound<'py, PyAny>>; 2] {
        let found = usize::try_from(fd).ok().and_then(|index| {
            self.sources.with(py, |sources| {
                let source = sources.get(index)?.as_ref()?;
                let guest = source.guest.as_ref().map(|guest| guest.object.bind(py).clone());
                Some([Some(source.owner.object.bind(py).clone()), guest])
            })
        });
        found.unwrap_or_default()
    }

    /// Takes `object` out of its source; what the other party wants, if there is one, stays.
    fn take_party(
        &self,
        object: &Bound<'_, PyAny>,
        token: Token,
    ) -> (Option<Party>, Option<Interest>) {
        self.sources.with(object.py(), |sources| {
            let Some(source) = source_at(sources, token) else { return (None, None) };
            let is_owner = source.owner.is(object);
            let left = match source.guest.take() {
                Some(guest) if is_owner => std::mem::replace(&mut source.owner, *guest),
                Some(guest) if guest.is(object) => *guest,
                other => {
                    source.guest = other;
                    let taken =
                        is_owner.then(|| sources[token.fd().cast_unsigned() as usize].take());
                    return (taken.flatten().map(|source| source.owner), None);
                }
            };
            (Some(left), Some(source.interest()))
        })
    }

    /// Asks for `flush(object)` at the end of this callback.
    pub fn flush_after_callback(&self, py: Python<'_>, object: Object, flush: Flush) {
        self.gathered.with(py, |list| list.push_back((object, flush)));
    }

    /// Asks for `flush(object)` at the end of this tick.
    pub fn flush_later(&self, py: Python<'_>, object: Object, flush: Flush) {
        self.dirty.with(py, |dirty| dirty.push_back((object, flush)));
    }

    /// Puts a native completion at the end of the ready queue. Any thread; never fails (S9). A closed loop runs nothing
    /// any more, and keeps nothing alive.
    pub fn run_soon(&self, py: Python<'_>, object: Py<PyAny>, run: super::Run) {
        if self.is_closed_now() {
            return;
        }
        self.push(py, super::Ready::Native(object, run));
    }

    /// The same for a green thread's turn: others may switch straight to it.
    pub fn run_green_soon(&self, py: Python<'_>, object: Py<PyAny>, run: super::Run) {
        if self.is_closed_now() {
            return;
        }
        self.push(py, super::Ready::Green(object, run));
    }

    fn push(&self, py: Python<'_>, ready: super::Ready) {
        self.ready.with(py, |queue| queue.push_back(ready));
        if let Err(error) = self.wake() {
            error.write_unraisable(py, None);
        }
    }

    /// The next turn of this tick, taken out of the queue, if it is a green thread's that `suits`, which may not run Python
    /// code.
    pub fn next_green(
        &self,
        py: Python<'_>,
        suits: fn(&Bound<'_, PyAny>) -> bool,
    ) -> Option<Py<PyAny>> {
        let turns = self.turns.get(py);
        if turns == 0 {
            return None;
        }
        let next = self.ready.with(py, |ready| match ready.front() {
            Some(super::Ready::Green(object, _)) if suits(object.bind(py)) => ready.pop_front(),
            _ => None,
        });
        let Some(super::Ready::Green(object, _)) = next else { return None };
        self.turns.set(py, turns - 1);
        Some(object)
    }
}

fn source_at(sources: &mut [Option<Source>], token: Token) -> Option<&mut Source> {
    let source = sources.get_mut(token.fd().cast_unsigned() as usize)?.as_mut()?;
    (source.token == token).then_some(source)
}

/// True if the kernel has ended a registration by itself, because its file was closed. EPERM: the number is a regular
/// file's by now.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EBADF | libc::EPERM))
}

/// A registration that is gone needs no ending.
pub fn ignore_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if is_gone(&e) { Ok(()) } else { Err(e) })
}
