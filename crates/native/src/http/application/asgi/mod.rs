//! ASGI applications.
//!
//! | file | contents |
//! |---|---|
//! | `task` | `RequestTask`: the application's work on one request |
//! | `scope` | the request for it |
//! | `receive`, `send` | the coroutines of the same names |
//! | `messages` | which message may come next; `message`: its items |
//! | `response` | the messages of a response; `pathsend`: a file as its body |

pub mod message;
pub mod messages;
pub mod pathsend;
pub mod receive;
pub mod response;
pub mod scope;
pub mod send;
pub mod task;
