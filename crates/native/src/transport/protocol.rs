//! A protocol with the methods that run per message, bound once.

use super::feeding;
use crate::ffi::Object;
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// How a stream protocol takes data.
pub enum Receiver {
    /// `Protocol.data_received(bytes)`
    Data(Object),
    /// asyncio's own `StreamReaderProtocol`, whose reader is fed without a call where that is the same.
    /// `vetted`: see `Feeding::find`.
    Stream { data_received: Object, vetted: Option<Object> },
    /// `BufferedProtocol.get_buffer(sizehint)` and `.buffer_updated(nbytes)`
    Buffer { get_buffer: Object, buffer_updated: Object },
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
                get_buffer: Object::new(object.getattr(intern!(py, "get_buffer"))?),
                buffer_updated: Object::new(object.getattr(intern!(py, "buffer_updated"))?),
            }
        } else {
            let method = object.getattr(intern!(py, "data_received"))?;
            if feeding::is_stock_protocol(object, &method)? {
                Receiver::Stream { data_received: Object::new(method), vetted: None }
            } else {
                Receiver::Data(Object::new(method))
            }
        };
        Ok(Self { object: object.clone().unbind(), receiver })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        match &self.receiver {
            Receiver::Data(method) => method.visit(visit),
            Receiver::Stream { data_received, vetted } => {
                data_received.visit(visit)?;
                vetted.as_ref().map_or(Ok(()), |vetted| vetted.visit(visit))
            }
            Receiver::Buffer { get_buffer, buffer_updated } => {
                get_buffer.visit(visit)?;
                buffer_updated.visit(visit)
            }
        }
    }
}

impl Receiver {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Data(method) => Self::Data(method.clone_ref(py)),
            Self::Stream { data_received, vetted } => Self::Stream {
                data_received: data_received.clone_ref(py),
                vetted: vetted.as_ref().map(|vetted| vetted.clone_ref(py)),
            },
            Self::Buffer { get_buffer, buffer_updated } => Self::Buffer {
                get_buffer: get_buffer.clone_ref(py),
                buffer_updated: buffer_updated.clone_ref(py),
            },
        }
    }
}
