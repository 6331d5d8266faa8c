//! TLS transports, over any `ssl.SSLContext` or over rustls.
//!
//! Uses `transport`, for which it is a protocol with its own receive function.

mod backlog;
mod default_context;
mod handshake;
mod information;
mod library;
mod marks;
mod openssl;
mod own_context;
mod reading;
mod records;
mod rustls;
mod session;
mod shutdown;
mod timeouts;
mod transport;
mod writing;

use pyo3::prelude::*;

pub use reading::receive;
pub use transport::TlsTransport;

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Not by its own name, which is asyncio's.
    module.add("TlsTransport", module.py().get_type::<transport::TlsTransport>())?;
    self::rustls::add_classes(module)?;
    writing::add_methods(module.py())
}
