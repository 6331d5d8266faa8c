//! File I/O for Python: the operations of one loop, on the engines of `oneloop_engine::files`.
//!
//! Uses `event_loop`, no transports. Path objects, text and most of the buffering are in Python (`oneloop.files`).

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
