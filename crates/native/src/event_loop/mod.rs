//! Decides when something runs: the tick, the ready queue, handles, timers, and the registry of descriptor owners.
//!
//! Must not depend on transports or protocols. These register a `Source` (an object and the function that serves its
//! readiness) and request flushes.

mod aside;
mod calls;
mod core;
mod dispatch;
mod futures;
mod handle;
mod meter;
mod ready;
mod registry;
mod running;
mod source;
mod tick;
mod timer_handle;
mod timing;
mod turnstile;
mod underway;
mod work;

pub use aside::Aside;
pub use core::{LoopCore, OnReady, Run};
pub use handle::Handle;
pub use registry::is_gone;
pub use running::report;
pub use timer_handle::TimerHandle;

/// Adds the methods that use CPython's fastest calling convention.
pub(crate) fn add_methods(py: pyo3::Python<'_>) -> pyo3::PyResult<()> {
    calls::add_methods(py)?;
    futures::add_methods(py)
}
