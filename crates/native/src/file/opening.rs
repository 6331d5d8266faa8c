//! `Opening`: an open whose path a thread checks first.

use oneloop_engine::files::Request;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The path may be that of a FIFO, which would block a thread forever.
pub struct Opening {
    pub request: Request,
    /// Set by the thread.
    pub may_wait_for_ever: Arc<AtomicBool>,
}
