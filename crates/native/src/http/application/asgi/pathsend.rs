//! `http.response.pathsend`: the application names a file as the body of its response.
//!
//! A small file in the kernel's caches is sent with the head, in one send; `FileResponse` sends any other. Errors of
//! `open()` are raised to the application.

use super::message::item;
use crate::errors;
use crate::ffi::bytes::BytesRoom;
use crate::ffi::fallible;
use crate::http::application::file_response::FileResponse;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::reply::FilePart;
use crate::http::exchange::response_state::Framing;
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::files::served::{self, Opened};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Files up to this length are read immediately.
const SHORT_BYTES: u64 = 128 * 1024;

/// Sends the file of a message. Returns a future if that takes longer.
pub fn start<'py>(
    exchange: &Bound<'py, Exchange>,
    message: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = exchange.py();
    let this = exchange.get();
    let path: PathBuf = item(message, intern!(py, "path"))?.extract()?;
    let c_path = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| PyValueError::new_err("embedded null byte"))?;
    if this.state.with(py, |s| s.framing == Framing::NoBody) {
        Exchange::write_body(exchange, &fallible::bytes(py, b"")?, false)?;
        return Ok(None);
    }
    let found = served::open_cached(&c_path).map_err(|error| errors::path_error(&error, &path))?;
    let waiter = |py: Python<'py>| -> PyResult<Bound<'py, PyAny>> {
        let owner = this.service.get().owner.bind(py);
        let waiter = owner.call_method0(intern!(py, "create_future"))?;
        this.state.with(py, |s| s.is_sending_file = true);
        Ok(waiter)
    };
    let AtOnce::Done(opened) = found else {
        let waiter = waiter(py)?;
        FileResponse::open_and_send(exchange, path, c_path, &waiter)
            .inspect_err(|_| this.state.with(py, |s| s.is_sending_file = false))?;
        return Ok(Some(waiter));
    };
    let len_bytes = this.fit_file(py, opened.status.len)?;
    if let Some(content) = read_all(py, &opened, len_bytes)? {
        Exchange::write_body(exchange, &content, false)?;
        return Ok(None);
    }
    let waiter = waiter(py)?;
    let part = FilePart::new(opened, 0, len_bytes);
    FileResponse::send(exchange, part, Some(&waiter))
        .inspect_err(|_| this.state.with(py, |s| s.is_sending_file = false))?;
    Ok(Some(waiter))
}

/// The start of a file. `None`: it is too long, or not entirely in memory.
fn read_all<'py>(
    py: Python<'py>,
    opened: &Opened,
    len_bytes: u64,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if len_bytes > SHORT_BYTES {
        return Ok(None);
    }
    let len = usize::try_from(len_bytes)?;
    let mut room = BytesRoom::new(py, len)?;
    if len == 0 {
        return room.completed(py, 0).map(Some);
    }
    match cached::read(opened.fd.as_raw_fd(), room.as_mut_slice(py), 0) {
        Ok(AtOnce::Done(read)) if read == len => room.completed(py, len).map(Some),
        Ok(_) => Ok(None),
        Err(error) => Err(errors::file_error(&error)),
    }
}
