//! `Feeding`: does what asyncio's `StreamReaderProtocol` and `StreamReader` do with received bytes, without calling
//! them.
//!
//! `python/oneloop/stock_streams.py` checks that the standard library still has the functions that this code
//! replaces. Before every receive `Feeding::find` checks everything a program may have changed since: a method of the
//! class, another kind of waiter, debug mode; and once, before the first receive, whether the reader has its own
//! methods. If any of these checks fails, the transport calls `data_received()` as for any protocol. That is the plain
//! path, and the tests compare both. docs/design/0009 has the numbers.

use super::receive::{self, READ_MAX};
use crate::event_loop::LoopCore;
use crate::ffi::{Object, bytearray, class};
use crate::imports;
use oneloop_engine::sys::socket;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyInt, PyString, PyType, PyWeakrefMethods, PyWeakrefReference,
};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// asyncio's classes, if they are the ones this code was written for.
#[derive(FromPyObject)]
struct Known {
    protocol: Py<PyType>,
    reader: Py<PyType>,
}

/// The versions of both classes that were last checked and found equal.
static EQUAL: AtomicU64 = AtomicU64::new(0);
/// The versions that were last checked and found different.
static DIFFERENT: AtomicU64 = AtomicU64::new(0);

impl Known {
    /// `None` if the standard library's functions were different at the first check.
    fn get(py: Python<'_>) -> PyResult<Option<&'static Self>> {
        static CELL: PyOnceLock<Option<Known>> = PyOnceLock::new();
        CELL.get_or_try_init(py, || known_streams(py)?.extract()).map(Option::as_ref)
    }

    /// True if the classes still have those functions.
    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        let versions =
            class::version(self.protocol.bind(py)).zip(class::version(self.reader.bind(py)));
        // A class that was just modified has no version until its next attribute lookup.
        let Some((protocol, reader)) = versions else { return Ok(false) };
        let both = u64::from(protocol) << 32 | u64::from(reader);
        if EQUAL.load(Ordering::Relaxed) == both {
            return Ok(true);
        }
        if DIFFERENT.load(Ordering::Relaxed) == both {
            return Ok(false);
        }
        let equal = !known_streams(py)?.is_none();
        if equal { &EQUAL } else { &DIFFERENT }.store(both, Ordering::Relaxed);
        Ok(equal)
    }
}

fn known_streams(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("oneloop.stock_streams")?.call_method0(intern!(py, "known"))
}

/// True for a protocol whose `data_received` can be replaced by `Feeding`.
pub fn is_stock_protocol(protocol: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = protocol.py();
    let class = protocol.get_type();
    // Most programs never have such a protocol, and skip the check.
    if !class.is(imports::stream_reader_protocol(py)?) {
        return Ok(false);
    }
    let is_known = Known::get(py)?.is_some_and(|known| class.is(&known.protocol));
    let name = intern!(py, "data_received");
    Ok(is_known && is_of_class(&protocol.getattr(name)?, &class, name)?)
}

/// True if a bound method is the class's, not an attribute of the object.
fn is_of_class(
    method: &Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
    name: &Bound<'_, PyString>,
) -> PyResult<bool> {
    let Ok(function) = method.getattr(intern!(name.py(), "__func__")) else { return Ok(false) };
    Ok(function.is(class.getattr(name)?))
}

/// A reader that is fed.
pub struct Feeding<'py> {
    reader: Bound<'py, PyAny>,
    pub buffer: Bound<'py, PyByteArray>,
    /// None, or a future.
    waiter: Bound<'py, PyAny>,
    limit: usize,
}

