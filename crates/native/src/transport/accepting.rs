//! `Accepting`: the connections that were accepted together, until they have begun.
//!
//! asyncio accepts each connection in a task. That has two effects that programs depend on. `connection_made` is called
//! two ticks after the accept: a connection that this process made to itself has begun on both sides before the server
//! speaks. And a program that cancels all tasks ends also the connections whose protocols have scheduled work that has
//! not begun. Here there is one task for all of them, which exists only to be cancelled:
//!
//! | tick | what happens                                                                                        |
//! |------|-----------------------------------------------------------------------------------------------------|
//! | 0    | accept, the protocols and transports are made                                                       |
//! | 2    | `connection_made`, reading begins                                                                   |
//! | 3    | the tasks that `connection_made` created begin; from here on they handle their cancellation. Then this one ends |

use super::ending::{self, Ending};
use super::life;
use super::stream::StreamTransport;
use crate::event_loop::LoopCore;
use crate::ffi::awaitable::{self, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::fallible;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use crate::imports;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;

/// The ticks from the creation of the task to its end.
const TICKS: u32 = 3;

#[derive(Default)]
struct State {
    ticks: u32,
    /// `connection_made` has not been called.
    unstarted: VecDeque<Py<StreamTransport>>,
    connections: Vec<Py<StreamTransport>>,
}

/// A coroutine that ends after `TICKS`. If it is cancelled before, it closes the connections.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Accepting(LoopCell<State>);

impl Accepting {
    /// Starts the connections in the tick after the next. Creates the task, in the context of the listener.
    pub fn begin(
        owner: &Bound<'_, LoopCore>,
        connections: Vec<Py<StreamTransport>>,
        context: &Py<PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let unstarted = connections.iter().map(|transport| transport.clone_ref(py)).collect();
        let state = State { ticks: 0, unstarted, connections };
        let coroutine = Bound::new(py, Self(LoopCell::new(state)))?;
        owner.get().run_soon(py, coroutine.clone().into_any().unbind(), start_soon);
        let keywords = fallible::dict(py)?;
        keywords.set_item(intern!(py, "loop"), owner)?;
        keywords.set_item(intern!(py, "context"), context)?;
        imports::task(py)?.call((coroutine,), Some(&keywords)).map(drop)
    }

    fn take(&self, py: Python<'_>) -> Vec<Py<StreamTransport>> {
        self.0.with(py, |s| std::mem::take(&mut s.connections))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a native completion")]
fn start_soon(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    owner.get().run_soon(owner.py(), object.clone().unbind(), start);
    Ok(())
}

/// Calls `connection_made` of each connection. If an exception leaves the loop, the rest follows when it runs again.
fn start(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let this = object.cast::<Accepting>()?.get();
    while let Some(transport) = this.0.with(py, |s| s.unstarted.pop_front()) {
        let started = StreamTransport::start(owner, transport.bind(py));
        if started.is_err() {
            owner.get().run_soon(py, object.clone().unbind(), start);
            return started;
        }
    }
    Ok(())
}

impl Steps for Accepting {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, _value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let py = slf.py();
        let none = Object::from(py.None());
        let ticks = slf.get().0.with(py, |s| {
            s.ticks += 1;
            s.ticks
        });
        if ticks < TICKS {
            return Ok(Step::Yielded(none));
        }
        drop(slf.get().take(py));
        Ok(Step::Returned(none))
    }
}

#[pymethods]
impl Accepting {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    /// Closes the connections. As in asyncio, the task then ends without an exception.
    #[pyo3(signature = (*args))]
    fn throw(&self, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = args.py();
        let error = coroutine::raised(args)?;
        if self.0.with(py, |s| s.ticks == 0) {
            // As in asyncio, whose task would not have called the factory yet: the protocols hear nothing.
            drop(self.0.take(py));
        }
        for transport in self.take(py) {
            let transport = transport.bind(py);
            let owner = transport.get().body().owner.bind(py);
            ending::close(transport)?;
            if owner.get().is_debug() {
                let text = "Error on transport creation for incoming connection";
                let protocol = transport.get().protocol(py);
                let error = error.clone_ref(py);
                transport.get().body().context.run(py, || {
                    life::report_failure(owner, transport, protocol.as_ref(), text, error)
                })?;
            }
        }
        let leaves_the_loop = error.is_instance_of::<PyKeyboardInterrupt>(py)
            || error.is_instance_of::<PySystemExit>(py);
        if leaves_the_loop {
            return Err(error);
        }
        awaitable::shown(py, Step::Returned(Object::from(py.None())))
    }

    fn close(&self, py: Python<'_>) {
        drop(self.take(py));
    }

    // A task's repr shows it.
    #[getter]
    fn __name__(&self) -> Value<&'static str> {
        Value("accept_connections")
    }

    #[getter]
    fn __qualname__(&self) -> Value<&'static str> {
        Value("accept_connections")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visit_all = |s: &State| {
            s.unstarted.iter().chain(&s.connections).try_for_each(|transport| visit.call(transport))
        };
        self.0.peek(visit_all).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }
}
