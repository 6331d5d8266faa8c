//! Green threads: greenlets that the loop's tick resumes, and that switch to one another when they wait.

mod event;
mod hidden;
mod hub;
mod hub_methods;
mod io;
mod life;
mod limit;
mod line;
mod owners;
mod places;
mod queue;
mod reentrant;
mod rlock;
mod semaphore;
mod thread_lock;
mod thread_place;
mod turn;
mod waiter;

pub use hub::HubCore;
pub use turn::Turn;
pub use waiter::Waiter;

use pyo3::prelude::*;

/// An argument of which only the truth counts, as the standard library's queues and locks accept it.
#[derive(Clone, Copy)]
struct Truth(bool);

impl<'py> FromPyObject<'_, 'py> for Truth {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.is_truthy().map(Self)
    }
}

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HubCore>()?;
    module.add_class::<Waiter>()?;
    hub_methods::add_functions(module)?;
    life::add_to(module)?;
    module.add_function(wrap_pyfunction!(limit::wait_for, module)?)?;
    module.add("TIMED_OUT", limit::timed_out(module.py())?)?;
    module.add_class::<line::LineCore>()?;
    module.add_class::<semaphore::SemaphoreCore>()?;
    module.add_class::<event::EventCore>()?;
    module.add_class::<queue::QueueCore>()?;
    module.add_class::<rlock::RLockCore>()?;
    module.add_class::<thread_lock::LockCore>()?;
    module.add_class::<reentrant::ReentrantCore>()?;
    module.add_class::<thread_place::ThreadPlace>()?;
    module.add_function(wrap_pyfunction!(owners::take_at_last, module)?)?;
    io::add_functions(module)
}
