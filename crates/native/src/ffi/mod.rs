//! The only part of the extension that may use `pyo3::ffi` and `unsafe`.
//!
//! Small checked pieces for the hot paths: calls without argument tuples, contexts, bytes objects, fast methods, and
//! the cell that guards loop state. Nothing here depends on the loop.

#![allow(unsafe_code)]

pub mod awaitable;
pub mod buffer;
pub mod bytearray;
pub mod bytes;
pub mod call;
pub mod cell;
pub mod chunks;
pub mod class;
pub mod context;
pub mod coroutine;
pub mod detach;
pub mod fallible;
pub mod greenlet;
pub mod interpreter;
pub mod link;
pub mod method;
pub mod object;
pub mod pinned;
pub mod prefetch;
pub mod recycled;
pub mod socket_object;
pub mod structure;
pub mod text;
pub mod thread_exit;
pub mod thread_state;
pub mod utf8;
pub mod values;
#[cfg(Py_3_13)]
pub mod wakeup;
pub mod window;

pub use cell::LoopCell;
pub use link::Link;
pub use object::{Object, references};
