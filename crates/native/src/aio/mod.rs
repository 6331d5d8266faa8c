//! `oneloop.aio`: file operations that a program submits and polls itself, without a loop.
//!
//! Uses only the engine's `Polled`, no event loop. The classes are added to the extension module with the prefix
//! `Aio`; `python/oneloop/aio.py` exports them under their public names.

mod context;
mod engine;
mod event;
mod kinds;
mod request;
mod shared;
mod wait;

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("AioContext", py.get_type::<context::Context>())?;
    module.add("AioEvent", py.get_type::<event::Event>())?;
    module.add("AioRequest", py.get_type::<request::Request>())?;
    module.add("AioRead", py.get_type::<kinds::Read>())?;
    module.add("AioWrite", py.get_type::<kinds::Write>())?;
    module.add("AioReadV", py.get_type::<kinds::ReadV>())?;
    module.add("AioWriteV", py.get_type::<kinds::WriteV>())?;
    module.add("AioFsync", py.get_type::<kinds::Fsync>())?;
    module.add("AioFdsync", py.get_type::<kinds::Fdsync>())?;
    module.add("AioPoll", py.get_type::<kinds::Poll>())
}
