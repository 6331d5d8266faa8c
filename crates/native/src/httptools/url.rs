//! `URL` and `parse_url`: httptools' URL parsing.

use super::failure::exception;
use crate::ffi::buffer;
use crate::ffi::values::Value;
use oneloop_http1::url::{UrlParts, split_url};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The limit of httptools.
const LONGEST_BYTES: usize = 65_535;

/// The parts of a URL: bytes, or None for a missing part; the port is an int.
#[pyclass(frozen, name = "URL", module = "httptools.parser.url_parser", get_all)]
pub struct Url {
    schema: Option<Py<PyBytes>>,
    host: Option<Py<PyBytes>>,
    port: Option<u16>,
    path: Option<Py<PyBytes>>,
    query: Option<Py<PyBytes>>,
    fragment: Option<Py<PyBytes>>,
    userinfo: Option<Py<PyBytes>>,
}

#[pymethods]
impl Url {
    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        let show = |part: &Option<Py<PyBytes>>| match part {
            Some(bytes) => bytes.bind(py).repr().map(|text| text.to_string()),
            None => Ok("None".to_owned()),
        };
        let port = self.port.map_or("None".to_owned(), |port| port.to_string());
        Ok(Value(format!(
            "<URL schema: {}, host: {}, port: {port}, path: {}, query: {}, fragment: {}, userinfo: {}>",
            show(&self.schema)?,
            show(&self.host)?,
            show(&self.path)?,
            show(&self.query)?,
            show(&self.fragment)?,
            show(&self.userinfo)?,
        )))
    }
}

/// Split a URL, or a path with query and fragment, into its parts.
///
/// Args:
///     url: a bytes-like object of at most 65,535 bytes.
///
/// Raises:
///     HttpParserInvalidURLError: it is invalid or too long.
#[pyfunction]
pub fn parse_url(py: Python<'_>, url: &Bound<'_, PyAny>) -> PyResult<Url> {
    let bytes = buffer::to_bytes(url)?;
    let len = bytes.as_bytes().len();
    if len > LONGEST_BYTES {
        let text = format!("url is too long: {len} bytes, at most {LONGEST_BYTES} are allowed");
        return Err(exception(py, "HttpParserInvalidURLError", text));
    }
    let Some(parts) = split_url(bytes.as_bytes()) else {
        let text = format!("invalid url {}", url.repr()?);
        return Err(exception(py, "HttpParserInvalidURLError", text));
    };
    Ok(of_parts(py, &parts))
}

fn of_parts(py: Python<'_>, parts: &UrlParts<'_>) -> Url {
    let bytes = |part: Option<&[u8]>| part.map(|part| PyBytes::new(py, part).unbind());
    Url {
        schema: bytes(parts.schema),
        host: bytes(parts.host),
        port: parts.port,
        path: bytes(parts.path),
        query: bytes(parts.query),
        fragment: bytes(parts.fragment),
        userinfo: bytes(parts.userinfo),
    }
}
