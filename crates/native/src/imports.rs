//! Python objects that native code needs, imported once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

fn cached<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    cell.get_or_try_init(py, || Ok(py.import(module)?.getattr(name)?.unbind()))
        .map(|object| object.bind(py).clone())
}

macro_rules! imports {
    ($($(#[$doc:meta])* $function:ident = $module:literal, $name:literal;)*) => {
        $(
            $(#[$doc])*
            pub fn $function<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                cached(py, &CELL, $module, $name)
            }
        )*
    };
}

imports! {
    format_callback_source = "asyncio.format_helpers", "_format_callback_source";
    future = "asyncio", "Future";
    task = "asyncio", "Task";
    buffered_protocol = "asyncio", "BufferedProtocol";
    transport_socket = "asyncio.trsock", "TransportSocket";
    socket = "socket", "socket";
    raw_socket = "_socket", "socket";
    ssl_socket = "ssl", "SSLSocket";
    logger = "asyncio.log", "logger";
    warn = "warnings", "warn";
    fsdecode = "os", "fsdecode";
    fstat = "os", "fstat";
    set_blocking = "os", "set_blocking";
}
