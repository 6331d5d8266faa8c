//! File I/O for Python: the operations of one loop, on the engine's engines.
//!
//! Stands on `event_loop`; knows no transport. What a path was called in the program, cursors,
//! buffering and text are Python's matter (`oneloop.files`).

pub(crate) mod alignment;
mod budget;
mod call;
mod cancel;
mod content;
mod deferred;
mod descriptors;
mod exit;
mod fast;
mod files;
mod handle;
mod lines;
mod look;
mod names;
mod operation;
mod operations;
mod pending;
mod read_ahead;
mod reaping;
mod scratch;
mod serving;
mod stored;
pub(crate) mod watch;
mod whole;

pub use alignment::*;
pub use exit::wait_for_file_calls;
pub use fast::{FastFile, add_methods};
pub use files::Files;
pub use handle::FileHandle;
pub use lines::Lines;
pub use look::learn_filesystem;
pub use operation::Operation;
pub use read_ahead::ReadAhead;
pub use watch::*;
