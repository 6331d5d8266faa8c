//! `Aside`: the loop and the task that run in this thread, set aside while others run there.
//!
//! Native, because a signal's handler may raise between any two instructions of Python code, and would leave the
//! thread without its loop or its task.

use crate::ffi::call;
use crate::imports;
use pyo3::prelude::*;

/// A loop, or None, and its current task. Since Python 3.14 a thread runs only one task at a time.
pub struct Aside<'py> {
    running: Bound<'py, PyAny>,
    task: Option<Bound<'py, PyAny>>,
    enter_task: Bound<'py, PyAny>,
    set_running_loop: Bound<'py, PyAny>,
}

impl<'py> Aside<'py> {
    /// Sets aside what runs here. `next`: the loop that runs from now on, or None.
    pub fn set(next: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = next.py();
        let running = call::call0(&imports::running_loop(py)?)?;
        let task = if running.is_none() {
            None
        } else {
            Some(call::call1(&imports::current_task(py)?, &running)?).filter(|task| !task.is_none())
        };
        let leave_task = imports::leave_task(py)?;
        let enter_task = imports::enter_task(py)?;
        let set_running_loop = imports::set_running_loop(py)?;
        if let Some(task) = &task {
            call::call2(&leave_task, &running, task)?;
        }
        let aside = Self { running, task, enter_task, set_running_loop };
        match call::call1(&aside.set_running_loop, next) {
            Ok(_) => Ok(aside),
            Err(error) => aside.end().and(Err(error)),
        }
    }

    /// Lets it run here again.
    pub fn end(self) -> PyResult<()> {
        let set = call::call1(&self.set_running_loop, &self.running).map(drop);
        let entered = match &self.task {
            Some(task) => call::call2(&self.enter_task, &self.running, task).map(drop),
            None => Ok(()),
        };
        set.and(entered)
    }
}
