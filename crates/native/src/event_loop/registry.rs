//! Owners of descriptors: one source per descriptor number (S4).
//!
//! Others may join a source: while a closing transport still sends, asyncio allows a program to watch the descriptor
//! again, and several transports of pipes may have one number. They share one registration, whose interest is the union
//! of theirs.
//!
//! A source is kept alive by its registration only while it has an interest. A transport that waits for nothing is
//! known, but not kept: if the program drops it, it is collected and its peer sees the end, as in asyncio.

use super::core::{Flush, LoopCore, OnReady, Party, Ready, Run, Source};
use super::source::Holder;
use crate::errors;
use crate::ffi::Object;
use oneloop_engine::{Interest, Token};
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use pyo3::{PyTypeCheck, intern};
use std::io;
use std::os::fd::RawFd;

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
        let owner = Party::new(object, on_ready, interest);
        let old = self.sources.with(py, |sources| {
            if sources.len() <= index {
                sources.resize_with(index + 1, || None);
            }
            sources[index].replace(Source { token, owner, guests: Vec::new() })
        });
        // The previous owner's descriptor was closed elsewhere; its token is stale by now.
        drop(old);
        Ok(token)
    }

    /// Joins the source of a descriptor with an owner, and returns the owner's token. `None` if there is no owner.
    fn join(
        &self,
        object: &Bound<'_, PyAny>,
        fd: RawFd,
        interest: Interest,
        on_ready: OnReady,
    ) -> io::Result<Option<Token>> {
        let py = object.py();
        let guest = Party::new(object.clone().unbind(), on_ready, interest);
        let joined = self.sources.with(py, |sources| {
            let source = sources.get_mut(usize::try_from(fd).ok()?)?.as_mut()?;
            source.guests.push(guest);
            Some((source.token, source.interest()))
        });
        let Some((token, interest)) = joined else { return Ok(None) };
        // Always calls the kernel, because the number may belong to another file by now.
        let shared = self.with_poller(py, |poller| poller.reaffirm(token, interest))?;
        if shared.is_err() {
            drop(self.take_party(py, token, |party| party.is(object)));
        }
        shared.map(|()| Some(token))
    }

    /// Joins the source of a descriptor, or registers it if its file is gone or it has no owner.
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

    /// True if a transport has the number.
    pub fn is_transports(&self, py: Python<'_>, fd: RawFd) -> bool {
        let is_one = |party: &Bound<'_, PyAny>| party.hasattr(intern!(py, "is_closing"));
        self.parties_of(py, fd).iter().any(|party| is_one(party).unwrap_or(false))
    }

    /// Changes the interest of `object`. With `reaffirm` the kernel is called even if nothing has changed; ENOENT
    /// means that the registered file is gone.
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

    /// Keeps `object` alive from now on, or only knows it.
    pub fn keep(&self, object: &Bound<'_, PyAny>, token: Token, is_kept: bool) {
        let py = object.py();
        let is_known = |party: &Party| matches!(party.holder, Holder::Known { .. });
        let was_kept = self.sources.with(py, |sources| {
            source_at(sources, token).and_then(|s| s.party(object)).map(|party| !is_known(party))
        });
        if was_kept.is_none_or(|was_kept| was_kept == is_kept) {
            return;
        }
        let holder = if is_kept {
            Holder::Kept(object.clone().unbind())
        } else {
            // Without memory for a weak reference it stays as it is.
            let Ok(reference) = PyWeakrefReference::new(object) else { return };
            Holder::Known { reference: reference.unbind(), address: object.as_ptr().addr() }
        };
        let old = self.sources.with(py, |sources| {
            let party = source_at(sources, token)?.party(object)?;
            Some(std::mem::replace(&mut party.holder, holder))
        });
        drop(old);
    }

    /// Ends the registration of an object that is being freed; never fails. `is_open`: its descriptor is still open.
    pub fn forget_freed(&self, py: Python<'_>, token: Token, is_open: bool) {
        self.leave(py, token, is_open, |party| party.is_freed(py));
    }

    /// Ends the registration of `object` while its descriptor is still open; never fails (S9). The object is removed
    /// even after an error from the kernel. A later event finds no source and ends the registration then.
    pub fn deregister(&self, object: &Bound<'_, PyAny>, token: Token) {
        self.leave(object.py(), token, true, |party| party.is(object));
    }

    /// Ends a registration whose descriptor was closed elsewhere; never fails.
    pub fn vacate(&self, object: &Bound<'_, PyAny>, token: Token) {
        self.leave(object.py(), token, false, |party| party.is(object));
    }

    fn leave(
        &self,
        py: Python<'_>,
        token: Token,
        is_open: bool,
        is_leaving: impl Fn(&Party) -> bool,
    ) {
        let (left, rest) = self.take_party(py, token, is_leaving);
        drop(left);
        let ended = self.with_poller(py, |poller| match rest {
            Some(interest) if is_open => poller.modify(token, interest),
            None if is_open => poller.deregister(token),
            Some(_) => Ok(()),
            None => {
                let _was_live = poller.vacate(token);
                Ok(())
            }
        });
        // A closed loop has no registrations left.
        if let Err(e) = ignore_gone(ended.unwrap_or(Ok(()))) {
            errors::os_error("epoll_ctl", &e).write_unraisable(py, None);
        }
    }

    /// The owner of a descriptor number, if it has one.
    pub fn source_of<'py>(&self, py: Python<'py>, fd: RawFd) -> Option<(Bound<'py, PyAny>, Token)> {
        let index = usize::try_from(fd).ok()?;
        self.sources.with(py, |sources| {
            let source = sources.get(index)?.as_ref()?;
            Some((source.owner.object(py)?, source.token))
        })
    }

    /// The object that has a descriptor number, or will have it when it begins.
    pub fn holder_of<'py>(&self, py: Python<'py>, fd: RawFd) -> Option<Bound<'py, PyAny>> {
        let unbegun = self.unbegun.with(py, |unbegun| Some(unbegun.get(&fd)?.bind(py).clone()));
        unbegun.or_else(|| self.source_of(py, fd).map(|(owner, _)| owner))
    }

    /// A transport was made, and begins in the next tick: until then no other may be made of its descriptor.
    pub fn add_unbegun(&self, py: Python<'_>, fd: RawFd, transport: Object) {
        let old = self.unbegun.with(py, |unbegun| unbegun.insert(fd, transport));
        drop(old);
    }

    /// `fd`: `None` if its descriptor was closed meanwhile.
    pub fn remove_unbegun(&self, fd: Option<RawFd>, transport: &Bound<'_, PyAny>) {
        let py = transport.py();
        let old: Vec<Object> = self.unbegun.with(py, |unbegun| {
            let is_its = |other: &Object| other.bind(py).is(transport);
            match fd {
                Some(fd) if unbegun.get(&fd).is_some_and(is_its) => {
                    unbegun.remove(&fd).into_iter().collect()
                }
                Some(_) => Vec::new(),
                None => unbegun.extract_if(|_, other| is_its(other)).map(|(_, old)| old).collect(),
            }
        });
        drop(old);
    }

    /// The first of those who receive a descriptor number's readiness that is of a class.
    pub fn party_of<'py, T: PyTypeCheck>(
        &self,
        py: Python<'py>,
        fd: RawFd,
    ) -> Option<Bound<'py, T>> {
        let index = usize::try_from(fd).ok()?;
        self.sources.with(py, |sources| {
            let source = sources.get(index)?.as_ref()?;
            let parties = std::iter::once(&source.owner).chain(&source.guests);
            parties.filter_map(|party| party.object(py)).find_map(|it| it.cast_into().ok())
        })
    }

    /// Everyone who receives a descriptor number's readiness.
    fn parties_of<'py>(&self, py: Python<'py>, fd: RawFd) -> Vec<Bound<'py, PyAny>> {
        let found = usize::try_from(fd).ok().and_then(|index| {
            self.sources.with(py, |sources| {
                let source = sources.get(index)?.as_ref()?;
                let parties = std::iter::once(&source.owner).chain(&source.guests);
                Some(parties.filter_map(|party| party.object(py)).collect())
            })
        });
        found.unwrap_or_default()
    }

    /// Removes a party from its source. Returns it and the interest of those that stay, if there are any: also if it is
    /// none of them.
    fn take_party(
        &self,
        py: Python<'_>,
        token: Token,
        is_leaving: impl Fn(&Party) -> bool,
    ) -> (Option<Party>, Option<Interest>) {
        self.sources.with(py, |sources| {
            let Some(source) = source_at(sources, token) else { return (None, None) };
            let left = if !is_leaving(&source.owner) {
                let index = source.guests.iter().position(&is_leaving);
                index.map(|index| source.guests.remove(index))
            } else if source.guests.is_empty() {
                let taken = sources[token.fd().cast_unsigned() as usize].take();
                return (taken.map(|source| source.owner), None);
            } else {
                let next = source.guests.remove(0);
                Some(std::mem::replace(&mut source.owner, next))
            };
            (left, Some(source.interest()))
        })
    }

    /// Requests a call of `flush(object)` at the end of this callback.
    pub fn flush_after_callback(&self, py: Python<'_>, object: Object, flush: Flush) {
        self.gathered.with(py, |list| list.push_back((object, flush)));
    }

    /// Requests a call of `flush(object)` at the end of this tick. From any thread.
    pub fn flush_later(&self, py: Python<'_>, object: Object, flush: Flush) {
        self.dirty.with(py, |dirty| dirty.push_back((object, flush)));
        self.wake_or_report(py);
    }

    /// Appends a native completion to the ready queue. From any thread; never fails (S9). A closed loop drops the
    /// object, because it runs nothing any more.
    pub fn run_soon(&self, py: Python<'_>, object: Py<PyAny>, run: Run) {
        if self.is_closed_now() {
            return;
        }
        self.push(py, Ready::Native(object, run));
    }

    /// Like `run_soon`, for a turn of a green thread: others may switch directly to it.
    pub fn run_green_soon(&self, py: Python<'_>, object: Py<PyAny>, run: Run) {
        if self.is_closed_now() {
            return;
        }
        self.push(py, Ready::Green(object, run));
    }

    fn push(&self, py: Python<'_>, ready: Ready) {
        self.ready.with(py, |queue| queue.push_back(ready));
        self.wake_or_report(py);
    }

    fn wake_or_report(&self, py: Python<'_>) {
        if let Err(error) = self.wake() {
            error.write_unraisable(py, None);
        }
    }

    /// Takes the next entry of this tick out of the queue if it is a green thread's turn and `suits` accepts it.
    /// `suits` must not run Python code.
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
            Some(Ready::Green(object, _)) if suits(object.bind(py)) => ready.pop_front(),
            _ => None,
        });
        let Some(Ready::Green(object, _)) = next else { return None };
        self.turns.set(py, turns - 1);
        Some(object)
    }
}

fn source_at(sources: &mut [Option<Source>], token: Token) -> Option<&mut Source> {
    let source = sources.get_mut(token.fd().cast_unsigned() as usize)?.as_mut()?;
    (source.token == token).then_some(source)
}

/// True if the kernel has ended a registration because its file was closed. EPERM: the number now belongs to a
/// regular file.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EBADF | libc::EPERM))
}

/// Treats a registration that is already gone as ended.
pub fn ignore_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if is_gone(&e) { Ok(()) } else { Err(e) })
}
