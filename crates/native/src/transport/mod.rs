//! Transports: what knows `data_received`, water marks and end of file.
//!
//! Stands on `event_loop`; may not know files, green threads or TLS.

mod descriptor;
mod endpoint;
mod listener;
mod protocol;
mod stream;
mod stream_read;
mod stream_write;
mod unclosed;
mod write_queue;

pub use listener::Listener;
pub use stream::StreamTransport;
