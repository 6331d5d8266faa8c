//! A server: its options, which it hands down to the layers, and its open connections.
//!
//! | file | contents |
//! |---|---|
//! | `http_server` | `HttpServer`: puts the layers together |
//! | `options` | the options of all layers, from keyword arguments |

pub mod http_server;
pub mod options;
