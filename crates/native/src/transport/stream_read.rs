//! How a stream transport receives: one receive of any size per readiness. Runs in the transport's context.

use super::ending::{self, Ending};
use super::feeding::Feeding;
use super::protocol::{Receive, Receiver};
use super::receive::receive;
use super::stream::StreamTransport;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::{Object, buffer};
use oneloop_engine::sys::socket;
use pyo3::exceptions::PyRuntimeError;
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
        let known = self.state.with(py, |s| {
            s.protocol.as_ref().map(|p| (p.object.bind(py).clone(), p.receiver.clone_ref(py)))
        });
        let Some((protocol, receiver)) = known else { return Ok(()) };
        match receiver {
            Receiver::Data => self.read_data(owner, slf, &protocol),
            Receiver::Stream { vetted } => {
                let keep = |vetted| self.vet(py, vetted);
                match Feeding::find_vetted(owner.get(), &protocol, vetted, keep)? {
                    Some(feeding) => self.read_fed(owner, slf, feeding, &protocol),
                    None => self.read_data(owner, slf, &protocol),
                }
            }
            Receiver::Buffer => self.read_into(owner, slf, &protocol),
            Receiver::Native(receive) => self.read_native(owner, slf, receive, &protocol),
        }
    }

    fn vet(&self, py: Python<'_>, vetted: Object) -> Option<Object> {
        self.state.with(py, |s| match &mut s.protocol {
            Some(protocol) => protocol.vet(vetted),
            None => Some(vetted),
        })
    }

    /// A native protocol receives by itself.
    fn read_native(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        receive: Receive,
        protocol: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let received = match self.body.descriptor.fd(py) {
            Ok(fd) => receive(owner, protocol, fd),
            Err(e) => Ok(Err(e)),
        };
        match received {
            Ok(Ok(0)) => self.end_of_file(owner, slf),
            Ok(Ok(len)) => {
                owner.get().meter.with(py, |meter| meter.bytes_in += len as u64);
                Ok(())
            }
            Ok(Err(e)) => self.read_failed(slf, &e),
            Err(error) => {
                let text = "Fatal error: protocol.buffer_updated() call failed.";
                ending::fatal(slf, error, text)
            }
        }
    }

    /// `read_data` for a reader of asyncio's streams, which is fed without a call.
    fn read_fed(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        feeding: Feeding<'_>,
        protocol: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let last = self.state.with(py, |s| s.last_read);
        let outcome = match self.body.descriptor.fd(py) {
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
                feeding.finish()
            }
            Err(error) => Err(error),
        };
        self.received(owner, slf, protocol, outcome)
    }

    fn read_data(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        protocol: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let last = self.state.with(py, |s| s.last_read);
        let received = match self.body.descriptor.fd(py) {
            Ok(fd) => receive(owner, fd, last, socket::recv_both)?,
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
        let outcome = protocol.call_method1(intern!(py, "data_received"), (data,)).map(drop);
        self.received(owner, slf, protocol, outcome)
    }

    /// Called after `data_received` or its replacement.
    fn received(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        protocol: &Bound<'_, PyAny>,
        outcome: PyResult<()>,
    ) -> PyResult<()> {
        let ended = owner.get().lap_method(owner, protocol, intern!(owner.py(), "data_received"));
        let text = "Fatal error: protocol.data_received() call failed.";
        outcome.or_else(|error| ending::fatal(slf, error, text)).and(ended)
    }

    fn read_into(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        protocol: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let room = || {
            let target = protocol.call_method1(intern!(py, "get_buffer"), (-1,))?;
            if target.len()? == 0 {
                return Err(PyRuntimeError::new_err("get_buffer() returned an empty buffer"));
            }
            buffer::View::writable(&target)
        };
        let mut view = match room() {
            Ok(view) => view,
            Err(error) => {
                let text = "Fatal error: protocol.get_buffer() call failed.";
                return ending::fatal(slf, error, text);
            }
        };
        // As in asyncio the protocol gets the data, whatever it has done to the transport meanwhile.
        let received =
            self.body.descriptor.fd(py).and_then(|fd| socket::recv(fd, view.as_mut_slice(py)));
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
        // `get_buffer()` may have changed the protocol: the new one is told, as in asyncio.
        let Some(protocol) = &self.protocol(py) else { return Ok(()) };
        let name = intern!(py, "buffer_updated");
        let outcome = protocol.call_method1(name, (len,)).map(drop);
        let ended = owner.get().lap_method(owner, protocol, name);
        let text = "Fatal error: protocol.buffer_updated() call failed.";
        outcome.or_else(|error| ending::fatal(slf, error, text)).and(ended)
    }

    fn end_of_file(&self, owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let protocol = self.state.with(py, |s| {
            s.read_eof = true;
            s.protocol.as_ref().map(|p| p.object.bind(py).clone())
        });
        let Some(protocol) = protocol else { return Ok(()) };
        let name = intern!(py, "eof_received");
        let keep_open = protocol.call_method0(name).and_then(|keep| keep.is_truthy());
        let ended = owner.get().lap_method(owner, &protocol, name);
        let done = match keep_open {
            // The writing side stays open; there is nothing left to read.
            Ok(true) => ending::watch(slf),
            Ok(false) => ending::close(slf),
            Err(error) => {
                let text = "Fatal error: protocol.eof_received() call failed.";
                let notified = ending::fatal(slf, error, text);
                // An exception leaves the loop and the transport stays open: the end of file is reported again.
                self.state.with(py, |s| s.read_eof = notified.is_ok());
                notified
            }
        };
        done.and(ended)
    }

    fn read_failed(&self, slf: &Bound<'_, Self>, error: &io::Error) -> PyResult<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
            _ => {
                let error = errors::os_error_on("recv", self.body.descriptor.fd(slf.py()), error);
                ending::fatal(slf, error, "Fatal read error on socket transport")
            }
        }
    }
}
