//! Green threads: greenlets that the loop's tick resumes, and that switch to one another when they wait.

mod hub;
mod io;
mod life;
mod line;
mod queue;
mod rlock;
mod thread_lock;
mod waiter;

pub use hub::HubCore;
pub use waiter::{Turn, Waiter};

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HubCore>()?;
    module.add_class::<Waiter>()?;
    hub::add_functions(module)?;
    life::add_to(module)?;
    line::add_to(module)?;
    module.add_class::<queue::QueueCore>()?;
    module.add_class::<rlock::RLockCore>()?;
    module.add_class::<thread_lock::LockCore>()?;
    io::add_functions(module)
}
