//! A stream protocol, and how it takes data.

use super::feeding;
use crate::ffi::Object;
use crate::imports;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Which of its methods get the data; they are looked up at each call, as asyncio does.
pub enum Receiver {
    /// `Protocol.data_received(bytes)`
    Data,
    /// asyncio's own `StreamReaderProtocol`, whose reader is fed without a call where that is the same.
    /// `vetted`: see `Feeding::find`.
    Stream { vetted: Option<Object> },
    /// `BufferedProtocol.get_buffer(sizehint)` and `.buffer_updated(nbytes)`
    Buffer,
}

pub struct StreamProtocol {
    pub object: Py<PyAny>,
    pub receiver: Receiver,
    /// asyncio's TLS: its records are the bytes of a transport above, whose users cannot tell when they were gathered.
    pub is_tls: bool,
}

impl StreamProtocol {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let is_buffered = object.is_instance(&imports::buffered_protocol(py)?)?;
        let receiver = if is_buffered {
            Receiver::Buffer
        } else if feeding::is_stock_protocol(object)? {
            Receiver::Stream { vetted: None }
        } else {
            Receiver::Data
        };
        let is_tls = is_buffered && object.is_instance(&imports::ssl_protocol(py)?)?;
        Ok(Self { object: object.clone().unbind(), receiver, is_tls })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        match &self.receiver {
            Receiver::Stream { vetted: Some(vetted) } => vetted.visit(visit),
            _ => Ok(()),
        }
    }
}

impl Receiver {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Data => Self::Data,
            Self::Stream { vetted } => {
                Self::Stream { vetted: vetted.as_ref().map(|vetted| vetted.clone_ref(py)) }
            }
            Self::Buffer => Self::Buffer,
        }
    }
}
