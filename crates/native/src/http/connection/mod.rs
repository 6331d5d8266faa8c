//! Connections: bytes to and from exchanges.
//!
//! | file | contents |
//! |---|---|
//! | `open_connections` | the open connections of a server, of any protocol; ends those whose deadline has passed |
//! | `options` | the limits and timeouts of connections |
//! | `h1`, `h2` | HTTP/1.1; HTTP/2 |
//! | `ends` | both ends: addresses, TLS; `output`: the transport's sending side |
//!
//! Uses `exchange`; must not use `application` or `server`.

pub mod ends;
pub mod h1;
pub mod h2;
pub mod open_connections;
pub mod options;
pub mod output;
