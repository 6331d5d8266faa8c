//! `Callbacks`: the protocol's methods, looked up when the parser is made.

use super::failure::Failure;
use crate::ffi::call;
use crate::ffi::fallible;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Their names, in the order of `Event`.
const NAMES: [&str; 9] = [
    "on_message_begin",
    "on_url",
    "on_status",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "on_chunk_header",
    "on_chunk_complete",
];

#[derive(Clone, Copy)]
pub enum Event {
    MessageBegin,
    Url,
    Status,
    Header,
    HeadersComplete,
    Body,
    MessageComplete,
    ChunkHeader,
    ChunkComplete,
}

#[derive(Default)]
pub struct Callbacks([Option<Py<PyAny>>; 9]);

impl Callbacks {
    /// The methods that the protocol has and that are not None.
    pub fn of(protocol: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut found = Self::default();
        for (place, name) in found.0.iter_mut().zip(NAMES) {
            *place =
                protocol.getattr_opt(name)?.filter(|method| !method.is_none()).map(Bound::unbind);
        }
        Ok(found)
    }

    #[inline]
    pub fn tell(&self, py: Python<'_>, event: Event) -> Result<(), Failure> {
        self.run(event, |callback| call::call0(callback.bind(py)))
    }

    #[inline]
    pub fn tell_bytes(&self, py: Python<'_>, event: Event, bytes: &[u8]) -> Result<(), Failure> {
        self.run(event, |callback| {
            call::call1(callback.bind(py), fallible::bytes(py, bytes)?.as_any())
        })
    }

    #[inline]
    pub fn tell_header(&self, py: Python<'_>, name: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.run(Event::Header, |callback| {
            let (name, value) = (fallible::bytes(py, name)?, fallible::bytes(py, value)?);
            call::call2(callback.bind(py), name.as_any(), value.as_any())
        })
    }

    #[inline]
    fn run<'py>(
        &self,
        event: Event,
        call: impl FnOnce(&Py<PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Result<(), Failure> {
        let Some(callback) = &self.0[event as usize] else { return Ok(()) };
        match call(callback) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::Raised(NAMES[event as usize], error)),
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().flatten().try_for_each(|callback| visit.call(callback))
    }
}
