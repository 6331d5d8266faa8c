//! Messages to the server's operator, in the logger `oneloop.error`. Also decides which errors are not logged: those
//! caused by a client that is gone.

use crate::ffi::fallible;
use crate::imports;
use pyo3::exceptions::{PyBaseExceptionGroup, PyKeyboardInterrupt};
use pyo3::intern;
use pyo3::prelude::*;

/// How many links of an exception chain are searched.
const CHAIN: usize = 20;

/// Logs a message. `level` is the name of a logger's method: "warning", "error".
pub fn tell(py: Python<'_>, level: &str, text: &str) -> PyResult<()> {
    logger(py)?.call_method1(level, ("%s", text)).map(drop)
}

/// Logs that the server itself refused a request: a warning, or only information for the timeout of a slow client.
pub fn refused(client: &Bound<'_, PyAny>, status: u16, reason: &str) -> PyResult<()> {
    let name = client_name(client);
    let level = if status == 408 { "info" } else { "warning" };
    let text = format!("A request from {name} was refused with status {status}: {reason}");
    tell(client.py(), level, &text)
}

/// A client, given by its address, for messages.
pub fn client_name(client: &Bound<'_, PyAny>) -> String {
    match client.extract::<(String, u16)>() {
        Ok((host, port)) => format!("{host}:{port}"),
        Err(_) => "a client on a Unix socket".to_owned(),
    }
}

/// Logs an error of the application, with its traceback if there is one.
pub fn log(py: Python<'_>, text: &str, error: Option<&PyErr>) -> PyResult<()> {
    let details = fallible::dict(py)?;
    if let Some(error) = error {
        // Before Python 3.12, `value` alone has no traceback.
        details.set_item(intern!(py, "exc_info"), error.clone_ref(py).into_value(py))?;
    }
    logger(py)?.call_method(intern!(py, "error"), ("%s", text), Some(&details)).map(drop)
}

fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("logging")?.call_method1(intern!(py, "getLogger"), ("oneloop.error",))
}

/// `DisconnectedError(text)`
pub fn client_gone(py: Python<'_>, text: &str) -> PyErr {
    match imports::client_disconnected(py).and_then(|class| class.call1((text,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Whether an error reports that the client is gone, was raised because of that, or is a group of such errors.
pub fn is_of_client(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    has_client_gone(error.value(py).as_any(), CHAIN)
}

/// Whether an error of the application ends the program: a KeyboardInterrupt that may be that of Ctrl-C. If the server
/// handles the signal itself, the application has raised it, and it concerns its request only, as on other servers.
pub fn is_interrupt(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return Ok(false);
    }
    imports::may_be_interrupted(py)?.call0()?.is_truthy()
}

fn has_client_gone(error: &Bound<'_, PyAny>, left: usize) -> PyResult<bool> {
    let py = error.py();
    if error.is_instance(&imports::client_disconnected(py)?)? {
        return Ok(true);
    }
    if left == 0 {
        return Ok(false);
    }
    if error.is_instance_of::<PyBaseExceptionGroup>() {
        for inner in error.getattr(intern!(py, "exceptions"))?.try_iter()? {
            if !has_client_gone(&inner?, left - 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for name in [intern!(py, "__cause__"), intern!(py, "__context__")] {
        let before = error.getattr(name)?;
        if !before.is_none() {
            return has_client_gone(&before, left - 1);
        }
    }
    Ok(false)
}
