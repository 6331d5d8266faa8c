//! `receive` of an ASGI application: the body as it arrives, then the end of the exchange.

use crate::ffi::awaitable::{self, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::fallible;
use crate::ffi::{LoopCell, Object};
use crate::http::application::websocket::{self, News as WebSocketNews};
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::response_state::Response;
use crate::http::exchange::waiting::with_waiter;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

enum State {
    New,
    Waiting(Object),
    Ended,
}

/// The coroutine that `receive()` returns.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ReceiveCall {
    exchange: Object<Exchange>,
    state: LoopCell<State>,
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
            Self { exchange: Object::new(exchange.clone()), state: LoopCell::new(State::New) };
        Bound::new(exchange.py(), made)
    }

    fn set(&self, py: Python<'_>, state: State) -> State {
        self.state.with(py, |now| std::mem::replace(now, state))
    }

    fn news(&self, py: Python<'_>) -> News {
        self.exchange.get().state.with(py, |s| {
            let body = &mut s.body;
            if s.response == Response::Complete {
                News::Disconnect
            } else if body.is_complete && !body.is_told {
                body.is_told = true;
                News::Body { more: false }
            } else if s.is_disconnected || s.is_peer_done {
                s.is_end_told = true;
                News::Disconnect
            } else if body.is_empty() {
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
        if let Some(websocket) = websocket::of(exchange.get()) {
            return match websocket.news(exchange)? {
                WebSocketNews::Message(message) => Ok(Step::Returned(message.into_any().into())),
                WebSocketNews::Nothing => Self::wait(slf),
            };
        }
        Exchange::ask_for_body(exchange)?;
        let message = fallible::dict(py)?;
        match this.news(py) {
            News::Body { more } => {
                message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
                message.set_item(intern!(py, "body"), exchange.get().take_body(py)?)?;
                message.set_item(intern!(py, "more_body"), more)?;
                if more {
                    exchange.get().carrier.calls.read_on(exchange)?;
                }
            }
            News::Disconnect => {
                message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
            }
            News::Nothing => return Self::wait(slf),
        }
        Ok(Step::Returned(Object::new(message.into_any())))
    }

    fn wait(slf: Borrowed<'_, '_, Self>) -> PyResult<Step> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let owner = exchange.service.get().owner.bind(py);
        let waiters = exchange.state.with(py, |s| std::mem::take(&mut s.receive_waiters));
        let (waiters, steps) = with_waiter(owner, waiters)?;
        exchange.state.with(py, |s| s.receive_waiters = waiters);
        let step = coroutine::send(steps.bind(py), py.None().bind(py))?;
        slf.get().set(py, State::Waiting(steps));
        if exchange.tunnel.is_none() {
            exchange.carrier.calls.watch_for_end(slf.get().exchange.bind(py))?;
        }
        Ok(step)
    }

    fn stepped(slf: Borrowed<'_, '_, Self>, steps: Object, step: PyResult<Step>) -> PyResult<Step> {
        match step? {
            Step::Yielded(object) => {
                slf.get().set(slf.py(), State::Waiting(steps));
                Ok(Step::Yielded(object))
            }
            Step::Returned(_) => Self::go_on(slf),
        }
    }
}

impl Steps for ReceiveCall {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let py = slf.py();
        match slf.get().set(py, State::Ended) {
            State::New => Self::go_on(slf),
            State::Waiting(steps) => {
                let step = coroutine::send(steps.bind(py), value);
                Self::stepped(slf, steps, step)
            }
            State::Ended => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
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
        let State::Waiting(steps) = slf.get().set(py, State::Ended) else {
            return Err(coroutine::raised(args)?);
        };
        let step = coroutine::throw(steps.bind(py), args);
        awaitable::shown(py, Self::stepped(slf.as_borrowed(), steps, step)?)
    }

    fn close(&self, py: Python<'_>) {
        let old = self.set(py, State::Ended);
        drop(old);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.state
            .peek(|state| match state {
                State::Waiting(steps) => steps.visit(&visit),
                State::New | State::Ended => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}
