//! What `get_extra_info` knows: socket, names of both ends, and what the maker added.

use super::descriptor::Descriptor;
use crate::address;
use crate::ffi::LoopCell;
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
    /// As the kernel gave it, in as many bytes as it has; becomes a Python address when somebody
    /// asks.
    peer: Option<Box<[u8]>>,
    local: Option<Arc<[u8]>>,
    /// What has been asked for, and what the maker of the transport added.
    extra: Option<Py<PyDict>>,
}

pub struct Endpoint(LoopCell<Names>);

impl Endpoint {
    /// `local`: the listener's own name, where every connection has it.
    pub fn accepted(peer: &Address, local: Option<Arc<[u8]>>) -> Self {
        Self(LoopCell::new(Names { peer: Some(peer.as_bytes().into()), local, extra: None }))
    }

    /// Asks the socket for its names at once, as CPython's transports do.
    pub fn of_socket(sock: &Bound<'_, PyAny>, extra: Option<Py<PyDict>>) -> PyResult<Self> {
        let py = sock.py();
        let known = PyDict::new(py);
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

    /// Keeps the local name for questions after the close.
    pub fn remember_local(&self, py: Python<'_>, fd: RawFd) {
        self.0.with(py, |names| {
            if names.extra.is_none() && names.local.is_none() {
                // Unknown stays unknown: `get_extra_info` then gives its default.
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
        let extra = match self.0.with(py, |n| n.extra.as_ref().map(|e| e.bind(py).clone())) {
            Some(extra) => extra,
            None => self.fill(py, descriptor)?,
        };
        if let Some(value) = extra.get_item(name)? {
            return Ok(Some(value));
        }
        if name.eq(intern!(py, "socket"))?
            && let Some(socket) = descriptor.socket(py)?
        {
            let wrapped = imports::transport_socket(py)?.call1((socket,))?;
            extra.set_item(name, &wrapped)?;
            return Ok(Some(wrapped));
        }
        Ok(default)
    }

    fn fill<'py>(&self, py: Python<'py>, descriptor: &Descriptor) -> PyResult<Bound<'py, PyDict>> {
        let extra = PyDict::new(py);
        let (peer, known) = self.0.with(py, |names| {
            let address = |bytes: Option<&[u8]>| bytes.map(Address::from_bytes);
            (address(names.peer.as_deref()), address(names.local.as_deref()))
        });
        // An open socket knows best: behind a transparent proxy its name is not the listener's.
        let local = descriptor.fd(py).and_then(socket::local_address).ok().or(known);
        if let Some(peer) = peer {
            extra.set_item(intern!(py, "peername"), address::to_python(py, &peer)?)?;
        }
        if let Some(local) = local {
            extra.set_item(intern!(py, "sockname"), address::to_python(py, &local)?)?;
        }
        let kept = extra.clone().unbind();
        let old = self.0.with(py, |names| names.extra.replace(kept));
        drop(old);
        Ok(extra)
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.peek(|names| visit.call(&names.extra)).unwrap_or(Ok(()))
    }
}

fn name_or_none(name: PyResult<Bound<'_, PyAny>>) -> PyResult<Option<Bound<'_, PyAny>>> {
    match name {
        Ok(name) => Ok(Some(name)),
        Err(e) if Python::attach(|py| e.is_instance_of::<PyOSError>(py)) => Ok(None),
        Err(e) => Err(e),
    }
}
