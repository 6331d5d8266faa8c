//! Files: what the package `oneloop.files` asks of the kernel.

pub(crate) mod alignment;
pub(crate) mod watch;

pub use alignment::*;
pub use watch::*;