impl<'py> Feeding<'py> {
    /// The reader of a stock protocol, if feeding it has the same effect as the stock code now. `vetted` is the weak
    /// reference to a reader that was found to have no methods on the object.
    fn find(
        owner: &LoopCore,
        protocol: &Bound<'py, PyAny>,
        vetted: &mut Option<Object>,
    ) -> PyResult<Option<Self>> {
        let py = protocol.py();
        let Some(known) = Known::get(py)? else { return Ok(None) };
        if owner.is_debug() || !known.holds(py)? {
            return Ok(None);
        }
        let reference = protocol.getattr(intern!(py, "_stream_reader_wr"))?;
        let Some(reader) =
            reference.cast_exact::<PyWeakrefReference>().ok().and_then(PyWeakrefMethods::upgrade)
        else {
            return Ok(None);
        };
        let class = reader.get_type();
        if !class.is(&known.reader) {
            return Ok(None);
        }
        if !vetted.as_ref().is_some_and(|vetted| vetted.bind(py).is(&reference)) {
            for name in [intern!(py, "feed_data"), intern!(py, "_wakeup_waiter")] {
                if !is_of_class(&reader.getattr(name)?, &class, name)? {
                    return Ok(None);
                }
            }
            *vetted = Some(Object::new(reference));
        }
        Self::of(reader)
    }

    /// Calls `find`, passes a newly checked reader to `keep`, and drops what that returns.
    pub fn find_vetted(
        owner: &LoopCore,
        protocol: &Bound<'py, PyAny>,
        mut vetted: Option<Object>,
        keep: impl FnOnce(Object) -> Option<Object>,
    ) -> PyResult<Option<Self>> {
        let is_new = vetted.is_none();
        let found = Self::find(owner, protocol, &mut vetted)?;
        if is_new && let Some(vetted) = vetted {
            drop(keep(vetted));
        }
        Ok(found)
    }

    fn of(reader: Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = reader.py();
        if !reader.getattr(intern!(py, "_eof"))?.is(PyBool::new(py, false)) {
            return Ok(None);
        }
        let waiter = reader.getattr(intern!(py, "_waiter"))?;
        if !waiter.is_none() && !waiter.get_type().is(imports::future(py)?) {
            return Ok(None);
        }
        let buffer = reader.getattr(intern!(py, "_buffer"))?.cast_into_exact();
        let limit = reader.getattr(intern!(py, "_limit"))?;
        let limit = limit.cast_exact::<PyInt>().ok().and_then(|limit| limit.extract().ok());
        let (Ok(buffer), Some(limit)) = (buffer, limit) else { return Ok(None) };
        Ok(Some(Self { reader, buffer, waiter, limit }))
    }

    /// One receive into the reader's buffer; `last` is the length of the previous one.
    pub fn receive(
        &self,
        owner: &Bound<'_, LoopCore>,
        fd: RawFd,
        last: usize,
    ) -> PyResult<io::Result<usize>> {
        receive::with_lent(owner, |shared| {
            if let Some(room) = receive::room_after(last) {
                let rest = &mut shared[..READ_MAX - room];
                let receive = |room: &mut _, rest: &mut _| socket::recv_both(fd, room, rest);
                if let Some(received) = bytearray::receive_at_end(&self.buffer, room, rest, receive)
                {
                    return received;
                }
                // The program holds a view of the buffer. As in asyncio, the data is received and lost.
            }
            match socket::recv(fd, shared) {
                Ok(0) => Ok(Ok(0)),
                Ok(len) => bytearray::append_received(&self.buffer, shared, len).map(|()| Ok(len)),
                Err(e) => Ok(Err(e)),
            }
        })
    }

    /// Does what `feed_data` does when the buffer has grown.
    pub fn finish(self) -> PyResult<()> {
        let py = self.reader.py();
        if !self.waiter.is_none() {
            self.reader.setattr(intern!(py, "_waiter"), py.None())?;
            if !self.waiter.call_method0(intern!(py, "cancelled"))?.is_truthy()? {
                self.waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
        }
        if self.buffer.len() <= self.limit.saturating_mul(2) {
            return Ok(());
        }
        let transport = self.reader.getattr(intern!(py, "_transport"))?;
        if transport.is_none() || self.reader.getattr(intern!(py, "_paused"))?.is_truthy()? {
            return Ok(());
        }
        match transport.call_method0(intern!(py, "pause_reading")) {
            Ok(_) => self.reader.setattr(intern!(py, "_paused"), true),
            Err(e) if e.is_instance_of::<PyNotImplementedError>(py) => {
                self.reader.setattr(intern!(py, "_transport"), py.None())
            }
            Err(e) => Err(e),
        }
    }
}
