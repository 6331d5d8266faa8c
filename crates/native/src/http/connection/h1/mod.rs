//! HTTP/1.1 connections of a server.
//!
//! | file | contents |
//! |---|---|
//! | `connection` | `HttpConnection`: the protocol of one connection, from its start to its end |
//! | `deadlines` | its deadlines, and its end by the server |
//! | `requests` | parses the input: heads, bodies, pipelined requests |
//! | `responses` | writes heads and frames bodies; `refusals`: responses of the server itself |
//! | `output` | the transport's sending side |
//! | `carrier` | how an exchange calls its connection |
//! | `half_close` | a client that has ended its side: when its application is told |
//! | `ends` | the addresses of both ends; `proxied`: a load balancer's description of them |

pub mod carrier;
pub mod connection;
pub mod deadlines;
pub mod ends;
pub mod half_close;
pub mod output;
pub mod proxied;
pub mod refusals;
pub mod requests;
pub mod responses;
