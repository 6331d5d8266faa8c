//! `Workers`: the threads that run WSGI applications.
//!
//! When one more thread is started or woken is decided by the engine's `Crew`. A working thread holds the GIL, so the loop
//! runs again, and looks whether requests still wait, only when that thread waits or its time slice is over.

use super::call::WsgiCall;
use crate::event_loop::LoopCore;
use crate::ffi::detach::detached;
use crate::ffi::fallible;
use crate::ffi::thread_exit::guard_thread;
use crate::ffi::{LoopCell, Object};
use oneloop_engine::{Added, Crew, Gate};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Weak};

struct State {
    crew: Crew<Object<WsgiCall>>,
    threads: Vec<Py<PyAny>>,
}

/// Called when the interpreter shuts down. It waits for its threads, so they must not wait for work any more.
#[pyclass(frozen, module = "oneloop._native")]
struct Closer(Weak<Gate>);

#[pymethods]
impl Closer {
    fn __call__(&self) {
        if let Some(gate) = self.0.upgrade() {
            gate.close();
        }
    }
}

#[pyclass(frozen, module = "oneloop._native")]
pub struct Workers {
    owner: Py<LoopCore>,
    state: LoopCell<State>,
    gate: Arc<Gate>,
}

impl Workers {
    pub fn new(owner: &Bound<'_, LoopCore>, most: usize) -> Self {
        Self {
            owner: owner.clone().unbind(),
            state: LoopCell::new(State { crew: Crew::new(most), threads: Vec::new() }),
            gate: Arc::default(),
        }
    }

    /// From the loop's thread.
    pub fn submit(slf: &Bound<'_, Self>, call: Object<WsgiCall>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().state.with(py, |s| s.crew.submit(call)) {
            return Self::add_one(slf);
        }
        Self::watch(slf);
        Ok(())
    }

    /// Starts or wakes one more thread, if possible.
    fn add_one(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        match this.state.with(py, |s| s.crew.add_one()) {
            Added::Nobody => return Ok(()),
            Added::Wake => this.gate.let_one_in(),
            Added::Start => {
                if let Err(error) = Self::start_thread(slf) {
                    let undone = this.state.with(py, |s| s.crew.not_started());
                    // With other threads the work continues, if more slowly.
                    return if undone.is_empty() { Ok(()) } else { Err(error) };
                }
            }
        }
        Ok(())
    }

    fn start_thread(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let threading = py.import(intern!(py, "threading"))?;
        let number = this.state.with(py, |s| s.threads.len());
        if number == 0 {
            let closer = Py::new(py, Closer(Arc::downgrade(&this.gate)))?;
            threading.call_method1(intern!(py, "_register_atexit"), (closer,))?;
        }
        let given = fallible::dict(py)?;
        given.set_item(intern!(py, "target"), slf.getattr(intern!(py, "_work"))?)?;
        given.set_item(intern!(py, "name"), format!("oneloop-wsgi_{number}"))?;
        let thread = threading.getattr(intern!(py, "Thread"))?.call((), Some(&given))?;
        thread.call_method0(intern!(py, "start"))?;
        let kept = thread.unbind();
        this.state.with(py, |s| s.threads.push(kept));
        Ok(())
    }

    /// Makes the loop check, in its next tick, whether a thread works on the waiting jobs.
    fn watch(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let this = slf.get();
        let is_new = this.state.with(py, |s| s.crew.watch());
        if is_new {
            this.owner.get().run_soon(py, slf.clone().into_any().unbind(), look);
        }
    }

    /// The next request; `None` if there is none now.
    fn take(slf: &Bound<'_, Self>) -> Option<Object<WsgiCall>> {
        let py = slf.py();
        let (job, has_more) = slf.get().state.with(py, |s| s.crew.take());
        if has_more {
            Self::watch(slf);
        }
        job
    }

    /// Sleeps until there may be work. Returns false if there will be none.
    fn sleep(&self, py: Python<'_>) -> bool {
        detached(py, || self.gate.pass())
    }

    /// Makes threads end when there is nothing left to do. From any thread, also without the GIL.
    pub fn close(&self) {
        self.gate.close();
    }

    /// Closes, and returns the threads that are still running.
    pub fn end<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.close();
        let threads: Vec<_> =
            self.state.with(py, |s| s.threads.iter().map(|thread| thread.clone_ref(py)).collect());
        let mut alive = Vec::new();
        for thread in threads {
            let thread: Bound<'py, PyAny> = thread.into_bound(py);
            if thread.call_method0(intern!(py, "is_alive"))?.is_truthy()? {
                alive.push(thread);
            }
        }
        Ok(alive)
    }
}

/// On the loop, one tick after requests were left waiting: a working thread has released the GIL meanwhile.
fn look(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<Workers>()?;
    let is_left = slf.get().state.with(slf.py(), |s| s.crew.look());
    if is_left { Workers::add_one(slf) } else { Ok(()) }
}

#[pymethods]
impl Workers {
    /// The main function of a thread.
    fn _work(slf: &Bound<'_, Self>) -> PyResult<()> {
        guard_thread();
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| s.crew.begin());
        loop {
            while let Some(job) = Self::take(slf) {
                let worked = WsgiCall::work(job.bind(py));
                drop(job);
                if let Err(error) = worked {
                    error.write_unraisable(py, None);
                }
            }
            if !this.sleep(py) {
                return Ok(());
            }
            this.state.with(py, |s| s.crew.begin());
        }
    }

    /// The threads that were started.
    #[getter]
    fn threads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let threads: Vec<_> =
            self.state.with(py, |s| s.threads.iter().map(|thread| thread.clone_ref(py)).collect());
        fallible::list_of(py, threads.iter().map(|thread| thread.bind(py).clone().into_any()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.state
            .peek(|s| {
                s.crew.jobs().try_for_each(|job| job.visit(&visit))?;
                s.threads.iter().try_for_each(|thread| visit.call(thread))
            })
            .unwrap_or(Ok(()))
    }
}
