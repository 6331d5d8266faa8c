//! What answers requests: the program's application, and files.
//!
//! | file | contents |
//! |---|---|
//! | `site` | what a server serves, as connections know it: `Application` |
//! | `asgi` | an ASGI application: its task, `receive` and `send`, the scope |
//! | `wsgi` | a WSGI application: its calls in green threads or threads |
//! | `websocket` | an exchange with WebSocket messages instead of bodies |
//! | `static_files` | folders that are served before the application |
//! | `file_response` | sends a file if that takes more than one send |
//! | `ending` | the end of an application's work on a request |
//! | `options` | the options of all of them |
//!
//! Uses `exchange`; must not use `connection` or `server`.

pub mod asgi;
pub mod ending;
pub mod file_response;
pub mod options;
pub mod redirect;
pub mod site;
pub mod static_files;
pub mod websocket;
pub mod wsgi;
