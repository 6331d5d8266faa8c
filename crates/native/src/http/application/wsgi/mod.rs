//! WSGI applications.
//!
//! | file | contents |
//! |---|---|
//! | `start` | `Wsgi`: a server's application; begins its calls |
//! | `call` | `WsgiCall`: one call and its result |
//! | `start_response` | the start of its response |
//! | `environ` | the request for it; `input`: the request's body |
//! | `delivery` | how parts of the response reach the connection; `outbox`: those that wait for the loop |
//! | `file_wrapper` | a file as the response |
//! | `workers` | the threads |

pub mod call;
pub mod delivery;
pub mod environ;
pub mod file_wrapper;
pub mod input;
pub mod outbox;
pub mod start;
pub mod start_response;
pub mod workers;
