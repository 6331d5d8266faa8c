//! A stream protocol, and how data is passed to it.

use super::feeding;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::imports;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::os::fd::RawFd;

/// The receive function of a native protocol: one receive and all its consequences. Returns the number of bytes; 0 is
/// the end of file.
pub type Receive =
    for<'py> fn(&Bound<'py, LoopCore>, &Bound<'py, PyAny>, RawFd) -> PyResult<io::Result<usize>>;

/// A class of protocols with their own receive function.
struct Native {
    class: Py<PyType>,
    receive: Receive,
    /// Its writes are already gathered.
    writes_through: bool,
}

static NATIVE: PyOnceLock<Vec<Native>> = PyOnceLock::new();

/// Registers the protocol classes with their own receive function, each with whether its writes are already gathered.
/// Called once, when the module is loaded.
pub fn register_native(py: Python<'_>, classes: [(Bound<'_, PyType>, Receive, bool); 4]) {
    NATIVE.get_or_init(py, || {
        let known = |(class, receive, writes_through): (Bound<'_, PyType>, _, _)| Native {
            class: class.unbind(),
            receive,
            writes_through,
        };
        classes.into_iter().map(known).collect()
    });
}

fn native_of<'py>(object: &Bound<'py, PyAny>) -> Option<&'py Native> {
    let class = object.get_type();
    NATIVE.get(object.py())?.iter().find(|native| class.is(&native.class))
}

/// The protocol's methods that receive data. They are looked up at each call, as in asyncio.
pub enum Receiver {
    /// `Protocol.data_received(bytes)`
    Data,
    /// asyncio's own `StreamReaderProtocol`, whose reader is fed without a call where that has the same effect.
    /// `vetted`: see `Feeding::find`.
    Stream { vetted: Option<Object> },
    /// `BufferedProtocol.get_buffer(sizehint)` and `.buffer_updated(nbytes)`
    Buffer,
    /// A native protocol.
    Native(Receive),
}

pub struct StreamProtocol {
    pub object: Py<PyAny>,
    pub receiver: Receiver,
    /// TLS: its records come from a transport above, which has already gathered them.
    pub writes_through: bool,
}

impl StreamProtocol {
    pub fn is_native(&self) -> bool {
        matches!(self.receiver, Receiver::Native(_))
    }

    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if let Some(native) = native_of(object) {
            return Ok(Self {
                object: object.clone().unbind(),
                receiver: Receiver::Native(native.receive),
                writes_through: native.writes_through,
            });
        }
        let is_buffered = object.is_instance(&imports::buffered_protocol(py)?)?;
        let receiver = if is_buffered {
            Receiver::Buffer
        } else if feeding::is_stock_protocol(object)? {
            Receiver::Stream { vetted: None }
        } else {
            Receiver::Data
        };
        let writes_through = is_buffered && object.is_instance(&imports::ssl_protocol(py)?)?;
        Ok(Self { object: object.clone().unbind(), receiver, writes_through })
    }

    /// Remembers the reader that was found to have no methods on the object. Returns an object for the caller to
    /// drop.
    pub fn vet(&mut self, vetted: Object) -> Option<Object> {
        match &mut self.receiver {
            Receiver::Stream { vetted: kept } => kept.replace(vetted),
            _ => Some(vetted),
        }
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
            Self::Native(receive) => Self::Native(*receive),
        }
    }
}
