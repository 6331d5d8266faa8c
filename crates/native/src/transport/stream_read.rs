//! How a stream transport receives: one receive per readiness, whatever its size.

use super::life::Life;
use super::protocol::Receiver;
use super::receive::receive;
use super::stream::StreamTransport;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::{buffer, call, context};
use oneloop_engine::sys::socket;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use std::io;

impl StreamTransport {
    pub(super) fn read_ready(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
    ) -> PyResult<()> {
        let py = owner.py();
        let receiver =
            self.state.with(py, |s| s.protocol.as_ref().map(|p| p.receiver.clone_ref(py)));
        match receiver {
            Some(Receiver::Data(method)) => self.read_data(owner, slf, method.bind(py)),
            Some(Receiver::Buffer { get_buffer, buffer_updated }) => {
                self.read_into(owner, slf, get_buffer.bind(py), buffer_updated.bind(py))
            }
            None => Ok(()),
        }
    }

    fn read_data(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        data_received: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let last = self.state.with(py, |s| s.last_read);
        let received = match self.descriptor.fd(py) {
            Ok(fd) => receive(owner, fd, last, socket::recv)?,
            Err(e) => Err(e),
        };
        let data = match received {
            Ok(data) => data,
            Err(e) => return self.read_failed(slf, &e),
        };
        let len = data.as_bytes().len();
        self.state.with(py, |s| s.last_read = len);
        if len == 0 {
            return self.end_of_file(owner, slf);
        }
        owner.get().meter.with(py, |meter| meter.bytes_in += len as u64);
        let outcome = context::run(self.context.bind(py), || {
            call::call1(data_received, data.as_any()).map(drop)
        });
        owner.get().lap(owner, data_received)?;
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(
                slf,
                error,
                "Fatal error: protocol.data_received() call failed.",
            ),
        }
    }

    fn read_into(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        get_buffer: &Bound<'_, PyAny>,
        buffer_updated: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let room = context::run(self.context.bind(py), || {
            let target = get_buffer.call1((-1,))?;
            let view = buffer::View::writable(&target)?;
            if view.len() == 0 {
                return Err(PyRuntimeError::new_err("get_buffer() returned an empty buffer"));
            }
            Ok(view)
        });
        let mut view = match room {
            Ok(view) => view,
            Err(error) => {
                return self.callback_failed(
                    slf,
                    error,
                    "Fatal error: protocol.get_buffer() call failed.",
                );
            }
        };
        // The callback may have closed or paused the transport.
        if self.state.with(py, |s| s.life != Life::Open || s.reading_paused) {
            return Ok(());
        }
        let received =
            self.descriptor.fd(py).and_then(|fd| socket::recv(fd, view.as_mut_slice(py)));
        // The protocol may resize its buffer in buffer_updated().
        drop(view);
        let len = match received {
            Ok(len) => len,
            Err(e) => return self.read_failed(slf, &e),
        };
        if len == 0 {
            return self.end_of_file(owner, slf);
        }
        owner.get().meter.with(py, |meter| meter.bytes_in += len as u64);
        let outcome =
            context::run(self.context.bind(py), || buffer_updated.call1((len,)).map(drop));
        owner.get().lap(owner, buffer_updated)?;
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(
                slf,
                error,
                "Fatal error: protocol.buffer_updated() call failed.",
            ),
        }
    }

    fn end_of_file(&self, owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let protocol = self.state.with(py, |s| {
            s.read_eof = true;
            s.protocol.as_ref().map(|p| p.object.bind(py).clone())
        });
        let Some(protocol) = protocol else { return Ok(()) };
        let keep_open = context::run(self.context.bind(py), || {
            protocol.call_method0(intern!(py, "eof_received"))?.is_truthy()
        });
        owner.get().lap(owner, &protocol)?;
        match keep_open {
            // The writing side stays open; nothing is left to read.
            Ok(true) => match self.update_interest(slf) {
                Ok(()) => Ok(()),
                Err(e) => self.cannot_watch(slf, &e),
            },
            Ok(false) => self.begin_close(slf),
            Err(error) => self.callback_failed(
                slf,
                error,
                "Fatal error: protocol.eof_received() call failed.",
            ),
        }
    }

    fn read_failed(&self, slf: &Bound<'_, Self>, error: &io::Error) -> PyResult<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
            _ => {
                let error = errors::os_error_on("recv", self.descriptor.fd(slf.py()), error);
                self.fatal(slf, error, "Fatal read error on socket transport")
            }
        }
    }

    /// A protocol callback raised: the connection ends, the loop lives on (S7).
    pub(super) fn callback_failed(
        &self,
        slf: &Bound<'_, Self>,
        error: PyErr,
        message: &str,
    ) -> PyResult<()> {
        let py = slf.py();
        if error.is_instance_of::<PyKeyboardInterrupt>(py)
            || error.is_instance_of::<PySystemExit>(py)
        {
            return Err(error);
        }
        self.fatal(slf, error, message)
    }
}
