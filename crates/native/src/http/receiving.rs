//! `receive` of an ASGI application: the body as it arrives, then the end of the exchange.

use super::connection::{Awaited, HttpConnection};
use super::exchange::{Answer, Exchange, with_waiter};
use super::websocket;
use crate::ffi::awaitable::{self, Step, Steps};
use crate::ffi::{LoopCell, Object, call};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

enum Course {
    New,
    Waiting(Object),
    Ended,
}

/// The coroutine that `receive()` returns.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ReceiveCall {
    exchange: Object<Exchange>,
    course: LoopCell<Course>,
}

/// The next message.
enum News {
    Body { more: bool },
    Disconnect,
    Nothing,
}

impl ReceiveCall {
    pub fn make<'py>(exchange: &Bound<'py, Exchange>) -> PyResult<Bound<'py, Self>> {
        let made =
            Self { exchange: Object::new(exchange.clone()), course: LoopCell::new(Course::New) };
        Bound::new(exchange.py(), made)
    }

    fn set(&self, py: Python<'_>, course: Course) -> Course {
        self.course.with(py, |now| std::mem::replace(now, course))
    }

    fn news(&self, py: Python<'_>) -> News {
        self.exchange.get().state.with(py, |s| {
            let body = &mut s.body;
            if s.answer == Answer::Complete {
                News::Disconnect
            } else if body.is_complete && !body.is_told {
                body.is_told = true;
                News::Body { more: false }
            } else if s.is_disconnected || s.is_peer_done {
                News::Disconnect
            } else if body.pieces.is_empty() {
                News::Nothing
            } else {
                News::Body { more: true }
            }
        })
    }

    /// Returns the next message, or waits.
    fn go_on(slf: Borrowed<'_, '_, Self>) -> PyResult<Step> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        if let Some(websocket) = &exchange.get().websocket {
            return match websocket.news(exchange)? {
                websocket::News::Message(message) => Ok(Step::Returned(message.into_any().into())),
                websocket::News::Nothing => Self::wait(slf),
            };
        }
        Self::ask_for_body(exchange)?;
        let message = PyDict::new(py);
        match this.news(py) {
            News::Body { more } => {
                message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
                message.set_item(intern!(py, "body"), exchange.get().take_body(py)?)?;
                message.set_item(intern!(py, "more_body"), more)?;
                if more {
                    Self::read_on(exchange.get().connection.bind(py))?;
                }
            }
            News::Disconnect => {
                message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
            }
            News::Nothing => return Self::wait(slf),
        }
        Ok(Step::Returned(Object::new(message.into_any())))
    }

    /// Sends `100 Continue`, if the peer waits for it.
    fn ask_for_body(exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let asks = exchange
            .get()
            .state
            .with(py, |s| s.answer == Answer::Awaited && std::mem::take(&mut s.expects_continue));
        if !asks {
            return Ok(());
        }
        let connection = exchange.get().connection.bind(py);
        connection.get().wait_for(py, Awaited::Body);
        HttpConnection::write(connection, b"HTTP/1.1 100 Continue\r\n\r\n")
    }

    /// Resumes reading, after the application has taken the received data.
    pub fn read_on(connection: &Bound<'_, HttpConnection>) -> PyResult<()> {
        let py = connection.py();
        let this = connection.get();
        if this.state.with(py, |s| s.is_reading_paused) {
            this.wait_for(py, Awaited::Body);
        }
        this.resume_reading(py)
    }

    fn wait(slf: Borrowed<'_, '_, Self>) -> PyResult<Step> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let owner = exchange.connection.get().http.get().owner.bind(py);
        let waiters = exchange.state.with(py, |s| std::mem::take(&mut s.receive_waiters));
        let (waiters, steps) = with_waiter(owner, waiters)?;
        exchange.state.with(py, |s| s.receive_waiters = waiters);
        let step = call::send(steps.bind(py), py.None().bind(py))?;
        slf.get().set(py, Course::Waiting(steps));
        Ok(step)
    }

    fn stepped(slf: Borrowed<'_, '_, Self>, steps: Object, step: PyResult<Step>) -> PyResult<Step> {
        match step? {
            Step::Yielded(object) => {
                slf.get().set(slf.py(), Course::Waiting(steps));
                Ok(Step::Yielded(object))
            }
            Step::Returned(_) => Self::go_on(slf),
        }
    }
}

impl Steps for ReceiveCall {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let py = slf.py();
        match slf.get().set(py, Course::Ended) {
            Course::New => Self::go_on(slf),
            Course::Waiting(steps) => {
                let step = call::send(steps.bind(py), value);
                Self::stepped(slf, steps, step)
            }
            Course::Ended => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }
}

#[pymethods]
impl ReceiveCall {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    #[pyo3(signature = (*args))]
    fn throw(slf: &Bound<'_, Self>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let Course::Waiting(steps) = slf.get().set(py, Course::Ended) else {
            return Err(call::raised(args)?);
        };
        let step = call::throw(steps.bind(py), args);
        awaitable::shown(py, Self::stepped(slf.as_borrowed(), steps, step)?)
    }

    fn close(&self, py: Python<'_>) {
        let old = self.set(py, Course::Ended);
        drop(old);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.course
            .peek(|course| match course {
                Course::Waiting(steps) => steps.visit(&visit),
                Course::New | Course::Ended => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}
