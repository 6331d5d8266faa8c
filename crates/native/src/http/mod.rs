//! HTTP/1.1 connections of a server, and the applications behind them.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the server: application, options, open connections |
//! | `connection` | the protocol of one connection; `reading` parses its input, `writing` sends |
//! | `proxied` | a load balancer's description of a connection, before it begins |
//! | `exchange` | one request and its answer; `answer` writes the answer's head and body, `fields` its fields |
//! | `wsgi` | a WSGI application's call and its answer; `environ`: the request for it |
//! | `start_response` | the start of its answer; `input`: the request's body, `file_wrapper`: a file as the answer |
//! | `workers` | the threads of WSGI applications; `outbox`: their queue to the connection, `pause`: how they wait |
//! | `asgi` | an ASGI application's task, `receive` and `send`; `scope`: the request for it |
//! | `static_files` | folders that are served without the application; `static_reply` decides on each answer |
//! | `file_answer` | sends a file if that takes more than one send; `pathsend`: for an application |
//! | `journal` | messages to the operator |
//! | `websocket` | an exchange with WebSocket messages instead of bodies |
//!
//! Uses `transport`, for which it is a protocol with its own receive function. The code calls the response of an
//! exchange its answer.

mod answer;
mod asgi;
mod connection;
mod environ;
mod exchange;
mod fields;
mod file_answer;
mod file_wrapper;
mod input;
mod journal;
mod names;
mod options;
mod outbox;
mod pathsend;
mod pause;
mod proxied;
mod reading;
mod receiving;
mod scope;
mod sending;
mod server;
mod start_response;
mod static_files;
mod static_reply;
mod websocket;
mod workers;
mod writing;
mod wsgi;

pub use connection::HttpConnection;
pub use reading::receive;

use pyo3::prelude::*;

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<server::HttpServer>()?;
    module.add_class::<HttpConnection>()?;
    crate::ffi::awaitable::install_steps::<asgi::RequestTask>(py);
    crate::ffi::awaitable::install_steps::<sending::SendCall>(py);
    crate::ffi::awaitable::install_steps::<receiving::ReceiveCall>(py);
    crate::ffi::recycled::install::<sending::SendCall>(py);
    crate::ffi::recycled::install::<asgi::RequestTask>(py);
    crate::ffi::recycled::install::<exchange::Exchange>(py);
    crate::ffi::recycled::install::<wsgi::WsgiCall>(py);
    crate::ffi::recycled::install::<input::Input>(py);
    module.add_class::<workers::Workers>()?;
    module.add_class::<file_wrapper::FileWrapper>()?;
    start_response::add_methods(py)?;
    input::add_methods(py)?;
    sending::add_methods(py)
}
