//! `OpenSsl`: a session on CPython's own `_ssl` objects, made by the program's `ssl.SSLContext`.
//!
//! `SSLContext.wrap_bio` makes the connection between two `MemoryBIO`s. Its C methods are called directly, without
//! the Python methods of `ssl.SSLObject`, unless a subclass overrides them. Memory is passed through a `Window`.

use super::records::Records;
use super::session::{Plain, Session, Step};
use crate::ffi::fallible;
use crate::ffi::{LoopCell, buffer, bytes, window};
use crate::imports;
use oneloop_engine::sys::socket::Room;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

pub struct OpenSsl {
    incoming: Py<PyAny>,
    outgoing: Py<PyAny>,
    /// The `ssl.SSLObject` that the program sees.
    object: Py<PyAny>,
    /// Its C object; `None` if the class overrides methods.
    native: Option<Py<PyAny>>,
    is_server: bool,
    state: LoopCell<State>,
}

#[derive(Default)]
struct State {
    records: Records,
    /// The library may have produced output by itself: an alert, a ticket, a key update.
    may_have_output: bool,
}

impl OpenSsl {
    /// Calls `context.wrap_bio()` with two new BIOs, and returns its exceptions.
    pub fn new(
        context: &Bound<'_, PyAny>,
        is_server: bool,
        server_hostname: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = context.py();
        let bio = imports::memory_bio(py)?;
        let (incoming, outgoing) = (bio.call0()?, bio.call0()?);
        let keywords = fallible::dict(py)?;
        keywords.set_item(intern!(py, "server_side"), is_server)?;
        keywords.set_item(intern!(py, "server_hostname"), server_hostname)?;
        let object = context.call_method(
            intern!(py, "wrap_bio"),
            (&incoming, &outgoing),
            Some(&keywords),
        )?;
        let native = if is_stock(&object)? {
            Some(object.getattr(intern!(py, "_sslobj"))?.unbind())
        } else {
            None
        };
        Ok(Self {
            incoming: incoming.unbind(),
            outgoing: outgoing.unbind(),
            object: object.unbind(),
            native,
            is_server,
            state: LoopCell::new(State { may_have_output: true, ..State::default() }),
        })
    }

    pub fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.object.bind(py).clone()
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.incoming)?;
        visit.call(&self.outgoing)?;
        visit.call(&self.object)?;
        visit.call(&self.native)
    }

    /// Converts the result of a library call: the step is done, or needs more data from the peer.
    fn step(&self, py: Python<'_>, outcome: PyResult<Bound<'_, PyAny>>) -> PyResult<Step> {
        // There may be an alert, also after a failure.
        self.state.with(py, |s| s.may_have_output = true);
        let step = match outcome {
            Ok(_) => Step::Done,
            Err(error) if wants_more(py, &error)? => Step::Wanting,
            Err(error) => return Err(error),
        };
        let unread = self.pending(py)?;
        self.state.with(py, |s| {
            if unread <= s.records.started() {
                s.records.read_all();
            }
        });
        Ok(step)
    }

    fn pending(&self, py: Python<'_>) -> PyResult<usize> {
        self.incoming.bind(py).getattr(intern!(py, "pending"))?.extract()
    }

    /// Bytes that were decrypted but did not fit into the last read.
    fn decrypted(&self, py: Python<'_>) -> PyResult<usize> {
        let object = self.native.as_ref().unwrap_or(&self.object).bind(py);
        object.call_method0(intern!(py, "pending"))?.extract()
    }

    fn read_native(&self, native: &Bound<'_, PyAny>, room: &mut Room) -> PyResult<usize> {
        let py = native.py();
        let len = room.len().min(i32::MAX as usize);
        window::show_room(py, room, |window| {
            native.call_method1(intern!(py, "read"), (len, window))?.extract()
        })
    }

    /// Reads with the methods of a class that overrides them.
    fn read_own(&self, py: Python<'_>, room: &mut Room) -> PyResult<usize> {
        let read = self.object.bind(py).call_method1(intern!(py, "read"), (room.len(),))?;
        let read = buffer::to_bytes(&read)?;
        let read = read.as_bytes();
        if read.len() > room.len() {
            let text = "SSLObject.read() returned more bytes than requested";
            return Err(PyValueError::new_err(text));
        }
        room[..read.len()].copy_from_slice(bytes::as_uninit(read));
        Ok(read.len())
    }
}

