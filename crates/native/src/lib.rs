//! The extension module `oneloop._native`: exports only.

mod address;
mod aio;
mod errors;
mod event_loop;
mod ffi;
mod imports;
mod sockets;
mod transport;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ffi::socket_object::check_layout(module.py())?;
    ffi::recycled::install::<event_loop::Handle>(module.py());
    ffi::recycled::install::<event_loop::TimerHandle>(module.py());
    module.add_class::<event_loop::LoopCore>()?;
    module.add_class::<event_loop::Handle>()?;
    module.add_class::<event_loop::TimerHandle>()?;
    module.add_class::<transport::StreamTransport>()?;
    module.add_class::<transport::DatagramTransport>()?;
    module.add_class::<transport::ReadPipeTransport>()?;
    module.add_class::<transport::WritePipeTransport>()?;
    module.add_class::<transport::Listener>()?;
    module.add_class::<sockets::SockOperation>()?;
    aio::add_classes(module)?;
    transport::add_methods(module.py())?;
    event_loop::add_methods(module.py())
}
