//! What the program calls of a `ClientExchange`: its waits, what it sends, and what it reads of the response.

use super::exchange::{Carrier, ClientExchange, Stage};
use super::failure::{self, Kind};
use super::waiting::ExchangeWait;
use super::wake::Until;
use crate::ffi::Link;
use crate::ffi::values::Value;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

impl ClientExchange {
    /// Sends it, or queues it, the first time.
    fn begin(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().state.with(py, |s| s.stage == Stage::New) {
            let origin = &slf.get().origin;
            origin.calls.begin(origin.object.bind(py), slf)?;
        }
        Ok(())
    }

    fn wait(slf: &Bound<'_, Self>, until: Until) -> PyResult<Py<ExchangeWait>> {
        Self::begin(slf)?;
        Py::new(slf.py(), ExchangeWait::new(slf, until))
    }
}

fn object(py: Python<'_>, link: &Link<dyn Carrier>) -> Py<PyAny> {
    link.object.bind(py).clone().unbind()
}

#[pymethods]
impl ClientExchange {
    /// Wait for the whole response, whose body `take` returns.
    fn whole(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Whole)
    }

    /// Wait for the head of the response.
    fn answered(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Head)
    }

    /// Wait for the next bytes of the body. Returns b"" at its end.
    fn piece(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Piece)
    }

    /// Wait for the next bytes of a tunnel. Returns b"" at its end.
    fn received(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Received)
    }

    /// Wait until more of the request's body can be sent. Returns False if the rest is not wanted, because the response
    /// has come already.
    fn room(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Room)
    }

    /// The same, but a response that has come does not end the sending. Returns False if the exchange has ended.
    fn drained(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Drained)
    }

    /// Wait until the exchange has ended. Any number may do so, while another one waits for what arrives.
    fn ended(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::End)
    }

    /// Wait for `100 Continue`. Returns False if the final response has come instead.
    fn welcome(slf: &Bound<'_, Self>) -> PyResult<Py<ExchangeWait>> {
        Self::wait(slf, Until::Welcome)
    }

    /// Send bytes of the request's body, or of a tunnel. After a response that has come early they are dropped.
    fn send(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        Self::begin(slf)?;
        match slf.get().connection(py) {
            Some(link) => link.calls.send_part(link.object.bind(py), slf.get(), data),
            None => Ok(()),
        }
    }

    /// The request's body is complete.
    fn sent(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        Self::begin(slf)?;
        slf.get().state.with(py, |s| s.is_sent = true);
        match slf.get().connection(py) {
            Some(link) => link.calls.end_body(link.object.bind(py), slf.get()),
            None => Ok(()),
        }
    }

    /// Stop waiting for `100 Continue`.
    fn stop_waiting(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |s| s.is_welcome = true);
        self.wake_waiters(py)
    }

    /// End the exchange. If the response is not complete, its connection is closed, and who waits for more of it gets a
    /// ReadError. Returns whether a loop may have to run until its connection is closed.
    fn close(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let given_up = Self::give_up(slf);
        given_up.and(slf.get().wake_waiters(slf.py()))?;
        Ok(!slf.get().is_done(slf.py()))
    }

    /// End a tunnel: the connection is closed when what was written has been sent.
    fn finish(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let connection = slf.get().state.with(py, |s| {
            s.stage = Stage::Ended;
            s.connection.take()
        });
        let finished = match connection {
            Some(link) => link.calls.finish(link.object.bind(py)),
            None => Ok(()),
        };
        finished.and(slf.get().wake_waiters(py))
    }

    /// Called by a timer while it is queued.
    fn _expire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (is_queued, timer) =
            this.state.with(py, |s| (s.stage == Stage::Queued, s.timer.take()));
        drop(timer);
        if !is_queued {
            return Ok(());
        }
        let now_ns = this.owner.get().now_ns(py);
        let error = if this.deadline_ns <= now_ns {
            failure::error(py, Kind::TotalTimeout, "the request took longer than its total timeout")
        } else {
            failure::error(py, Kind::PoolTimeout, "no connection became free in time")
        };
        let forgotten = this.origin.calls.forget(this.origin.object.bind(py), slf);
        this.fail(py, error).and(forgotten)
    }

    #[getter]
    fn wishes<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.wishes.bind(py).clone()
    }

    #[getter]
    fn status(&self, py: Python<'_>) -> Value<Option<u16>> {
        Value(self.state.with(py, |s| s.response.as_ref().map(|response| response.status)))
    }

    /// The number of its stream on HTTP/2; 0 on HTTP/1.1.
    #[getter]
    fn stream_id(&self, py: Python<'_>) -> Value<i32> {
        Value(self.state.with(py, |s| s.stream))
    }

    /// Whether the response has cookies (1), a content coding (2).
    #[getter]
    fn has(&self, py: Python<'_>) -> Value<u8> {
        Value(self.state.with(py, |s| s.response.as_ref().map_or(0, |response| response.has)))
    }

    /// The head of the response as it was received.
    #[getter]
    fn response_head(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.state.with(py, |s| s.response.as_ref().map(|a| a.head.bind(py).clone().unbind()))
    }

    /// Seconds from the sending of the request to the end of the response, or until now.
    #[getter]
    fn elapsed_s(&self, py: Python<'_>) -> Value<f64> {
        let (began_ns, ended_ns) = self.state.with(py, |s| (s.began_ns, s.ended_ns));
        let end_ns = match ended_ns {
            0 => self.owner.get().now_ns(py),
            ended_ns => ended_ns,
        };
        Value(end_ns.saturating_sub(began_ns) as f64 / 1e9)
    }

    /// When the request was passed to its connection, on the loop's clock; None: it still waits for one.
    #[getter]
    fn sent_s(&self, py: Python<'_>) -> Value<Option<f64>> {
        let sent_ns = self.state.with(py, |s| s.sent_ns);
        Value((sent_ns != 0).then(|| sent_ns as f64 / 1e9))
    }

    /// Seconds from the sending of the request to the head of the response; None: it has not arrived.
    #[getter]
    fn first_byte_s(&self, py: Python<'_>) -> Value<Option<f64>> {
        let (sent_ns, response_ns) = self.state.with(py, |s| (s.sent_ns, s.response_ns));
        Value((response_ns != 0).then(|| response_ns.saturating_sub(sent_ns) as f64 / 1e9))
    }

    /// The last connection, also when it belongs to another exchange by now.
    #[getter]
    fn carrier(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.with(py, |s| s.carrier.as_ref().map(|link| object(py, link)))
    }

    /// The whole response has arrived, and the loop need not run for it any more.
    #[getter]
    fn is_done(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_complete && !s.is_ending)
    }

    /// Whether there is something to be `received` at once.
    #[getter]
    fn has_received(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_over(py, Until::Received))
    }

    /// Whether the transport takes more now; see `drained`.
    #[getter]
    fn takes_more(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.takes_more(py))
    }

    #[getter]
    fn is_tunnel(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_tunnel)
    }

    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.with(py, |s| s.error.as_ref().map(|error| error.bind(py).clone().unbind()))
    }

    /// The transport of the connection, while that is open. Others may use it after the end of the exchange.
    #[getter]
    fn transport(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let carrier = self.state.with(py, |s| s.carrier.as_ref().map(|link| link.clone_ref(py)));
        carrier.and_then(|link| link.calls.transport(link.object.bind(py)))
    }

    /// The protocol of the transport, while the exchange has a connection.
    #[getter]
    fn protocol(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.with(py, |s| s.connection.as_ref().map(|link| object(py, link)))
    }

    /// Take what was received of the body so far, without waiting.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.take_pieces(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.visit(&visit)?;
        self.origin.object.visit(&visit)?;
        self.wishes.visit(&visit)?;
        self.state
            .peek(|s| {
                for link in [&s.connection, &s.carrier].into_iter().flatten() {
                    link.object.visit(&visit)?;
                }
                visit.call(&s.timer)?;
                visit.call(&s.opening)?;
                if let Some(error) = &s.error {
                    error.visit(&visit)?;
                }
                for place in s.reader.iter().chain(&s.senders) {
                    place.wake.visit(&visit)?;
                }
                Ok(())
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| {
            (
                s.connection.take(),
                s.carrier.take(),
                s.timer.take(),
                s.opening.take(),
                s.error.take(),
                s.reader.take(),
                std::mem::take(&mut s.senders),
            )
        });
        drop(old);
    }
}
