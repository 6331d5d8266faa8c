//! `start_response` and `write` of a WSGI application (PEP 3333).

use super::answer::Framing;
use super::exchange::Answer;
use super::fields::{Found, add_field};
use super::writing::leave_out;
use super::wsgi::{WsgiCall, data_of};
use crate::ffi::method::{self, Arguments, FastMethod};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::borrow::Cow;
use std::ffi::CStr;

/// Fields that only concern two neighbours, which an application must not send: RFC 9110 section 7.6.1.
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
    line: Cow<'a, [u8]>,
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
        let (answer, is_disconnected) = exchange.state.with(py, |s| (s.answer, s.is_disconnected));
        match (answer, exc_info) {
            (Answer::Awaited, _) | (Answer::Started, Some(_)) => {}
            (Answer::Streaming | Answer::Trailing | Answer::Complete, Some(exc_info)) => {
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
        let mut head = exchange.spare(py);
        let found = exchange.write_head(
            py,
            &mut head,
            |head| {
                head.extend_from_slice(b"HTTP/1.1 ");
                head.extend_from_slice(&status.line);
                head.extend_from_slice(b"\r\n");
            },
            |head, found| headers.iter().try_for_each(|field| write_field(head, &field, found)),
        )?;
        if status.code == 204 && found.length.is_some() {
            // RFC 9110 section 8.6: it has none.
            leave_out(&mut head, b"content-length:");
        }
        exchange.state.with(py, |s| {
            s.status = status.code;
            s.framing = if exchange.is_head || status.code == 204 || status.code == 304 {
                Framing::NoBody
            } else {
                found.length.map_or(Framing::Unknown, Framing::Length)
            };
            s.keeps_alive = this.keeps_alive;
            s.head = head;
            if !is_disconnected || s.answer == Answer::Awaited {
                s.answer = Answer::Started;
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
    let line = if line.len() == 3 { [&line[..], b" "].concat().into() } else { line };
    Ok(Status { code, line })
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
    if HOP_BY_HOP.iter().any(|hop| hop.as_bytes().eq_ignore_ascii_case(&name)) {
        let text =
            format!("{field:?} must not be set by an application: it is a hop-by-hop header");
        return Err(PyAssertionError::new_err(text));
    }
    add_field(head, &name, bytes_of(value)?.trim_ascii(), found)
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
            WsgiCall::send(&slf, data, true)?;
        }
        Ok(py.None().into_bound(py))
    }
}

/// Adds the methods that run for each request.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<StartResponse>(py)?;
    method::add::<Write>(py)
}
