//! HTTP connections of a server, and the applications behind them.
//!
//! ```text
//! server         options, open connections, draining       uses connection and application
//! connection     bytes to and from exchanges               uses exchange
//! application    asgi, wsgi, static files, websocket       uses exchange
//! exchange       one request and its response              uses none of them
//! ```
//! `exchange/contract.rs` has the traits by which an exchange knows its connection and its application, which do not
//! know each other. `tests/package/test_layers.py` reads the imports.
//!
//! Uses `transport`, for which a connection is a protocol with its own receive function.

mod application;
mod connection;
mod exchange;
mod server;

pub use connection::h1::connection::HttpConnection;
pub use connection::h1::requests::receive;
pub use connection::h2::connection::{Http2Connection, receive as receive_http2};

use application::{asgi, wsgi};

use pyo3::prelude::*;

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<server::http_server::HttpServer>()?;
    module.add_class::<HttpConnection>()?;
    module.add_class::<Http2Connection>()?;
    crate::ffi::recycled::install::<connection::h2::connection::Http2Stream>(py);
    crate::ffi::awaitable::install_steps::<asgi::task::RequestTask>(py);
    crate::ffi::awaitable::install_steps::<asgi::send::SendCall>(py);
    crate::ffi::awaitable::install_steps::<asgi::receive::ReceiveCall>(py);
    crate::ffi::recycled::install::<asgi::send::SendCall>(py);
    crate::ffi::recycled::install::<asgi::task::RequestTask>(py);
    crate::ffi::recycled::install::<exchange::contract::Exchange>(py);
    crate::ffi::recycled::install::<wsgi::call::WsgiCall>(py);
    crate::ffi::recycled::install::<wsgi::input::Input>(py);
    module.add_class::<wsgi::workers::Workers>()?;
    module.add_class::<wsgi::file_wrapper::FileWrapper>()?;
    wsgi::start_response::add_methods(py)?;
    wsgi::input::add_methods(py)?;
    asgi::send::add_methods(py)
}
