//! `Session`: the contract between a TLS transport and the library that does the cryptography.
//!
//! Ciphertext in, plaintext out, and back; no I/O. `openssl` drives CPython's `_ssl` objects, `rustls` a rustls
//! connection. Both run on the loop's thread. A call may release the GIL or run the program's callbacks (SNI, ALPN, key
//! log), so no borrow of the transport's state lives across it (S2).

use oneloop_engine::sys::socket::Room;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Whether a handshake or a shutdown has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Done,
    /// It goes on when more has come from the peer.
    Wanting,
}

/// What a read has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plain {
    /// So many bytes, from the start of the room on; at least one. More may follow at once.
    Data(usize),
    /// No whole record is there.
    Nothing,
    /// The peer has said close_notify; no more data comes.
    Ended,
}

/// One TLS connection without its socket. Errors are `ssl.SSLError` and its subclasses; after one, `take` gives the
/// alert that the peer should get.
pub trait Session {
    /// Keeps ciphertext until it is read. Never refuses any, so whoever feeds must stop when `unread` grows.
    fn feed(&self, py: Python<'_>, ciphertext: &[u8]) -> PyResult<()>;

    /// Bytes that were fed and not used yet, those of a record that is not whole among them.
    fn unread(&self, py: Python<'_>) -> PyResult<usize>;

    /// The same without a record that is not whole, which only more ciphertext can end: for flow control.
    fn waiting(&self, py: Python<'_>) -> PyResult<usize>;

    /// Goes on with the handshake.
    fn shake_hands(&self, py: Python<'_>) -> PyResult<Step>;

    /// Whether a read might bring something. Costs little.
    fn may_read(&self, py: Python<'_>) -> PyResult<bool>;

    /// Decrypts into `room`, which has at least one byte; at most one record's data per call. Room for a whole record
    /// (16 KiB) spares a second call, not correctness.
    fn read(&self, py: Python<'_>, room: &mut Room) -> PyResult<Plain>;

    /// Encrypts; how many bytes were taken. 0 in the middle of a renegotiation: the peer comes first. Less than all of them
    /// only by a class of the program's own.
    fn write(&self, py: Python<'_>, plaintext: &[u8]) -> PyResult<usize>;

    /// Takes the ciphertext that is to be sent.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>>;

    /// Says close_notify, once, and waits for the peer's.
    fn shut_down(&self, py: Python<'_>) -> PyResult<Step>;
}
