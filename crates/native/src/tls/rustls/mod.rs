//! TLS by rustls: the contexts of `oneloop.tls`, and their sessions.
//!
//! Does not depend on transports or the loop. `wire` is a connection without Python, `session` implements the
//! `Session` trait on it, `object` is the program's view of it. `context` makes connections from a configuration, which
//! `server` and `client` build.

mod client;
mod context;
mod failure;
mod files;
mod key_log;
mod missing;
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
