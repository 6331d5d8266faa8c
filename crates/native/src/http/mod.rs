//! HTTP/1.1 connections of a server, and the applications behind them.
//!
//! | file | noun |
//! |---|---|
//! | `server` | who accepts: application, options, the connections that are open |
//! | `connection` | the protocol of one connection; `reading` takes its bytes apart, `writing` sends |
//! | `proxied` | what a load balancer says of a connection before it begins |
//! | `exchange` | one request and its answer; `answer` writes the answer's head and body, `fields` its fields |
//! | `wsgi` | a WSGI application's call and its answer; `environ` what it is told of the request |
//! | `start_response` | what it says of its answer; `input`: the request's body, `file_wrapper`: a file as the answer |
//! | `workers` | the threads of WSGI applications; `outbox` is their way to the connection, `pause` how they wait |
//! | `asgi` | an ASGI application's task, `receive` and `send`; `scope` what it is told of the request |
//! | `static_files` | folders that are answered without the application; `static_reply` decides what a request gets |
//! | `file_answer` | a file on its way, where that takes more than one send; `pathsend`: for an application |
//! | `journal` | what the operator is told, and which errors are no news |
//! | `websocket` | an exchange whose bodies are WebSocket's messages |
//!
//! Stands on `transport`, which knows it only as a protocol that receives by itself.

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
