//! The end of an application's work on a request, whatever its interface.

use super::websocket::{self, Phase};
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log;
use crate::http::exchange::response_state::Response;
use pyo3::prelude::*;

/// The application has ended. `complaint`: the log message if its response is not complete.
pub fn ended(exchange: &Bound<'_, Exchange>, complaint: Option<&str>) -> PyResult<()> {
    let py = exchange.py();
    let this = exchange.get();
    let (response, is_gone, is_end_told, task) =
        this.state.with(py, |s| (s.response, s.is_disconnected, s.is_end_told, s.task.take()));
    let service = this.service.get();
    service.end_request(py);
    if let Some(task) = task {
        service.tasks.bind(py).discard(task.bind(py))?;
    }
    if let Some(websocket) = websocket::of(this) {
        if complaint.is_some() && websocket.phase(py) == Phase::Connecting && !is_gone {
            error_log::log(py, "ASGI callable returned without sending handshake.", None)?;
        }
        if let Some(complaint) = complaint
            && websocket.phase(py) == Phase::Denied
            && response != Response::Complete
            && !is_gone
        {
            error_log::log(py, complaint, None)?;
        }
        return if is_gone { Ok(()) } else { websocket.finish(exchange, complaint.is_none()) };
    }
    if is_gone || response == Response::Complete {
        return Ok(());
    }
    if let Some(complaint) = complaint {
        if is_end_told {
            // It has ended because of that, as it should. A client that has only ended its side gets no more either.
            return Exchange::abort(exchange);
        }
        error_log::log(py, complaint, None)?;
    }
    match response {
        // Nothing of its response was sent.
        Response::Awaited | Response::Started => {
            Exchange::respond(exchange, 500, "Internal Server Error")
        }
        Response::Streaming | Response::Trailing => Exchange::abort(exchange),
        Response::Complete => Ok(()),
    }
}
