//! Operations that wait for a later tick: how they are queued, and the callback that does them.

use super::Files;
use super::deferred::Work;
use super::operations::Strategy;
use super::pending::Conversion;
use crate::event_loop::LoopCore;
use crate::ffi::bytes::BytesRoom;
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::files::{Request, Transfer};
use pyo3::intern;
use pyo3::prelude::*;
use std::os::fd::RawFd;

impl Files {
    /// Appends work to the queue. Returns the future of its result.
    pub(super) fn defer<'py>(slf: &Bound<'py, Self>, work: Work) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let future = this.make_future(py)?;
        if let Work::Read { fd, .. } = work {
            this.descriptors.with(py, |descriptors| descriptors.begin(fd));
        }
        let entry = (future.clone().unbind(), work);
        let is_scheduled = this.deferred.with(py, |deferred| {
            deferred.queue.push_back(entry);
            std::mem::replace(&mut deferred.is_scheduled, true)
        });
        if !is_scheduled {
            this.owner.get().run_soon(py, slf.clone().into_any().unbind(), run);
        }
        Ok(future)
    }

    fn do_deferred(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>, work: Work) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let is_done = future.call_method0(intern!(py, "done"))?.is_truthy()?;
        let outcome = match work {
            Work::Tick => Ok(Some(py.None().into_bound(py))),
            Work::Whole(_) if is_done => return Ok(()),
            Work::Whole(path) => this.read_cached(py, &path).map(|content| {
                Some(content.map_or_else(|| py.None().into_bound(py), Bound::into_any))
            }),
            Work::Read { fd, .. } if is_done => return Self::has_ended(slf, fd),
            Work::Read { fd, size, offset } => {
                let read = Self::read_deferred(slf, future, fd, size, offset);
                let ended = Self::has_ended(slf, fd);
                read.and_then(|read| ended.map(|()| read))
            }
        };
        if is_done {
            return Ok(());
        }
        match outcome {
            Ok(Some(value)) => future.call_method1(intern!(py, "set_result"), (value,)),
            // An engine will resolve the future.
            Ok(None) => return Ok(()),
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,)),
        }
        .map(drop)
    }

    fn read_deferred<'py>(
        slf: &Bound<'py, Self>,
        future: &Bound<'py, PyAny>,
        fd: RawFd,
        size: usize,
        offset: i64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let mut room = BytesRoom::new(py, size)?;
        match cached::read(fd, room.as_mut_slice(py), offset) {
            Ok(AtOnce::Done(n)) => return Ok(Some(room.completed(py, n)?.into_any())),
            Ok(_) => {}
            Err(e) => return Err(crate::errors::file_error(&e)),
        }
        let segment = room.segment(py);
        let request = Request::Read(Transfer::new(fd, offset, false, &[segment]));
        Self::submit(slf, Strategy::Engine(request), Conversion::Bytes(room, 0), future)?;
        Ok(None)
    }
}

fn run(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let slf = object.cast::<Files>()?;
    let this = slf.get();
    let mut result = Ok(());
    // Only what is queued now: work added meanwhile waits for the next tick.
    let waiting = this.deferred.with(py, |deferred| deferred.queue.len());
    for turn in 0..waiting {
        // At least one, because other operations might use up every tick's time.
        if turn > 0 && !this.may_work(py) {
            break;
        }
        let next = this.deferred.with(py, |deferred| deferred.queue.pop_front());
        let Some((future, work)) = next else { break };
        result = result.and(Files::do_deferred(slf, future.bind(py), work));
    }
    let is_more = this.deferred.with(py, |deferred| {
        deferred.is_scheduled = !deferred.queue.is_empty();
        deferred.is_scheduled
    });
    if is_more {
        owner.get().run_soon(py, object.clone().unbind(), run);
    }
    result
}
