//! Transports: `data_received`, water marks, end of file.
//!
//! Uses `event_loop`. Must not depend on files, green threads or TLS, which is a protocol with its own receive
//! function.

mod accepting;
mod appetite;
mod datagram;
mod datagram_queue;
mod datagram_read;
mod datagram_write;
mod descriptor;
mod ending;
mod endpoint;
mod feeding;
mod flow;
mod life;
mod listener;
mod own_context;
mod peers;
mod pipe;
mod protocol;
mod read_pipe;
mod receive;
mod registration;
mod sending;
mod stream;
mod stream_read;
mod stream_write;
pub mod unclosed;
mod under;
mod write_pipe;
mod write_queue;

pub use accepting::Accepting;
pub use datagram::DatagramTransport;
pub use feeding::Feeding;
pub use flow::{Mark, marks, tell as tell_flow};
pub use listener::Listener;
pub use protocol::{Receiver, StreamProtocol, register_native};
pub use read_pipe::ReadPipeTransport;
pub use receive::with_lent;
pub use sending::{GATHERED, GATHERING_CYCLES, LONG_WRITE, WARN_AFTER, is_bytes_like};
pub use stream::StreamTransport;
pub use under::Under;
pub use write_pipe::WritePipeTransport;

/// Adds the methods that run for each message, with CPython's fastest calling convention.
pub(crate) fn add_methods(py: pyo3::Python<'_>) -> pyo3::PyResult<()> {
    stream_write::add_methods(py)?;
    datagram_write::add_methods(py)
}
