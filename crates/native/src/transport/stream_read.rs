//! How a stream transport receives: one receive per readiness, whatever its size.

use super::feeding::Feeding;
use super::life::Life;
use super::protocol::{Receiver, StreamProtocol};
use super::receive::receive;
use super::stream::StreamTransport;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::{Object, buffer, call, context};
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
            Some(Receiver::Stream { data_received, vetted }) => {
                match self.feeding(owner, vetted)? {
                    Some(feeding) => self.read_fed(owner, slf, feeding, data_received.bind(py)),
                    None => self.read_data(owner, slf, data_received.bind(py)),
                }
            }
            Some(Receiver::Buffer { get_buffer, buffer_updated }) => {
                self.read_into(owner, slf, get_buffer.bind(py), buffer_updated.bind(py))
            }
            None => Ok(()),
        }
    }

    /// The stream reader to feed without a call, if that is the same.
    fn feeding<'py>(
        &self,
        owner: &Bound<'py, LoopCore>,
        mut vetted: Option<Object>,
    ) -> PyResult<Option<Feeding<'py>>> {
        let py = owner.py();
        let Some(protocol) = self.protocol(py) else { return Ok(None) };
        let is_new = vetted.is_none();
        let feeding = Feeding::find(owner.get(), &protocol, &mut vetted)?;
        if is_new && vetted.is_some() {
            let old = self.state.with(py, |s| match &mut s.protocol {
                Some(StreamProtocol {
                    receiver: Receiver::Stream { vetted: kept, .. }, ..
                }) => std::mem::replace(kept, vetted),
                _ => vetted,
            });
            drop(old);
        }
        Ok(feeding)
    }

    /// `read_data` for a reader of asyncio's streams, which gets its bytes without a call.
    fn read_fed(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        feeding: Feeding<'_>,
        data_received: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let last = self.state.with(py, |s| s.last_read);
        let outcome = match self.descriptor.fd(py) {
            Ok(fd) => feeding.receive(owner, fd, last),
            Err(e) => Ok(Err(e)),
        };
        let outcome = match outcome {
            Ok(Err(e)) => return self.read_failed(slf, &e),
            Ok(Ok(0)) => {
                self.state.with(py, |s| s.last_read = 0);
                return self.end_of_file(owner, slf);
            }
            Ok(Ok(len)) => {
                self.state.with(py, |s| s.last_read = len);
                owner.get().meter.with(py, |meter| meter.bytes_in += len as u64);
                context::run(self.context.bind(py), || feeding.finish())
            }
            Err(error) => Err(error),
        };
        self.received(owner, slf, data_received, outcome)
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
        self.received(owner, slf, data_received, outcome)
    }

    /// `data_received`, or what stood for it, has ended.
    fn received(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        data_received: &Bound<'_, PyAny>,
        outcome: PyResult<()>,
    ) -> PyResult<()> {
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
