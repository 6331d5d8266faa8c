//! HTTP connections of a client: the pool, its connections, requests and their responses.
//!
//! | file | contents |
//! |---|---|
//! | `pool` | the limits on connections, and which origin may open the next one |
//! | `origin` | the connections to one origin; `origin_queue`: the exchanges that wait for one; `origin_links` is how others call it |
//! | `sharing` | connections of an origin that carry several exchanges at a time; `h2`: HTTP/2 on a connection |
//! | `connection` | the protocol of one connection; `reading` parses its input, `deadline` limits its waits, `closing` ends it |
//! | `carrier` | what an exchange calls of its connection; `usable` what a connection asks its transport; `loss`: the server has closed it |
//! | `exchange` | one request and its response; `exchange_methods` is what the program calls, `waiting` the coroutines that wait for it |
//! | `wake` | what is waited for, and how the caller is woken; `pieces`: what was received of the body |
//! | `response_head` | the head of a response; `body`: the body of a request on its way |
//! | `request` | the head of a request; `framing`: one with the fields of a program; `url` parses URLs |
//! | `turns` | which of several threads runs a loop of plain code |
//! | `websocket` | the frames of a WebSocket, which an exchange can become |
//! | `failure` | the exceptions, which are those of `oneloop.http.client.errors` |
//!
//! An exchange uses no connection, a connection no origin and the pool no origin: each states a trait for what it calls.
//!
//! Uses `transport` and `green`. Addresses, TLS, proxies and everything that users of a client see is Python code, which
//! opens connections for an origin and starts exchanges on it.

mod body;
mod carrier;
mod closing;
mod connection;
mod deadline;
mod exchange;
mod exchange_methods;
mod failure;
mod framing;
mod gathered;
mod h2;
mod loss;
mod origin;
mod origin_links;
mod origin_queue;
mod pieces;
mod pool;
mod protocol;
mod reading;
mod request;
mod response_head;
mod sharing;
mod timeouts;
mod turns;
mod url;
mod usable;
mod waiting;
mod wake;
mod websocket;

pub use connection::ClientConnection;
pub use reading::receive;

use pyo3::prelude::*;

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<pool::ClientPool>()?;
    module.add_class::<origin::ClientOrigin>()?;
    module.add_class::<ClientConnection>()?;
    module.add_class::<exchange::ClientExchange>()?;
    module.add_class::<timeouts::ClientTimeouts>()?;
    module.add_class::<turns::ClientTurns>()?;
    module.add_class::<websocket::WebSocketFrames>()?;
    module.add_function(wrap_pyfunction!(response_head::parse_response_head, module)?)?;
    module.add_function(wrap_pyfunction!(request::request_head, module)?)?;
    module.add_function(wrap_pyfunction!(framing::framed_head, module)?)?;
    module.add_function(wrap_pyfunction!(url::split_url, module)?)?;
    module.add_function(wrap_pyfunction!(url::plain_target, module)?)?;
    crate::ffi::awaitable::install_steps::<waiting::ExchangeWait>(py);
    Ok(())
}
