//! `ExchangeWait`: the coroutine that waits for a part of an exchange.

use super::exchange::{Caller, ClientExchange, Stage};
use super::failure::{self, Kind};
use super::wake::{Place, Until, Wake};
use crate::ffi::awaitable::{self, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::fallible;
use crate::ffi::{LoopCell, Object};
use crate::green::{HubCore, Waiter};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

enum Progress {
    New,
    /// The future's own steps, `None` if the caller was given something else to wait for; and the number of the place.
    Waiting(Option<Object>, u64),
    Ended,
}

/// The coroutine. For a green thread it yields the Waiter to wait for; for plain code None, and the caller runs the loop
/// until it stops.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ExchangeWait {
    exchange: Object<ClientExchange>,
    until: Until,
    progress: LoopCell<Progress>,
}

impl ExchangeWait {
    pub fn new(exchange: &Bound<'_, ClientExchange>, until: Until) -> Self {
        Self {
            exchange: Object::new(exchange.clone()),
            until,
            progress: LoopCell::new(Progress::New),
        }
    }

    fn set(&self, py: Python<'_>, progress: Progress) -> Progress {
        self.progress.with(py, |now| std::mem::replace(now, progress))
    }

    fn result<'py>(&self, exchange: &Bound<'py, ClientExchange>) -> PyResult<Bound<'py, PyAny>> {
        let py = exchange.py();
        let this = exchange.get();
        let (is_tunnel, has_pieces, has_response) =
            this.state.with(py, |s| (s.is_tunnel, !s.pieces.is_empty(), s.response.is_some()));
        match self.until {
            // A head that has arrived is there, whatever came behind it.
            Until::Head if has_response => return Ok(py.None().into_bound(py)),
            // Nobody asks for the tunnel.
            Until::Whole if is_tunnel => {
                ClientExchange::give_up(exchange)?;
                drop(this.take_pieces(py)?);
                return Ok(py.None().into_bound(py));
            }
            Until::Piece if is_tunnel => return Ok(fallible::bytes(py, b"")?.into_any()),
            _ => {}
        }
        // What has arrived before an error can still be taken.
        if matches!(self.until, Until::Piece | Until::Received) && has_pieces {
            read_on(exchange)?;
            return Ok(this.take_pieces(py)?.into_any());
        }
        // A sender is not told: the one who waits for the response is.
        if !self.until.is_of_sender()
            && let Some(error) = this.raised(py)?
        {
            return Err(error);
        }
        // Somebody has closed the response. What has arrived of it must not look like all of it.
        let is_cut =
            this.state.with(py, |s| s.stage == Stage::Ended && !s.is_complete && !is_tunnel);
        if is_cut && matches!(self.until, Until::Head | Until::Whole | Until::Piece) {
            let text = "the response was closed before all of it had been read";
            return Err(failure::error(py, Kind::ReadError, text));
        }
        match self.until {
            // Before Python 3.14, `await` raises an exception inside for every other result of a native coroutine.
            Until::Head | Until::Whole | Until::End => Ok(py.None().into_bound(py)),
            Until::Piece | Until::Received => Ok(this.take_pieces(py)?.into_any()),
            Until::Drained => {
                let goes_on = this.state.with(py, |s| s.stage == Stage::Sent);
                Ok(pyo3::types::PyBool::new(py, goes_on).to_owned().into_any())
            }
            Until::Room | Until::Welcome => {
                let goes_on = this
                    .state
                    .with(py, |s| s.stage == Stage::Sent && (s.response.is_none() || s.is_tunnel));
                Ok(pyo3::types::PyBool::new(py, goes_on).to_owned().into_any())
            }
        }
    }

    /// Only one may wait for what arrives.
    fn take_place(exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = exchange.py();
        let before = exchange.get().state.with(py, |s| s.reader.take());
        let is_taken = match &before {
            // Whoever was woken, or has gone, has left it.
            Some(Place { wake: Wake::Future(future), .. }) => {
                !future.bind(py).call_method0(intern!(py, "done"))?.is_truthy()?
            }
            Some(Place { wake: Wake::Green(_), .. }) => true,
            Some(Place { wake: Wake::Stop, .. }) | None => false,
        };
        if is_taken {
            exchange.get().state.with(py, |s| s.reader = before);
            let text = "another coroutine or green thread is already waiting for this response";
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(())
    }

    /// An exception has ended the wait. Of a response nobody wants the rest then; a tunnel goes on.
    fn leave(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        let exchange = self.exchange.bind(py);
        let is_tunnel = exchange.get().state.with(py, |s| s.is_tunnel);
        // Its place tells that somebody has waited.
        let given_up = if is_tunnel { Ok(()) } else { ClientExchange::give_up(exchange) };
        self.vacate(py, number);
        // Others may wait for the same exchange.
        given_up.and(exchange.get().wake_waiters(py))
    }

    /// Leaves the place, if it is still there: whoever is woken has left it.
    fn vacate(&self, py: Python<'_>, number: u64) {
        let left = self.exchange.bind(py).get().state.with(py, |s| {
            let reader = s.reader.take_if(|place| place.number == number);
            let index = s.senders.iter().position(|place| place.number == number);
            (reader, index.map(|index| s.senders.remove(index)))
        });
        drop(left);
    }

    fn go_on(slf: Borrowed<'_, '_, Self>) -> PyResult<Step> {
        let py = slf.py();
        let exchange = slf.get().exchange.bind(py);
        let until = slf.get().until;
        if exchange.get().state.with(py, |s| s.is_over(py, until)) {
            return slf.get().result(exchange).map(|result| Step::Returned(Object::new(result)));
        }
        if !until.is_of_sender() {
            // It may have been paused while nobody wanted the body.
            read_on(exchange)?;
        }
        Self::wait(slf, exchange)
    }

    fn wait(slf: Borrowed<'_, '_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<Step> {
        let py = slf.py();
        let this = slf.get();
        let owner = exchange.get().owner.bind(py);
        let (wake, steps, yielded) = match exchange.get().caller {
            Caller::Coroutine => {
                let future = owner.call_method0(intern!(py, "create_future"))?;
                let steps = Object::new(future.call_method0(intern!(py, "__await__"))?);
                (Wake::Future(Object::new(future)), Some(steps), None)
            }
            Caller::GreenThread => {
                let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
                (Wake::Green(Object::new(waiter.clone())), None, Some(waiter.into_any()))
            }
            Caller::Plain => (Wake::Stop, None, Some(py.None().into_bound(py))),
        };
        let until = this.until;
        if !until.is_of_sender() {
            Self::take_place(exchange)?;
        }
        let mut place = Some(wake);
        let (number, before) = exchange.get().state.with(py, |s| {
            // The collector, or another thread, may have run the loop since this was asked.
            let Some(wake) = place.take_if(|_| !s.is_over(py, until)) else { return (0, None) };
            s.places += 1;
            let place = Place { number: s.places, until, wake };
            if until.is_of_sender() {
                s.senders.push(place);
                return (s.places, None);
            }
            (s.places, s.reader.replace(place))
        });
        drop(before);
        if place.is_some() {
            return slf.get().result(exchange).map(|result| Step::Returned(Object::new(result)));
        }
        match (steps, yielded) {
            (Some(steps), _) => {
                let step = coroutine::send(steps.bind(py), py.None().bind(py))?;
                this.set(py, Progress::Waiting(Some(steps), number));
                Ok(step)
            }
            (None, yielded) => {
                this.set(py, Progress::Waiting(None, number));
                Ok(Step::Yielded(Object::new(yielded.unwrap_or_else(|| py.None().into_bound(py)))))
            }
        }
    }
}

/// The program waits for more of the response: its connection reads on.
fn read_on(exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
    let py = exchange.py();
    match exchange.get().connection(py) {
        Some(link) => link.calls.read_on(link.object.bind(py), exchange),
        None => Ok(()),
    }
}

impl Steps for ExchangeWait {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let py = slf.py();
        match slf.get().set(py, Progress::Ended) {
            Progress::New => Self::go_on(slf),
            Progress::Waiting(None, number) => {
                // Plain code looks whenever its loop has been run.
                slf.get().vacate(py, number);
                Self::go_on(slf)
            }
            Progress::Waiting(Some(steps), number) => match coroutine::send(steps.bind(py), value)?
            {
                Step::Yielded(object) => {
                    slf.get().set(py, Progress::Waiting(Some(steps), number));
                    Ok(Step::Yielded(object))
                }
                Step::Returned(_) => Self::go_on(slf),
            },
            Progress::Ended => {
                Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
            }
        }
    }
}

