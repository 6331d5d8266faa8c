//! HTTP/2 connections of a server (RFC 9113). The protocol is `oneloop_http2`'s.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | `Http2Connection`: the protocol of one connection; `Http2Stream`: the connection as one exchange sees it |
//! | `input` | what was received, and to whom it goes |
//! | `requests` | heads become requests, and exchanges |
//! | `stream` | the body of a request, and its end |
//! | `parts` | the parts of a response, written by any thread, sent by the loop's |
//! | `carrier`, `tunnel` | how an exchange and a tunnel call their stream |
//! | `sending` | what is queued goes to the transport; those that wait for room are woken |
//! | `deadlines` | the deadlines of connection and streams, and the end by the server |
//! | `linger` | the end of a connection whose client has broken the rules |

pub mod carrier;
pub mod connection;
pub mod deadlines;
pub mod input;
pub mod linger;
pub mod parts;
pub mod requests;
pub mod sending;
pub mod stream;
pub mod tunnel;
