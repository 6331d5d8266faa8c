//! Python objects that native code uses, imported once.

use crate::ffi::fallible;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

fn cached<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    cell.get_or_try_init(py, || {
        let module = py.import(fallible::interned(py, module)?)?;
        Ok(module.getattr(fallible::interned(py, name)?)?.unbind())
    })
    .map(|object| object.bind(py).clone())
}

macro_rules! imports {
    ($($(#[$doc:meta])* $function:ident = $module:literal, $name:literal;)*) => {
        $(
            $(#[$doc])*
            pub fn $function(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
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
    stream_reader_protocol = "asyncio", "StreamReaderProtocol";
    transport_socket = "oneloop.transports", "TransportSocket";
    socket = "socket", "socket";
    raw_socket = "_socket", "socket";
    address_family = "oneloop.names", "_address_family";
    socket_kind = "oneloop.names", "_socket_kind";
    gaierror = "socket", "gaierror";
    ssl_socket = "ssl", "SSLSocket";
    ssl_protocol = "asyncio.sslproto", "SSLProtocol";
    cancelled_error = "asyncio", "CancelledError";
    files_of = "oneloop.files.engine", "files_of";
    client_of = "oneloop.http.proxies", "client_of";
    tls_of = "oneloop.http.secured", "tls_of";
    client_disconnected = "oneloop.http.errors", "DisconnectedError";
    file_io = "io", "FileIO";
    buffered_reader = "io", "BufferedReader";
    buffered_random = "io", "BufferedRandom";
    temporary_file = "tempfile", "_TemporaryFileWrapper";
    ssl_object = "ssl", "SSLObject";
    ssl_error = "ssl", "SSLError";
    ssl_want_read_error = "ssl", "SSLWantReadError";
    ssl_syscall_error = "ssl", "SSLSyscallError";
    certificate_error = "ssl", "CertificateError";
    decode_certificate = "oneloop.tls", "_decode_certificate";
    encode_hostname = "oneloop.tls", "_encode_hostname";
    memory_bio = "ssl", "MemoryBIO";
    native_ssl_socket = "_ssl", "_SSLSocket";
    tls_transport_class = "oneloop.transports", "SSLProtocolTransport";
    logger = "asyncio.log", "logger";
    base_event_loop = "asyncio", "BaseEventLoop";
    stock_handle = "asyncio", "Handle";
    /// Python 3.14 and later.
    stock_threadsafe_handle = "asyncio.events", "_ThreadSafeHandle";
    stock_timer_handle = "asyncio", "TimerHandle";
    stream_transport_class = "oneloop.transports", "StreamTransport";
    read_pipe_transport_class = "oneloop.transports", "ReadPipeTransport";
    write_pipe_transport_class = "oneloop.transports", "WritePipeTransport";
    datagram_transport_class = "oneloop.transports", "DatagramTransport";
    asyncio_constants = "asyncio", "constants";
    tls_asks_below_flag = "oneloop.transports", "TLS_ASKS_BELOW";
    sendfile_mode = "asyncio.constants", "_SendfileMode";
    fsdecode = "os", "fsdecode";
    fsencode = "os", "fsencode";
    fstat = "os", "fstat";
    stat_result = "os", "stat_result";
    borrowing_future = "oneloop.files.borrowed", "BorrowingFuture";
    set_blocking = "os", "set_blocking";
    find_hub = "oneloop.green.hub", "find_hub";
    may_be_interrupted = "oneloop.interrupts", "may_be_interrupted";
    loop_exit = "oneloop.green.exceptions", "LoopExit";
    blocking_switch_out_error = "oneloop.green.exceptions", "BlockingSwitchOutError";
    invalid_switch_error = "oneloop.green.exceptions", "InvalidSwitchError";
    shut_down = "oneloop.green.queue", "ShutDown";
    full = "queue", "Full";
    empty = "queue", "Empty";
    greenlet_exit = "greenlet", "GreenletExit";
    hub_destroyed = "oneloop.green.exceptions", "HubDestroyed";
    running_loop = "asyncio.events", "_get_running_loop";
    set_running_loop = "asyncio.events", "_set_running_loop";
    current_task = "asyncio.tasks", "current_task";
    enter_task = "asyncio.tasks", "_enter_task";
    leave_task = "asyncio.tasks", "_leave_task";
    asyncgen_hooks = "sys", "get_asyncgen_hooks";
    set_asyncgen_hooks = "sys", "set_asyncgen_hooks";
    origin_tracking_depth = "sys", "get_coroutine_origin_tracking_depth";
    set_origin_tracking_depth = "sys", "set_coroutine_origin_tracking_depth";
}

/// Whether TLS transports of the running version check if the transport below is closing (Python 3.14).
pub fn tls_asks_below(py: Python<'_>) -> PyResult<bool> {
    tls_asks_below_flag(py)?.is_truthy()
}

/// The module `ssl`.
pub fn ssl(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(py.import(pyo3::intern!(py, "ssl"))?.into_any())
}

/// Whether a socket is an `ssl.SSLSocket`. There are builds of Python without the module `ssl`.
pub fn is_ssl_socket(sock: &Bound<'_, PyAny>) -> PyResult<bool> {
    match ssl_socket(sock.py()) {
        Ok(class) => sock.is_instance(&class),
        Err(error) if error.is_instance_of::<PyImportError>(sock.py()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// `asyncio.BaseEventLoop.create_task`
pub fn stock_create_task(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    base_event_loop(py)?.getattr(pyo3::intern!(py, "create_task"))
}
