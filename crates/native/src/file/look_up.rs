//! `look_up`: the addresses of a name, on a thread that never waits for the GIL.

use super::Files;
use super::exit::Running;
use super::operations::Strategy;
use super::pending::{Addresses, Conversion};
use crate::ffi::fallible;
use crate::ffi::values::{ToPython, Value};
use crate::{address, errors, imports};
use oneloop_engine::files::Lane;
use oneloop_engine::sys::names::{self, Hints, LookUpError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::ffi::CString;
use std::sync::Arc;

#[pymethods]
impl Files {
    /// `socket.getaddrinfo` for a plain host and service, as a future. Cancelling it does not stop a thread that has
    /// begun.
    #[pyo3(signature = (host, service, family, kind, protocol, flags, /))]
    fn look_up<'py>(
        slf: &Bound<'py, Self>,
        host: &str,
        service: Option<&str>,
        family: i32,
        kind: i32,
        protocol: i32,
        flags: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| PyValueError::new_err("embedded null character"))
        };
        let (host, service) = (text(host)?, service.map(text).transpose()?);
        let hints = Hints { family, kind, protocol, flags };
        let found = Addresses::default();
        let theirs = Arc::clone(&found);
        let running = Running::begin();
        let work = move || {
            let _running = running;
            let found = names::look_up(&host, service.as_deref(), hints);
            theirs.get_or_init(|| found);
            Ok(0)
        };
        let strategy = Strategy::Call(Box::new(work), Lane::Names);
        Self::begin_cancellable(slf, strategy, Conversion::Addresses(found))
    }
}

/// The list that `socket.getaddrinfo` returns, or its exception.
pub fn to_python<'py>(py: Python<'py>, addresses: &Addresses) -> PyResult<Bound<'py, PyAny>> {
    match addresses.get() {
        Some(Ok(found)) => {
            let list = fallible::list(py)?;
            for one in found {
                list.append(fallible::tuple(
                    py,
                    [
                        imports::address_family(py)?.call1((Value(one.family),))?,
                        imports::socket_kind(py)?.call1((Value(one.kind),))?,
                        one.protocol.to_python(py)?,
                        PyString::from_bytes(py, &one.canonical_name)?.into_any(),
                        address::to_python(py, &one.address)?,
                    ],
                )?)?;
            }
            Ok(list.into_any())
        }
        Some(Err(LookUpError::Name(code, text))) => Err(PyErr::from_value(
            imports::gaierror(py)?.call1((Value(*code), Value(text.as_str())))?,
        )),
        Some(Err(LookUpError::System(error))) => Err(errors::file_error(error)),
        None => Ok(py.None().into_bound(py)),
    }
}
