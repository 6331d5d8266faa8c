//! The extension module `oneloop._native`: exports only.

mod address;
mod aio;
mod client;
mod errors;
mod event_loop;
#[cfg(feature = "faults")]
mod faults;
mod ffi;
mod file;
mod green;
mod http;
mod httptools;
mod imports;
mod sockets;
mod tls;
mod transport;
mod watching;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ffi::interpreter::refuse_subinterpreters(module.py())?;
    // PyO3 checks once whether there is an interpreter. If a destructor at exit made that first check, it would
    // panic.
    module.py().detach(|| Python::attach(|_py| ()));
    ffi::socket_object::check_layout(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    ffi::recycled::install::<event_loop::Handle>(module.py());
    ffi::recycled::install::<event_loop::TimerHandle>(module.py());
    ffi::recycled::install::<file::Operation>(module.py());
    ffi::awaitable::install_steps::<file::Operation>(module.py());
    ffi::awaitable::install_steps::<file::Lines>(module.py());
    ffi::awaitable::install_iterate::<file::Lines>(module.py());
    ffi::awaitable::install_steps::<transport::Accepting>(module.py());
    module.add_class::<event_loop::LoopCore>()?;
    module.add_class::<event_loop::Handle>()?;
    module.add_class::<event_loop::TimerHandle>()?;
    module.add_class::<transport::StreamTransport>()?;
    module.add_class::<transport::DatagramTransport>()?;
    module.add_class::<transport::ReadPipeTransport>()?;
    module.add_class::<transport::WritePipeTransport>()?;
    module.add_class::<transport::Listener>()?;
    module.add_class::<sockets::SockOperation>()?;
    module.add_function(wrap_pyfunction!(sockets::remove_socket_file, module)?)?;
    module.add_function(wrap_pyfunction!(file::direct_alignment, module)?)?;
    module.add_function(wrap_pyfunction!(file::inotify_init, module)?)?;
    module.add_function(wrap_pyfunction!(file::inotify_add_watch, module)?)?;
    module.add_function(wrap_pyfunction!(file::inotify_rm_watch, module)?)?;
    module.add_class::<file::Files>()?;
    module.add_class::<file::ReadAhead>()?;
    module.add_class::<file::Lines>()?;
    module.add_class::<file::FileHandle>()?;
    module.add_class::<file::FastFile>()?;
    file::add_methods(module.py())?;
    module.add_function(wrap_pyfunction!(file::wait_for_file_calls, module)?)?;
    module.add_function(wrap_pyfunction!(file::learn_filesystem, module)?)?;
    module.add_function(wrap_pyfunction!(ffi::utf8::decode_utf8, module)?)?;
    module.add_function(wrap_pyfunction!(ffi::utf8::join_text, module)?)?;
    module.add_function(wrap_pyfunction!(ffi::utf8::join_bytes, module)?)?;
    module.add_class::<watching::SnapshotSocket>()?;
    #[cfg(Py_3_13)]
    module.add_function(wrap_pyfunction!(ffi::wakeup::swap, module)?)?;
    aio::add_classes(module)?;
    green::add_classes(module)?;
    httptools::add_classes(module)?;
    transport::add_methods(module.py())?;
    tls::add_to(module)?;
    http::add_to(module)?;
    client::add_to(module)?;
    let py = module.py();
    transport::register_native(
        py,
        [
            (py.get_type::<tls::TlsTransport>(), tls::receive, true),
            (py.get_type::<http::HttpConnection>(), http::receive, false),
            (py.get_type::<http::Http2Connection>(), http::receive_http2, false),
            (py.get_type::<client::ClientConnection>(), client::receive, false),
        ],
    );
    #[cfg(feature = "faults")]
    faults::add_to(module)?;
    event_loop::add_methods(module.py())
}
