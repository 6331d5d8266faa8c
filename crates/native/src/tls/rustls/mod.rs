//! TLS by rustls: the contexts of `oneloop.tls`, and the sessions that they make.
//!
//! Knows no transport and no loop. `wire` is a connection without Python, `session` is the contract over it, `object` is
//! what the program sees of it. `context` makes them of a configuration, which `server` and `client` build.

mod client;
mod context;
mod failure;
mod files;
mod key_log;
mod names;
mod object;
mod options;
mod problem;
mod server;
mod session;
mod suites;
mod trust;
mod wire;

pub use context::TlsContext;
pub use object::TlsObject;
pub use session::RustlsSession;

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TlsContext>()?;
    module.add_class::<TlsObject>()
}
