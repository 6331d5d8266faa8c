//! `send` of an ASGI application: a coroutine that runs when it is awaited.

use super::exchange::{Exchange, with_waiter};
use crate::ffi::awaitable::{self, Step, Steps};
use crate::ffi::method::{self, Arguments, BareMethod, FastMethod};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::{LoopCell, Object, call};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CStr;

enum Course {
    New(Object),
    /// The transport has enough for now.
    Waiting {
        message: Object,
        steps: Object,
    },
    /// A file is being sent.
    Sending(Object),
    Ended,
}

/// The coroutine that `send(message)` returns.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct SendCall {
    exchange: Object<Exchange>,
    course: LoopCell<Course>,
}

impl Recycled for SendCall {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl SendCall {
    fn set(&self, py: Python<'_>, course: Course) -> Course {
        self.course.with(py, |now| std::mem::replace(now, course))
    }

    /// Waits until the transport takes more, if it is paused.
    fn go_on(slf: Borrowed<'_, '_, Self>, message: Object) -> PyResult<Step> {
        let py = slf.py();
        let this = slf.get();
        let connection = this.exchange.get().connection.get();
        let waits = connection.state.with(py, |s| s.is_writing_paused && !s.is_lost);
        if !waits {
            let sent = Exchange::send_message(this.exchange.bind(py), message.bind(py))?;
            let Some(future) = sent else { return Ok(Step::Returned(Object::from(py.None()))) };
            let steps = Object::new(future.call_method0(intern!(py, "__await__"))?);
            recycled::track(py, &slf.to_owned().unbind());
            let step = call::send(steps.bind(py), py.None().bind(py));
            return Self::sent(slf, steps, step);
        }
        let owner = connection.http.get().owner.bind(py);
        let waiters = connection.state.with(py, |s| std::mem::take(&mut s.drain_waiters));
        let (waiters, steps) = with_waiter(owner, waiters)?;
        connection.state.with(py, |s| s.drain_waiters = waiters);
        recycled::track(py, &slf.to_owned().unbind());
        let step = call::send(steps.bind(py), py.None().bind(py))?;
        this.set(py, Course::Waiting { message, steps });
        Ok(step)
    }

    /// One step while a file is being sent.
    fn sent(slf: Borrowed<'_, '_, Self>, steps: Object, step: PyResult<Step>) -> PyResult<Step> {
        match step? {
            Step::Yielded(object) => {
                slf.get().set(slf.py(), Course::Sending(steps));
                Ok(Step::Yielded(object))
            }
            done @ Step::Returned(_) => Ok(done),
        }
    }

    /// One step of the wait, or an exception thrown into it.
    fn stepped(
        slf: Borrowed<'_, '_, Self>,
        message: Object,
        steps: Object,
        step: PyResult<Step>,
    ) -> PyResult<Step> {
        let py = slf.py();
        match step? {
            Step::Yielded(object) => {
                slf.get().set(py, Course::Waiting { message, steps });
                Ok(Step::Yielded(object))
            }
            Step::Returned(_) => Self::go_on(slf, message),
        }
    }
}

impl Steps for SendCall {
    #[inline]
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let py = slf.py();
        match slf.get().set(py, Course::Ended) {
            Course::New(message) => Self::go_on(slf, message),
            Course::Waiting { message, steps } => {
                let step = call::send(steps.bind(py), value);
                Self::stepped(slf, message, steps, step)
            }
            Course::Sending(steps) => {
                let step = call::send(steps.bind(py), value);
                Self::sent(slf, steps, step)
            }
            Course::Ended => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }
}

#[pymethods]
impl SendCall {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    #[pyo3(signature = (*args))]
    fn throw(slf: &Bound<'_, Self>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let step = match slf.get().set(py, Course::Ended) {
            Course::Waiting { message, steps } => {
                let step = call::throw(steps.bind(py), args);
                Self::stepped(slf.as_borrowed(), message, steps, step)
            }
            Course::Sending(steps) => {
                let step = call::throw(steps.bind(py), args);
                Self::sent(slf.as_borrowed(), steps, step)
            }
            Course::New(_) | Course::Ended => return Err(call::raised(args)?),
        };
        awaitable::shown(py, step?)
    }

    fn close(&self, py: Python<'_>) {
        let old = self.set(py, Course::Ended);
        drop(old);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.course
            .peek(|course| match course {
                Course::New(message) => message.visit(&visit),
                Course::Waiting { message, steps } => {
                    message.visit(&visit)?;
                    steps.visit(&visit)
                }
                Course::Sending(steps) => steps.visit(&visit),
                Course::Ended => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}

struct Send;

impl FastMethod for Send {
    type Class = Exchange;
    const NAME: &'static CStr = c"send";
    const DOC: &'static CStr = c"send($self, message, /)\n--\n\nASGI's send: a coroutine that sends a message of the application.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, Exchange>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let message = arguments.one("send", intern!(py, "message"))?;
        let made = SendCall {
            exchange: Object::new(slf.to_owned()),
            course: LoopCell::new(Course::New(Object::new(message.to_owned()))),
        };
        Ok(recycled::make(py, made)?.into_any())
    }
}

struct Receive;

impl BareMethod for Receive {
    type Class = Exchange;
    const NAME: &'static CStr = c"receive";
    const DOC: &'static CStr =
        c"receive($self, /)\n--\n\nASGI's receive: a coroutine that returns the next message.";

    fn call<'py>(slf: Borrowed<'_, 'py, Exchange>) -> PyResult<Bound<'py, PyAny>> {
        Ok(super::receiving::ReceiveCall::make(&slf.to_owned())?.into_any())
    }
}

/// Adds the methods that run for each message.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Send>(py)?;
    method::add_bare::<Receive>(py)
}
