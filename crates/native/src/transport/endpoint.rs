//! The data behind `get_extra_info`: the socket, the names of both ends, and entries added by the code that made the
//! transport.

use super::descriptor::Descriptor;
use crate::address;
use crate::ffi::LoopCell;
use crate::ffi::fallible;
use crate::imports;
use oneloop_engine::sys::{address::Address, socket};
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::os::fd::RawFd;
use std::sync::Arc;

#[derive(Default)]
struct Names {
    /// In the kernel's format, with only the used bytes. Converted to a Python address on request.
    peer: Option<Box<[u8]>>,
    local: Option<Arc<[u8]>>,
    /// The socket as a program sees it. Kept outside the dictionary, because many programs request nothing else.
    socket: Option<Py<PyAny>>,
    /// Names that were requested, and entries added by the code that made the transport.
    extra: Option<Py<PyDict>>,
}

pub struct Endpoint(LoopCell<Names>);

impl Endpoint {
    /// `local`: the listener's own name, if all its connections have the same.
    pub fn accepted(peer: &Address, local: Option<Arc<[u8]>>) -> Self {
        let peer = Some(peer.as_bytes().into());
        Self(LoopCell::new(Names { peer, local, ..Names::default() }))
    }

    /// Reads both names from the socket immediately, like CPython's transports.
    pub fn of_socket(sock: &Bound<'_, PyAny>, extra: Option<Py<PyDict>>) -> PyResult<Self> {
        let py = sock.py();
        let known = fallible::dict(py)?;
        if let Some(extra) = extra {
            known.update(extra.bind(py).as_mapping())?;
        }
        known.set_item(intern!(py, "socket"), imports::transport_socket(py)?.call1((sock,))?)?;
        let local = name_or_none(sock.call_method0(intern!(py, "getsockname")))?;
        known.set_item(intern!(py, "sockname"), local)?;
        if !known.contains(intern!(py, "peername"))? {
            let peer = name_or_none(sock.call_method0(intern!(py, "getpeername")))?;
            known.set_item(intern!(py, "peername"), peer)?;
        }
        let extra = Some(known.unbind());
        Ok(Self(LoopCell::new(Names { extra, ..Names::default() })))
    }

    /// Keeps the local name for requests after the close.
    pub fn remember_local(&self, py: Python<'_>, fd: RawFd) {
        self.0.with(py, |names| {
            // A transport made from a socket object has already read it.
            if names.peer.is_some() && names.local.is_none() {
                // If it is unknown, `get_extra_info` returns its default.
                names.local = socket::local_address(fd).ok().map(|local| local.as_bytes().into());
            }
        });
    }

    pub fn info<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        descriptor: &Descriptor,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        match self.extra(py) {
            Some(extra) => {
                if let Some(value) = extra.get_item(name)? {
                    return Ok(Some(value));
                }
            }
            // TypeError for an unhashable name, as from a dictionary.
            None => _ = name.hash()?,
        }
        let value = if name.eq(intern!(py, "socket"))? {
            self.socket(py, descriptor)?
        } else if name.eq(intern!(py, "peername"))? {
            self.keep(name, self.peer(py))?
        } else if name.eq(intern!(py, "sockname"))? {
            self.keep(name, self.local(py, descriptor))?
        } else {
            None
        };
        Ok(value.or(default))
    }

    fn peer(&self, py: Python<'_>) -> Option<Address> {
        self.0.with(py, |names| names.peer.as_deref().map(Address::from_bytes))
    }

    fn local(&self, py: Python<'_>, descriptor: &Descriptor) -> Option<Address> {
        let known = self.0.with(py, |names| names.local.as_deref().map(Address::from_bytes));
        // Read it from the socket while it is open: behind a transparent proxy its name is not the listener's.
        descriptor.fd(py).and_then(socket::local_address).ok().or(known)
    }

    /// `peername` and `sockname` of an accepted connection, for a caller that keeps them itself; `None` if they are
    /// kept here.
    pub fn names<'py>(
        &self,
        py: Python<'py>,
        descriptor: &Descriptor,
    ) -> PyResult<Option<[Option<Bound<'py, PyAny>>; 2]>> {
        if self.0.with(py, |names| names.extra.is_some()) {
            return Ok(None);
        }
        let python =
            |name: Option<Address>| name.map(|name| address::to_python(py, &name)).transpose();
        Ok(Some([python(self.peer(py))?, python(self.local(py, descriptor))?]))
    }

    fn extra<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDict>> {
        self.0.with(py, |names| names.extra.as_ref().map(|extra| extra.bind(py).clone()))
    }

    /// The wrapped socket object, always the same one.
    fn socket<'py>(
        &self,
        py: Python<'py>,
        descriptor: &Descriptor,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(wrapped) = self.0.with(py, |n| n.socket.as_ref().map(|s| s.bind(py).clone())) {
            return Ok(Some(wrapped));
        }
        let socket = match descriptor.socket(py)? {
            Some(socket) => socket,
            None => match descriptor.closed_socket(py)? {
                Some(socket) => socket,
                None => return Ok(None),
            },
        };
        let wrapped = imports::transport_socket(py)?.call1((socket,))?;
        let kept = wrapped.clone().unbind();
        self.0.with(py, |names| names.socket = Some(kept));
        Ok(Some(wrapped))
    }

    /// A name as a Python address, always the same object.
    fn keep<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        address: Option<Address>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        let Some(address) = address else { return Ok(None) };
        let value = address::to_python(py, &address)?;
        let extra = if let Some(extra) = self.extra(py) {
            extra
        } else {
            let extra = fallible::dict(py)?;
            let kept = extra.clone().unbind();
            self.0.with(py, |names| names.extra = Some(kept));
            extra
        };
        extra.set_item(name, &value)?;
        Ok(Some(value))
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .peek(|names| {
                visit.call(&names.socket)?;
                visit.call(&names.extra)
            })
            .unwrap_or(Ok(()))
    }
}

fn name_or_none(name: PyResult<Bound<'_, PyAny>>) -> PyResult<Option<Bound<'_, PyAny>>> {
    match name {
        Ok(name) => Ok(Some(name)),
        Err(e) if Python::attach(|py| e.is_instance_of::<PyOSError>(py)) => Ok(None),
        Err(e) => Err(e),
    }
}
