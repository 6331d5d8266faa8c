//! A protocol with the methods that run per message, bound once.

use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// How a stream protocol takes data.
pub enum Receiver {
    /// `Protocol.data_received(bytes)`
    Data(Py<PyAny>),
    /// `BufferedProtocol.get_buffer(sizehint)` and `.buffer_updated(nbytes)`
    Buffer { get_buffer: Py<PyAny>, buffer_updated: Py<PyAny> },
}

pub struct StreamProtocol {
    pub object: Py<PyAny>,
    pub receiver: Receiver,
}

impl StreamProtocol {
    /// Binds the methods. A difference from asyncio, which looks them up at each call: one that is
    /// replaced on the protocol object later is not noticed.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let receiver = if object.is_instance(&imports::buffered_protocol(py)?)? {
            Receiver::Buffer {
                get_buffer: object.getattr(intern!(py, "get_buffer"))?.unbind(),
                buffer_updated: object.getattr(intern!(py, "buffer_updated"))?.unbind(),
            }
        } else {
            Receiver::Data(object.getattr(intern!(py, "data_received"))?.unbind())
        };
        Ok(Self { object: object.clone().unbind(), receiver })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        match &self.receiver {
            Receiver::Data(method) => visit.call(method),
            Receiver::Buffer { get_buffer, buffer_updated } => {
                visit.call(get_buffer)?;
                visit.call(buffer_updated)
            }
        }
    }
}

impl Receiver {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Data(method) => Self::Data(method.clone_ref(py)),
            Self::Buffer { get_buffer, buffer_updated } => Self::Buffer {
                get_buffer: get_buffer.clone_ref(py),
                buffer_updated: buffer_updated.clone_ref(py),
            },
        }
    }
}
