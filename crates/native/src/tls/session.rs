//! `Session`: the interface between a TLS transport and the library that does the cryptography.
//!
//! Converts ciphertext to plaintext and back; no I/O. `openssl` uses CPython's `_ssl` objects, `rustls` a rustls
//! connection. Both run on the loop's thread. A call may release the GIL or run the program's callbacks (SNI, ALPN,
//! key log), so no borrow of the transport's state is held during it (S2).

use oneloop_engine::sys::socket::Room;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Whether a handshake or a shutdown has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Done,
    /// It needs more data from the peer.
    Wanting,
}

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plain {
    /// The number of bytes written to the start of the buffer; at least one. More may be available immediately.
    Data(usize),
    /// There is no complete record.
    Nothing,
    /// The peer has sent close_notify; no more data follows.
    Ended,
}

/// One TLS connection without its socket. Errors are `ssl.SSLError` and its subclasses; after one, `take` returns the
/// alert for the peer.
pub trait Session {
    /// Stores ciphertext until it is read. Never refuses data, so the caller must stop when `unread` grows.
    fn feed(&self, py: Python<'_>, ciphertext: &[u8]) -> PyResult<()>;

    /// Bytes that were fed and not used yet, including those of an incomplete record.
    fn unread(&self, py: Python<'_>) -> PyResult<usize>;

    /// Like `unread`, without an incomplete record, which only more ciphertext can complete: for flow control.
    fn waiting(&self, py: Python<'_>) -> PyResult<usize>;

    /// Continues the handshake.
    fn shake_hands(&self, py: Python<'_>) -> PyResult<Step>;

    /// Whether a read might return something. Cheap.
    fn may_read(&self, py: Python<'_>) -> PyResult<bool>;

    /// Decrypts into `room`, which has at least one byte; at most one record's data per call. Space for a whole
    /// record (16 KiB) saves a second call but is not required.
    fn read(&self, py: Python<'_>, room: &mut Room) -> PyResult<Plain>;

    /// Encrypts; returns the number of bytes used. 0 during a renegotiation, which needs data from the peer first.
    /// Only a class of the program may use fewer than all bytes.
    fn write(&self, py: Python<'_>, plaintext: &[u8]) -> PyResult<usize>;

    /// Takes the ciphertext to be sent.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>>;

    /// Sends close_notify, once, and waits for the peer's.
    fn shut_down(&self, py: Python<'_>) -> PyResult<Step>;
}
