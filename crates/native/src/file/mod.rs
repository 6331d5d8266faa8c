//! File I/O for Python: the operations of one loop, on the engines of `oneloop_engine::files`.
//!
//! Uses `event_loop`, no transports. Path objects, text and most of the buffering are in Python (`oneloop.files`).

pub(crate) mod alignment;
mod attempt;
mod budget;
mod call;
mod cancel;
mod content;
mod deferred;
mod deferring;
mod descriptors;
mod exit;
mod fast;
mod fast_methods;
mod files;
mod handle;
mod lines;
mod look_up;
mod names;
mod opening;
mod operation;
mod operations;
mod paths;
mod pending;
mod read_ahead;
mod reaping;
mod scratch;
mod serving;
mod settling;
mod shipment;
mod stat_result;
mod status;
mod stored;
pub(crate) mod watch;
mod whole;

pub use alignment::*;
pub use exit::wait_for_file_calls;
pub use fast::FastFile;
pub use fast_methods::add_methods;
pub use files::Files;
pub use handle::FileHandle;
pub use lines::Lines;
pub use operation::Operation;
pub use read_ahead::ReadAhead;
pub use status::learn_filesystem;
pub use watch::*;
