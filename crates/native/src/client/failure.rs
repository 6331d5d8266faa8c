//! The exceptions of a client. Their classes are Python's: `oneloop.http.client.errors`.

use crate::ffi::{call, fallible};
use oneloop_http1::Refusal;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// What a request is told whose connection is not opened because of something else.
pub const GIVEN_UP: &str = "the connection is not opened any more";
/// What a request is told that something else has ended.
pub const INTERRUPTED: &str = "the request was interrupted";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ConnectError,
    PoolTimeout,
    ReadTimeout,
    WriteTimeout,
    TotalTimeout,
    ReadError,
    LocalProtocolError,
    RemoteProtocolError,
    CloseError,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::ConnectError => "ConnectError",
            Self::PoolTimeout => "PoolTimeout",
            Self::ReadTimeout => "ReadTimeout",
            Self::WriteTimeout => "WriteTimeout",
            Self::TotalTimeout => "TotalTimeout",
            Self::ReadError => "ReadError",
            Self::LocalProtocolError => "LocalProtocolError",
            Self::RemoteProtocolError => "RemoteProtocolError",
            Self::CloseError => "CloseError",
        }
    }
}

/// The exception; the error of the import if the module is not there.
pub fn error(py: Python<'_>, kind: Kind, text: &str) -> PyErr {
    made(py, kind, text).unwrap_or_else(|error| error)
}

fn made(py: Python<'_>, kind: Kind, text: &str) -> PyResult<PyErr> {
    let module = py.import(fallible::interned(py, "oneloop.http.client.errors")?)?;
    let class = module.getattr(fallible::interned(py, kind.name())?)?;
    let error = call::call1(&class, fallible::text(py, text)?.as_any())?;
    Ok(PyErr::from_value(error))
}

/// What ends a request, and what the caller of this gets: the error itself ends it; or, if that is no Exception, such as
/// KeyboardInterrupt, it is for the program, whatever it waits for, and the request is told `kind` and `text`.
pub fn told(py: Python<'_>, error: PyErr, kind: Kind, text: &str) -> (PyErr, PyResult<()>) {
    if error.is_instance_of::<PyException>(py) {
        return (error, Ok(()));
    }
    (self::error(py, kind, text), Err(error))
}

/// The connection has failed. If that cannot be said, why not.
pub fn lost(cause: &Bound<'_, PyAny>) -> PyErr {
    let py = cause.py();
    match cause.str() {
        Ok(text) => {
            let error = error(py, Kind::ReadError, &text.to_string_lossy());
            error.set_cause(py, Some(PyErr::from_value(cause.clone())));
            error
        }
        Err(error) => error,
    }
}

/// What the server did wrong.
pub fn refused(py: Python<'_>, refusal: Refusal) -> PyErr {
    error(
        py,
        Kind::RemoteProtocolError,
        &format!("the server's answer is invalid: {}", refusal.reason),
    )
}