#[pymethods]
impl ExchangeWait {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    /// An exception that ends the wait, such as CancelledError, ends the exchange, unless it is a tunnel.
    #[pyo3(signature = (*args))]
    fn throw(slf: &Bound<'_, Self>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let progress = slf.get().set(py, Progress::Ended);
        let (thrown, number) = match progress {
            Progress::Waiting(Some(steps), number) => {
                match coroutine::throw(steps.bind(py), args) {
                    Ok(Step::Yielded(object)) => {
                        slf.get().set(py, Progress::Waiting(Some(steps), number));
                        return awaitable::shown(py, Step::Yielded(object));
                    }
                    Ok(Step::Returned(_)) => {
                        return awaitable::shown(py, Self::go_on(slf.as_borrowed())?);
                    }
                    Err(error) => (error, number),
                }
            }
            Progress::Waiting(None, number) => (coroutine::raised(args)?, number),
            Progress::New | Progress::Ended => (coroutine::raised(args)?, 0),
        };
        // What ended the wait is what the caller is told, also if the loop is closed and the connection with it.
        if let Err(error) = slf.get().leave(py, number) {
            thrown.value(py).setattr(intern!(py, "__context__"), error.value(py))?;
        }
        Err(thrown)
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().set(py, Progress::Ended) {
            Progress::Waiting(_, number) => slf.get().leave(py, number),
            Progress::New | Progress::Ended => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.progress
            .peek(|progress| match progress {
                Progress::Waiting(Some(steps), _) => steps.visit(&visit),
                _ => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}
