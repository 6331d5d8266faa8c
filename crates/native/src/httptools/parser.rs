//! `HttpRequestParser`, `HttpResponseParser`: httptools' classes.

use super::callbacks::Callbacks;
use super::failure::exception;
use super::feeding::{Feeding, Phase, Work};
use super::head::{Info, Side};
use crate::ffi::thread_exit::guard_thread;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, buffer};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// The base class of both parsers.
#[pyclass(frozen, subclass, module = "httptools.parser")]
pub struct HttpParser {
    side: Side,
    info: LoopCell<Info>,
    /// `None` before `__init__` and while it is being fed.
    work: LoopCell<Option<Box<Work>>>,
}

impl HttpParser {
    fn new(side: Side) -> Self {
        Self { side, info: LoopCell::default(), work: LoopCell::default() }
    }

    fn init(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let work = Box::new(Work::new(Callbacks::of(protocol)?));
        // The replaced value is dropped outside of the cell.
        drop(self.work.with(protocol.py(), |place| place.replace(work)));
        Ok(())
    }
}

#[pymethods]
impl HttpParser {
    /// Parse the next bytes of the connection, and call the protocol's methods for the parts they complete.
    ///
    /// Args:
    ///     data: a bytes-like object.
    ///
    /// Raises:
    ///     HttpParserError: the bytes are not strict HTTP/1.1, or a callback raised. Every later call raises it again.
    ///     HttpParserUpgrade: the message switches protocols; its argument is the position in `data` after it.
    fn feed_data(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        guard_thread();
        let data = buffer::to_bytes(data)?;
        let Some(mut work) = self.work.take(py) else {
            return Err(exception(
                py,
                "HttpParserError",
                "feed_data() must not be called from one of its callbacks",
            ));
        };
        let fed =
            Feeding { py, side: self.side, work: &mut work, info: &self.info }.run(data.as_bytes());
        let failure = fed.err();
        if let Some(verdict) = failure.as_ref().and_then(super::failure::Failure::verdict) {
            work.phase = Phase::Failed(verdict);
        }
        // A callback may have called `__init__` again: then this is the older state.
        let older = self
            .work
            .with(py, |place| if place.is_none() { place.replace(work) } else { Some(work) });
        drop(older);
        failure.map_or(Ok(()), |failure| Err(failure.exception(py)))
    }

    /// The version of the last message's head, such as "1.1"; "0.0" before the first.
    fn get_http_version(&self, py: Python<'_>) -> Value<&'static str> {
        Value(match self.info.get(py).version {
            Some(version) => version.name(),
            None => "0.0",
        })
    }

    /// Whether the connection may carry another message after the last one.
    fn should_keep_alive(&self, py: Python<'_>) -> bool {
        self.info.get(py).keeps_alive
    }

    /// Whether the message switches protocols; False before `on_headers_complete`.
    fn should_upgrade(&self, py: Python<'_>) -> bool {
        self.info.get(py).upgrades
    }

    /// Allow folded header lines (`lenient_headers`).
    ///
    /// The other options allow request smuggling and have no effect.
    #[pyo3(signature = (lenient_headers=None, lenient_chunked_length=None, lenient_keep_alive=None,
        lenient_transfer_encoding=None, lenient_version=None, lenient_data_after_close=None,
        lenient_optional_lf_after_cr=None, lenient_optional_cr_before_lf=None,
        lenient_optional_crlf_after_chunk=None, lenient_spaces_after_chunk_size=None))]
    #[expect(clippy::too_many_arguments)] // httptools' signature
    fn set_dangerous_leniencies(
        &self,
        py: Python<'_>,
        lenient_headers: Option<bool>,
        lenient_chunked_length: Option<bool>,
        lenient_keep_alive: Option<bool>,
        lenient_transfer_encoding: Option<bool>,
        lenient_version: Option<bool>,
        lenient_data_after_close: Option<bool>,
        lenient_optional_lf_after_cr: Option<bool>,
        lenient_optional_cr_before_lf: Option<bool>,
        lenient_optional_crlf_after_chunk: Option<bool>,
        lenient_spaces_after_chunk_size: Option<bool>,
    ) {
        let _ = (
            lenient_chunked_length,
            lenient_keep_alive,
            lenient_transfer_encoding,
            lenient_version,
        );
        let _ =
            (lenient_data_after_close, lenient_optional_lf_after_cr, lenient_optional_cr_before_lf);
        let _ = (lenient_optional_crlf_after_chunk, lenient_spaces_after_chunk_size);
        if let Some(is_lenient) = lenient_headers {
            self.work.with(py, |work| {
                if let Some(work) = work {
                    work.joins_folded_lines = is_lenient;
                }
            });
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // While callbacks run, the caller holds them, so there is nothing to visit.
        self.work
            .peek(|work| work.as_ref().map_or(Ok(()), |work| work.callbacks.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.work.take(py));
    }
}

/// Parses requests, for the server side of a connection.
///
/// Args:
///     protocol: an object whose methods `on_message_begin`, `on_url`, `on_header`, `on_headers_complete`, `on_body`,
///         `on_chunk_header`, `on_chunk_complete` and `on_message_complete` are called, if it has them.
#[pyclass(frozen, subclass, extends = HttpParser, module = "httptools.parser")]
pub struct HttpRequestParser;

#[pymethods]
impl HttpRequestParser {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyClassInitializer<Self> {
        let _ = (args, kwargs);
        PyClassInitializer::from(HttpParser::new(Side::Request)).add_subclass(Self)
    }

    fn __init__(slf: &Bound<'_, Self>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.as_super().get().init(protocol)
    }

    /// The method of the last request.
    fn get_method<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyBytes> {
        PyBytes::new(slf.py(), slf.as_super().get().info.get(slf.py()).method())
    }
}

/// Parses responses, for the client side of a connection.
///
/// Args:
///     protocol: as for `HttpRequestParser`, with `on_status` instead of `on_url`.
#[pyclass(frozen, subclass, extends = HttpParser, module = "httptools.parser")]
pub struct HttpResponseParser;

#[pymethods]
impl HttpResponseParser {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyClassInitializer<Self> {
        let _ = (args, kwargs);
        PyClassInitializer::from(HttpParser::new(Side::Response)).add_subclass(Self)
    }

    fn __init__(slf: &Bound<'_, Self>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.as_super().get().init(protocol)
    }

    /// The status code of the last response.
    fn get_status_code(slf: &Bound<'_, Self>) -> Value<u16> {
        Value(slf.as_super().get().info.get(slf.py()).status)
    }
}
