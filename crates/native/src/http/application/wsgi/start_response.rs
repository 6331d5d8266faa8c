//! `start_response` and `write` of a WSGI application (PEP 3333).

use super::call::{Taken, WsgiCall, data_of};
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::http::exchange::response::Head;
use crate::http::exchange::response_fields::{Found, add_field, says_close};
use crate::http::exchange::response_state::{Response, TOO_LONG};
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::borrow::Cow;
use std::ffi::CStr;

/// Fields that only concern two neighbours, which an application must not send: RFC 9110 section 7.6.1. They are left
/// out, as by gunicorn.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// A parsed status, such as "200 OK".
struct Status<'a> {
    code: u16,
    reason: Cow<'a, [u8]>,
}

impl WsgiCall {
    fn start_response(
        slf: &Bound<'_, Self>,
        status: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
        exc_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.get();
        let (response, is_disconnected) =
            exchange.state.with(py, |s| (s.response, s.is_disconnected));
        match (response, exc_info) {
            (Response::Awaited, _) | (Response::Started, Some(_)) => {}
            (Response::Streaming | Response::Trailing | Response::Complete, Some(exc_info)) => {
                return Err(raised(exc_info)?);
            }
            (_, None) => {
                let text = "start_response() was already called, and this call has no exc_info";
                return Err(PyAssertionError::new_err(text));
            }
        }
        let status = status
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err("the status must be a str, as in '200 OK'"))?;
        let status = taken_apart(status)?;
        let headers = headers
            .cast::<PyList>()
            .map_err(|_| PyTypeError::new_err("the headers must be a list of tuples"))?;
        let Head { bytes, found, framing } =
            exchange.write_head(py, status.code, Some(&status.reason), |head, found| {
                headers.iter().try_for_each(|field| write_field(head, &field, found))
            })?;
        if let Some(name) = found.left_out {
            exchange.service.get().tell_once(py, name, || {
                format!(
                    "The application sets the header {name:?}, which is the server's (PEP 3333). It is left out, \
                     except that 'Connection: close' closes the connection."
                )
            })?;
        }
        exchange.state.with(py, |s| {
            s.status = status.code;
            s.framing = framing;
            s.keeps_alive = this.keeps_alive && !found.closes;
            s.head = bytes;
            if !is_disconnected || s.response == Response::Awaited {
                s.response = Response::Started;
            }
        });
        Ok(())
    }
}

/// The exception in `exc_info`, with its traceback.
fn raised(exc_info: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let (_, error, traceback): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
        exc_info.extract().map_err(|_| {
            PyTypeError::new_err("exc_info must be a tuple of three, as returned by sys.exc_info()")
        })?;
    let error = error.call_method1(intern!(exc_info.py(), "with_traceback"), (traceback,))?;
    Ok(PyErr::from_value(error))
}

fn taken_apart<'a>(status: &'a Bound<'_, PyString>) -> PyResult<Status<'a>> {
    let line = bytes_of(status)?;
    let wrong = || {
        let text =
            format!("the status must be a code and a reason, as in '200 OK', not {status:?}");
        PyValueError::new_err(text)
    };
    let code = match &line[..] {
        [a, b, c] | [a, b, c, b' ', ..] if [a, b, c].iter().all(|d| d.is_ascii_digit()) => {
            u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
        }
        _ => return Err(wrong()),
    };
    // A 1xx response is not a final one.
    let has_control = line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    if code < 200 || has_control {
        return Err(wrong());
    }
    let reason = match line {
        Cow::Borrowed(line) => Cow::Borrowed(line.get(4..).unwrap_or_default()),
        Cow::Owned(line) => Cow::Owned(line.get(4..).unwrap_or_default().to_vec()),
    };
    Ok(Status { code, reason })
}

/// The bytes that a "bytes as str" stands for.
fn bytes_of<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, [u8]>> {
    let utf8 = text.to_str()?;
    if utf8.is_ascii() {
        return Ok(Cow::Borrowed(utf8.as_bytes()));
    }
    let bytes: Result<Vec<u8>, _> = utf8.chars().map(u8::try_from).collect();
    let wrong = |_| PyValueError::new_err(format!("{text:?} has characters outside of latin-1"));
    bytes.map(Cow::Owned).map_err(wrong)
}

fn write_field(head: &mut Vec<u8>, field: &Bound<'_, PyAny>, found: &mut Found) -> PyResult<()> {
    let wrong =
        || PyTypeError::new_err(format!("a header must be a tuple of two str, not {field:?}"));
    let pair = field.cast::<PyTuple>().map_err(|_| wrong())?;
    if pair.len() != 2 {
        return Err(wrong());
    }
    let (name, value) = (pair.get_item(0)?, pair.get_item(1)?);
    let name = name.cast::<PyString>().map_err(|_| wrong())?;
    let value = value.cast::<PyString>().map_err(|_| wrong())?;
    let name = bytes_of(name)?;
    let value = bytes_of(value)?;
    if let Some(hop) = HOP_BY_HOP.iter().find(|hop| hop.as_bytes().eq_ignore_ascii_case(&name)) {
        found.left_out = Some(hop);
        found.closes |= *hop == "connection" && says_close(&value);
        return Ok(());
    }
    add_field(head, &name, value.trim_ascii(), found)
}

struct StartResponse;

impl FastMethod for StartResponse {
    type Class = WsgiCall;
    const NAME: &'static CStr = c"start_response";
    const DOC: &'static CStr =
        c"start_response($self, status, headers, exc_info=None, /)\n--\n\nSet the status and headers of the response.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, WsgiCall>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let named = arguments.only_keyword("start_response", intern!(py, "exc_info"))?;
        let (status, headers, exc_info) = match (arguments.positional(), named) {
            ([status, headers], exc_info) => (status, headers, exc_info),
            ([status, headers, exc_info], None) => (status, headers, Some(*exc_info)),
            _ => {
                let text = "start_response() takes a status, headers and optionally exc_info";
                return Err(PyTypeError::new_err(text));
            }
        };
        let exc_info = exc_info.filter(|exc_info| !exc_info.is_none());
        let slf = slf.to_owned();
        WsgiCall::start_response(&slf, status, headers, exc_info.as_deref())?;
        slf.getattr(intern!(py, "write"))
    }
}

struct Write;

impl FastMethod for Write {
    type Class = WsgiCall;
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr = c"write($self, data, /)\n--\n\nSend a part of the body immediately.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, WsgiCall>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let data = arguments.one("write", intern!(py, "data"))?;
        let data = data_of(&data)?;
        if !data.as_bytes().is_empty() {
            // PEP 3333 lets a server raise an error for what the Content-Length does not allow.
            if WsgiCall::send(&slf, data, true)? == Taken::Part {
                return Err(PyRuntimeError::new_err(TOO_LONG));
            }
        }
        Ok(py.None().into_bound(py))
    }
}

/// Adds the methods that run for each request.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<StartResponse>(py)?;
    method::add::<Write>(py)
}
