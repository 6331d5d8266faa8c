//! `ApplicationOptions`: how the program's application is called, and what is served before it.

use super::static_files::folders::StaticFiles;
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    Asgi,
    Wsgi,
}

pub struct ApplicationOptions {
    pub interface: Interface,
    /// WSGI: each request runs in a green thread.
    pub green: bool,
    /// WSGI: the maximum number of threads, without green threads.
    pub threads: usize,
    /// WSGI: the value of `wsgi.multiprocess`.
    pub multiprocess: bool,
    pub root_path: String,
    /// The state from the lifespan; each request gets a copy.
    pub state: Option<Py<PyDict>>,
    /// The path that tells whether the server serves or ends.
    pub health: Option<String>,
    /// The port for https to which plain requests are redirected.
    pub redirect_https: Option<u16>,
    /// Folders that are served before the application.
    pub static_files: Option<Box<StaticFiles>>,
    /// The longest message of a WebSocket.
    pub ws_max_size: usize,
    pub ws_deflate: bool,
}
