//! How an exchange calls its `ClientConnection`: `Carrier`, with HTTP/1.1 and HTTP/2.

use super::connection::ClientConnection;
use super::exchange::{Carrier, ClientExchange};
use super::timeouts::NEVER_NS;
use crate::ffi::{Link, Object};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

struct Calls;

impl ClientConnection {
    pub fn link(slf: &Bound<'_, Self>) -> Link<dyn Carrier> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }
}

#[inline]
fn of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> &'a Bound<'py, ClientConnection> {
    object.cast_exact().expect("these calls are linked with nothing but a ClientConnection")
}

impl Carrier for Calls {
    fn is_full(&self, connection: &Bound<'_, PyAny>) -> bool {
        of(connection).get().is_full()
    }

    fn send_part(
        &self,
        connection: &Bound<'_, PyAny>,
        exchange: &ClientExchange,
        data: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        ClientConnection::send_part(of(connection), exchange, data)
    }

    fn end_body(&self, connection: &Bound<'_, PyAny>, exchange: &ClientExchange) -> PyResult<()> {
        ClientConnection::end_body(of(connection), exchange)
    }

    fn read_on(
        &self,
        connection: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        let py = exchange.py();
        let connection = of(connection);
        let this = connection.get();
        if this.is_http2() {
            return ClientConnection::read_on_stream(connection, exchange);
        }
        // The time runs while somebody waits; see `expire`.
        let has_response = exchange.get().state.with(py, |s| s.response.is_some());
        let is_due = this.state.with(py, |s| s.is_reading_paused || s.deadline_ns == NEVER_NS);
        if has_response || is_due {
            ClientConnection::wait_for_response(connection, exchange.get())?;
        }
        this.resume_reading(py)
    }

    fn give_up(
        &self,
        connection: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        ClientConnection::give_up(of(connection), exchange)
    }

    fn finish(&self, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        ClientConnection::finish(of(connection))
    }

    fn transport(&self, connection: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        of(connection).get().transport(connection.py())
    }
}
