//! `Workers`: the threads that run WSGI applications.
//!
//! A thread is started or woken when a request finds no thread that is about to look for work. A working thread holds
//! the GIL, so the loop runs again only when that thread waits or its time slice is over. If requests still wait
//! then, one more thread is woken. So one thread serves a burst of quick requests, and no request waits behind a view
//! that blocks.

use super::wsgi::WsgiCall;
use crate::event_loop::LoopCore;
use crate::ffi::detach::detached;
use crate::ffi::{LoopCell, Object, context};
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Default)]
struct State {
    jobs: VecDeque<Object<WsgiCall>>,
    /// Threads that sleep, or were woken and do not run yet.
    idle: usize,
    /// Threads that were woken or started, and have not looked for work yet.
    waking: usize,
    threads: Vec<Py<PyAny>>,
    /// The loop will check whether jobs are left waiting.
    is_watched: bool,
}

/// Where idle threads sleep. Usable from any thread, also without the GIL.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    opened: Condvar,
}

#[derive(Default)]
struct GateState {
    permits: usize,
    is_closed: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_one_in(&self) {
        self.lock().permits += 1;
        self.opened.notify_one();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.opened.notify_all();
    }

    /// Waits for a permit. Returns false if there will be none.
    fn pass(&self) -> bool {
        let mut state = self.lock();
        while state.permits == 0 && !state.is_closed {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let has_permit = state.permits > 0;
        state.permits -= usize::from(has_permit);
        has_permit
    }
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
    most: usize,
    state: LoopCell<State>,
    gate: Arc<Gate>,
}

impl Workers {
    pub fn new(owner: &Bound<'_, LoopCore>, most: usize) -> Self {
        Self {
            owner: owner.clone().unbind(),
            most,
            state: LoopCell::default(),
            gate: Arc::default(),
        }
    }

    /// From the loop's thread.
    pub fn submit(slf: &Bound<'_, Self>, call: Object<WsgiCall>) -> PyResult<()> {
        let py = slf.py();
        let is_quiet = slf.get().state.with(py, |s| {
            s.jobs.push_back(call);
            s.waking == 0 && s.idle == s.threads.len()
        });
        if is_quiet {
            return Self::add_one(slf);
        }
        Self::watch(slf);
        Ok(())
    }

    /// Starts or wakes one more thread, if possible.
    fn add_one(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (wakes, starts) = this.state.with(py, |s| {
            let wakes = s.idle > 0;
            let starts = !wakes && s.threads.len() < this.most;
            if wakes {
                s.idle -= 1;
            }
            if wakes || starts {
                s.waking += 1;
            }
            (wakes, starts)
        });
        if wakes {
            this.gate.let_one_in();
        }
        if starts { Self::start_thread(slf) } else { Ok(()) }
    }

    fn start_thread(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let threading = py.import(intern!(py, "threading"))?;
        let number = this.state.with(py, |s| s.threads.len());
        if number == 0 {
            let closer = Py::new(py, Closer(Arc::downgrade(&this.gate)))?;
            threading.call_method1("_register_atexit", (closer,))?;
        }
        let given = PyDict::new(py);
        given.set_item("target", slf.getattr(intern!(py, "_work"))?)?;
        given.set_item("name", format!("oneloop-wsgi_{number}"))?;
        let thread = threading.getattr(intern!(py, "Thread"))?.call((), Some(&given))?;
        let kept = thread.clone().unbind();
        this.state.with(py, |s| s.threads.push(kept));
        let started = thread.call_method0(intern!(py, "start"));
        if started.is_err() {
            let unstarted = this.state.with(py, |s| {
                s.waking -= 1;
                s.threads.pop()
            });
            drop(unstarted);
        }
        // With other threads the work continues, if more slowly.
        if number > 0 { Ok(()) } else { started.map(drop) }
    }

    /// Makes the loop check, in its next tick, whether a thread works on the waiting jobs.
    fn watch(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let this = slf.get();
        let is_new = this.state.with(py, |s| {
            let may_help = s.idle > 0 || s.threads.len() < this.most;
            may_help && s.waking == 0 && !std::mem::replace(&mut s.is_watched, true)
        });
        if is_new {
            this.owner.get().run_soon(py, slf.clone().into_any().unbind(), look);
        }
    }

    /// The next request; `None` if there is none now.
    fn take(slf: &Bound<'_, Self>) -> Option<Object<WsgiCall>> {
        let py = slf.py();
        let (job, has_more) = slf.get().state.with(py, |s| {
            let job = s.jobs.pop_front();
            if job.is_none() {
                s.idle += 1;
            }
            (job, !s.jobs.is_empty())
        });
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
    let is_left = slf.get().state.with(slf.py(), |s| {
        s.is_watched = false;
        !s.jobs.is_empty() && s.waking == 0
    });
    if is_left { Workers::add_one(slf) } else { Ok(()) }
}

#[pymethods]
impl Workers {
    /// The main function of a thread.
    fn _work(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| s.waking -= 1);
        loop {
            while let Some(job) = Self::take(slf) {
                // A separate context: what one request sets is not visible to others.
                let own = imports::context(py)?.call0()?;
                let worked = context::run(&own, || WsgiCall::work(job.bind(py)));
                drop(job);
                if let Err(error) = worked {
                    error.write_unraisable(py, None);
                }
            }
            if !this.sleep(py) {
                return Ok(());
            }
            this.state.with(py, |s| s.waking -= 1);
        }
    }

    /// The threads that were started.
    #[getter]
    fn threads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let threads: Vec<_> =
            self.state.with(py, |s| s.threads.iter().map(|thread| thread.clone_ref(py)).collect());
        PyList::new(py, threads)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.state
            .peek(|s| {
                s.jobs.iter().try_for_each(|job| job.visit(&visit))?;
                s.threads.iter().try_for_each(|thread| visit.call(thread))
            })
            .unwrap_or(Ok(()))
    }
}