impl Session for OpenSsl {
    fn feed(&self, py: Python<'_>, ciphertext: &[u8]) -> PyResult<()> {
        window::show_bytes(py, ciphertext, |window| {
            self.incoming.bind(py).call_method1(intern!(py, "write"), (window,))
        })?;
        self.state.with(py, |s| s.records.add(ciphertext));
        Ok(())
    }

    fn unread(&self, py: Python<'_>) -> PyResult<usize> {
        match self.state.with(py, |s| (!s.records.may_read()).then(|| s.records.started())) {
            Some(started) => Ok(started),
            None => self.pending(py),
        }
    }

    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        match self.state.with(py, |s| s.records.may_read().then(|| s.records.started())) {
            Some(started) => Ok(self.pending(py)?.saturating_sub(started)),
            None => Ok(0),
        }
    }

    fn shake_hands(&self, py: Python<'_>) -> PyResult<Step> {
        // A server has nothing to send before the client's first message.
        if self.is_server && self.native.is_some() && self.unread(py)? == 0 {
            return Ok(Step::Wanting);
        }
        let object = self.native.as_ref().unwrap_or(&self.object).bind(py);
        self.step(py, object.call_method0(intern!(py, "do_handshake")))
    }

    fn may_read(&self, py: Python<'_>) -> PyResult<bool> {
        // A class of the program may hold bytes that are not counted here.
        Ok(self.native.is_none() || self.state.with(py, |s| s.records.may_read()))
    }

    fn read(&self, py: Python<'_>, room: &mut Room) -> PyResult<Plain> {
        if !self.may_read(py)? {
            return Ok(Plain::Nothing);
        }
        let read = match &self.native {
            Some(native) => self.read_native(native.bind(py), room),
            None => self.read_own(py, room),
        };
        let len = match read {
            Ok(len) => len,
            Err(error) => {
                let wants_more = wants_more(py, &error)?;
                self.state.with(py, |s| {
                    s.may_have_output = true;
                    s.records.read_all();
                });
                return if wants_more { Ok(Plain::Nothing) } else { Err(error) };
            }
        };
        if len == 0 {
            self.state.with(py, |s| s.may_have_output = true);
            return Ok(Plain::Ended);
        }
        if len < room.len() || self.decrypted(py)? == 0 {
            self.state.with(py, |s| s.records.read_one());
        }
        Ok(Plain::Data(len))
    }

    fn write(&self, py: Python<'_>, plaintext: &[u8]) -> PyResult<usize> {
        let name = intern!(py, "write");
        let written = if let Some(native) = &self.native {
            window::show_bytes(py, plaintext, |window| {
                native.bind(py).call_method1(name, (window,))
            })
        } else {
            self.object.bind(py).call_method1(name, (fallible::bytes(py, plaintext)?,))
        };
        self.state.with(py, |s| s.may_have_output = true);
        match written {
            Ok(written) => written.extract(),
            Err(error) if wants_more(py, &error)? => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if !self.state.with(py, |s| std::mem::take(&mut s.may_have_output)) {
            return Ok(None);
        }
        let taken = self.outgoing.bind(py).call_method0(intern!(py, "read"))?;
        let taken = taken.cast_into::<PyBytes>()?;
        Ok(Some(taken).filter(|taken| !taken.as_bytes().is_empty()))
    }

    fn shut_down(&self, py: Python<'_>) -> PyResult<Step> {
        match &self.native {
            Some(native) => self.step(py, native.bind(py).call_method0(intern!(py, "shutdown"))),
            None => self.step(py, self.object.bind(py).call_method0(intern!(py, "unwrap"))),
        }
    }
}

/// Whether the class's methods do the same as the C methods.
fn is_stock(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let stock = imports::ssl_object(py)?;
    let class = object.get_type();
    if !class.is(&stock) {
        for name in ["read", "write", "do_handshake", "unwrap", "pending"] {
            // A class without these methods fails at its first use, as in asyncio.
            if !class.getattr(name).is_ok_and(|own| stock.getattr(name).is_ok_and(|s| s.is(&own))) {
                return Ok(false);
            }
        }
    }
    let native = object.getattr(intern!(py, "_sslobj"))?;
    Ok(native.get_type().is(imports::native_ssl_socket(py)?))
}

/// asyncio's `SSLAgainErrors`.
fn wants_more(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    Ok(error.matches(py, imports::ssl_want_read_error(py)?)?
        || error.matches(py, imports::ssl_syscall_error(py)?)?)
}
