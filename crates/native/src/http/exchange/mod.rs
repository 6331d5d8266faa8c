//! One request and its response, as a state machine. No socket, and nothing of an application.
//!
//! | file | contents |
//! |---|---|
//! | `contract` | `Exchange`, its state, and the traits by which it knows its connection and its application |
//! | `lifecycle` | what both sides tell an exchange: more of the body, the client's end |
//! | `response` | the response: its head, the parts of its body, its end |
//! | `response_state` | the states of a response; how the end of its body is told |
//! | `response_fields` | checks and writes fields |
//! | `packing` | bodies that the server compresses; `compression`: the option for that |
//! | `request_body` | the part of the request's body that the application has not taken yet |
//! | `request_view` | what programs see of a request: method, path, fields, the client behind a proxy |
//! | `field_names` | names of common fields as Python objects |
//! | `reply` | a response that is known at once: static files |
//! | `service` | what all exchanges of a server share: options, counts, the date |
//! | `access_record` | the access log and the counts; `error_log`: messages to the operator |
//! | `waiting` | waits of applications: futures, green threads, threads |
//!
//! Must not use `connection`, `application` or `server`.

pub mod access_record;
pub mod compression;
pub mod contract;
pub mod error_log;
pub mod field_names;
pub mod lifecycle;
pub mod packing;
pub mod reply;
pub mod request_body;
pub mod request_view;
pub mod response;
pub mod response_fields;
pub mod response_state;
pub mod service;
pub mod waiting;
