//! Decides when something runs: the tick, the ready queue, handles, timers, the inbox of other
//! threads, and the registry of who owns which descriptor.
//!
//! May not know: what a transport or a protocol is. Those register a `Source` (an object and the
//! function that serves its readiness) and ask to be flushed.

mod calls;
mod core;
mod dispatch;
mod handle;
mod inbox;
mod meter;
mod registry;
mod ready;
mod tick;
mod timer_handle;
mod work;

pub use core::LoopCore;
pub use handle::Handle;
pub use ready::{Ready, Run};
pub use registry::{OnReady, Source};
pub use timer_handle::TimerHandle;
pub use work::report;

pub(crate) use calls::add_to;
