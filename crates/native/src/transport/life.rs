//! `Life`: the states of every transport, and the steps that all have in common: `connection_made`, the report of a
//! fatal error, `connection_lost`.
//!
//! | state   | reads | writes         | next state on                                    |
//! |---------|-------|----------------|--------------------------------------------------|
//! | New     | no    | queued or sent | its start, one tick after it was made            |
//! | Open    | yes*  | yes            | `close`, end of file, an error                   |
//! | Closing | no    | queued data    | an empty queue: `connection_lost` is scheduled   |
//! | Lost    | no    | dropped        | `connection_lost`, then the descriptor is closed |
//! | Closed  | no    | dropped        | –                                                |
//!
//! *while not paused. Must not depend on the kind of transport. Callbacks run with no borrow held (S2); their
//! exceptions go to the loop's handler (S7).

use super::own_context::OwnContext;
use crate::event_loop::{LoopCore, report};
use crate::ffi::fallible;
use crate::imports;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use std::os::fd::RawFd;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    New,
    Open,
    Closing,
    Lost,
    Closed,
}

impl Life {
    /// Its end has not been requested yet.
    pub fn is_live(self) -> bool {
        matches!(self, Self::New | Self::Open)
    }

    /// `connection_lost` is scheduled or has run.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Lost | Self::Closed)
    }

    /// The state as a transport's repr shows it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::New | Self::Open => "",
            Self::Closing | Self::Lost => " closing",
            Self::Closed => " closed",
        }
    }
}

/// RuntimeError if another transport that is not closing has the descriptor (S4).
pub fn refuse_taken(owner: &Bound<'_, LoopCore>, fd: RawFd) -> PyResult<()> {
    let Some(other) = owner.get().holder_of(owner.py(), fd) else { return Ok(()) };
    let Ok(closing) = other.call_method0(intern!(owner.py(), "is_closing")) else {
        return Ok(()); // a reader or writer of the program, which the transport replaces
    };
    if closing.is_truthy()? {
        return Ok(());
    }
    let text = format!("File descriptor {fd} is used by transport {}", other.repr()?);
    Err(PyRuntimeError::new_err(text))
}

/// Calls `protocol.connection_made(transport)`.
pub fn connection_made(
    owner: &Bound<'_, LoopCore>,
    context: &OwnContext,
    transport: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = owner.py();
    let name = intern!(py, "connection_made");
    let made = context.run(py, || protocol.call_method1(name, (transport,)).map(drop));
    let ended = owner.get().lap_method(owner, protocol, name);
    let notified = made.or_else(|error| {
        let text = "Exception in callback: protocol.connection_made() failed.";
        context.run(py, || report_failure(owner, transport, Some(protocol), text, error))
    });
    notified.and(ended)
}

/// Calls `protocol.connection_lost(exc)`. Returns its exception, because the descriptor is closed before the report.
pub fn connection_lost(
    context: &OwnContext,
    protocol: &Bound<'_, PyAny>,
    exc: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = protocol.py();
    context.run(py, || protocol.call_method1(intern!(py, "connection_lost"), (exc,)).map(drop))
}

/// Passes an exception to the loop's exception handler, with the transport and its protocol. To be called in the
/// connection's context, in which asyncio calls the handler, too: it may want to know whose connection that was.
pub fn report_failure(
    owner: &Bound<'_, LoopCore>,
    transport: &Bound<'_, PyAny>,
    protocol: Option<&Bound<'_, PyAny>>,
    message: &str,
    error: PyErr,
) -> PyResult<()> {
    let py = owner.py();
    let none = py.None().into_bound(py);
    let protocol = protocol.unwrap_or(&none);
    let extra = [(intern!(py, "transport"), transport), (intern!(py, "protocol"), protocol)];
    report(owner, message, error, &extra)
}

/// Reports why a transport ends, in the current context. Quiet errors go only to the protocol; debug mode logs them.
pub fn report_fatal(
    owner: &Bound<'_, LoopCore>,
    transport: &Bound<'_, PyAny>,
    protocol: Option<&Bound<'_, PyAny>>,
    message: &str,
    error: PyErr,
    is_quiet: bool,
) -> PyResult<()> {
    if !is_quiet {
        return report_failure(owner, transport, protocol, message, error);
    }
    if owner.get().is_debug() {
        let py = owner.py();
        let details = fallible::dict(py)?;
        details.set_item(intern!(py, "exc_info"), error.into_value(py))?;
        let text = format!("{}: {message}", transport.repr()?);
        imports::logger(py)?.call_method(intern!(py, "debug"), (text,), Some(&details))?;
    }
    Ok(())
}

/// Sets a future's exception, unless it is done.
pub fn fail(waiter: &Bound<'_, PyAny>, error: PyErr) -> PyResult<()> {
    let py = waiter.py();
    if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
        waiter.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?;
    }
    Ok(())
}

/// Sets a future's result to None, unless it is done.
pub fn resolve(waiter: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = waiter.py();
    if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
        waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
    }
    Ok(())
}
