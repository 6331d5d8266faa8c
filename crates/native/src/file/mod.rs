//! File I/O for Python: the operations of one loop, on the engine's engines.
//!
//! Stands on `event_loop`; knows no transport. What a path was called in the program, cursors,
//! buffering and text are Python's matter (`oneloop.files`).

pub(crate) mod alignment;
mod budget;
mod busy;
mod call;
mod cancel;
mod content;
mod exit;
mod files;
mod lines;
mod names;
mod operations;
mod pending;
mod reaping;
mod scratch;
pub(crate) mod watch;
mod whole;

pub use alignment::*;
pub use exit::wait_for_file_calls;
pub use files::Files;
pub use lines::{Line, Lines, ReadAhead};
pub use watch::*;
