//! `send` of an ASGI application: a coroutine that runs when it is awaited.

use super::{messages, receive};
use crate::ffi::awaitable::{self, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::method::{self, Arguments, BareMethod, FastMethod};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::{LoopCell, Object};
use crate::http::application::websocket;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::waiting::with_waiter;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CStr;

/// After this many messages of an exchange, other tasks run.
const SENT_IN_A_ROW: u8 = 16;
/// This many messages of a response are dropped when its client has left.
const MOST_DROPPED: u32 = 1000;

enum State {
    New(Object),
    /// The transport has enough for now.
    Waiting {
        message: Object,
        steps: Object,
    },
    /// A file is being sent.
    Sending(Object),
    /// The client is gone, and other tasks run once before this is raised.
    Gone(PyErr),
    /// It was sent; other tasks run once.
    Resting,
    Ended,
}

/// The coroutine that `send(message)` returns.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct SendCall {
    exchange: Object<Exchange>,
    state: LoopCell<State>,
}

impl Recycled for SendCall {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl SendCall {
    fn set(&self, py: Python<'_>, state: State) -> State {
        self.state.with(py, |now| std::mem::replace(now, state))
    }

    /// Waits until the transport takes more, if it is paused.
    fn go_on(slf: Borrowed<'_, '_, Self>, message: Object) -> PyResult<Step> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.get();
        let carrier = exchange.carrier.calls;
        if !carrier.is_paused(py, exchange) {
            let sent = match messages::send(this.exchange.bind(py), message.bind(py)) {
                Ok(sent) => sent,
                Err(error) => return Self::refused(slf, error),
            };
            let Some(future) = sent else { return Ok(Self::rest(slf)) };
            let steps = Object::new(future.call_method0(intern!(py, "__await__"))?);
            recycled::track(py, &slf.to_owned().unbind());
            let step = coroutine::send(steps.bind(py), py.None().bind(py));
            return Self::sent(slf, steps, step);
        }
        let owner = exchange.service.get().owner.bind(py);
        let mut waiters = Vec::new();
        carrier.with_waiters(py, exchange, &mut |list, _| std::mem::swap(list, &mut waiters));
        let (mut waiters, steps) = with_waiter(owner, waiters)?;
        carrier.with_waiters(py, exchange, &mut |list, _| std::mem::swap(list, &mut waiters));
        recycled::track(py, &slf.to_owned().unbind());
        let step = coroutine::send(steps.bind(py), py.None().bind(py))?;
        this.set(py, State::Waiting { message, steps });
        Ok(step)
    }

    /// A message was sent. Now and then other tasks run: an application that sends without end would otherwise keep the
    /// loop from reporting that its client is gone.
    #[inline]
    fn rest(slf: Borrowed<'_, '_, Self>) -> Step {
        let py = slf.py();
        let none = Object::from(py.None());
        let is_turn_over = slf.get().exchange.get().state.with(py, |s| {
            s.sent_in_a_row = (s.sent_in_a_row + 1) % SENT_IN_A_ROW;
            s.sent_in_a_row == 0
        });
        if !is_turn_over {
            return Step::Returned(none);
        }
        recycled::track(py, &slf.to_owned().unbind());
        slf.get().set(py, State::Resting);
        Step::Yielded(none)
    }

    /// Raises the error, unless the client has left just now: a response that listens for that (Starlette's
    /// StreamingResponse) is cancelled soon, best in the wait of its generator, whose `finally` then runs. Until then
    /// its messages are dropped, as by uvicorn. Other responses end by the error.
    #[cold]
    fn refused(slf: Borrowed<'_, '_, Self>, error: PyErr) -> PyResult<Step> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let is_gone = exchange.state.with(py, |s| s.is_disconnected);
        if websocket::of(exchange).is_some() || !is_gone || !error.is_instance_of::<PyOSError>(py) {
            return Err(error);
        }
        let tick = exchange.service.get().owner.get().tick_number(py);
        let is_dropped = exchange.state.with(py, |s| {
            s.dropped += 1;
            // Those that waited run one iteration later.
            tick <= s.gone_tick + 1 && s.dropped <= MOST_DROPPED
        });
        if is_dropped {
            return Ok(Step::Returned(Object::from(py.None())));
        }
        recycled::track(py, &slf.to_owned().unbind());
        slf.get().set(py, State::Gone(error));
        Ok(Step::Yielded(Object::from(py.None())))
    }

    /// One step while a file is being sent.
    fn sent(slf: Borrowed<'_, '_, Self>, steps: Object, step: PyResult<Step>) -> PyResult<Step> {
        match step? {
            Step::Yielded(object) => {
                slf.get().set(slf.py(), State::Sending(steps));
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
                slf.get().set(py, State::Waiting { message, steps });
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
        match slf.get().set(py, State::Ended) {
            State::New(message) => Self::go_on(slf, message),
            State::Waiting { message, steps } => {
                let step = coroutine::send(steps.bind(py), value);
                Self::stepped(slf, message, steps, step)
            }
            State::Sending(steps) => {
                let step = coroutine::send(steps.bind(py), value);
                Self::sent(slf, steps, step)
            }
            State::Gone(error) => Err(error),
            State::Resting => Ok(Step::Returned(Object::from(py.None()))),
            State::Ended => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
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
        let step = match slf.get().set(py, State::Ended) {
            State::Waiting { message, steps } => {
                let step = coroutine::throw(steps.bind(py), args);
                Self::stepped(slf.as_borrowed(), message, steps, step)
            }
            State::Sending(steps) => {
                let step = coroutine::throw(steps.bind(py), args);
                Self::sent(slf.as_borrowed(), steps, step)
            }
            State::New(_) | State::Gone(_) | State::Resting | State::Ended => {
                return Err(coroutine::raised(args)?);
            }
        };
        awaitable::shown(py, step?)
    }

    fn close(&self, py: Python<'_>) {
        let old = self.set(py, State::Ended);
        drop(old);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.state
            .peek(|state| match state {
                State::New(message) => message.visit(&visit),
                State::Waiting { message, steps } => {
                    message.visit(&visit)?;
                    steps.visit(&visit)
                }
                State::Sending(steps) => steps.visit(&visit),
                State::Gone(_) | State::Resting | State::Ended => Ok(()),
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
            state: LoopCell::new(State::New(Object::new(message.to_owned()))),
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
        Ok(receive::ReceiveCall::make(&slf.to_owned())?.into_any())
    }
}

/// Adds the methods that run for each message.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Send>(py)?;
    method::add_bare::<Receive>(py)
}
