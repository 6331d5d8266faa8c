//! Bytearrays that grow at their end, by copying or by receiving into them.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::mem::MaybeUninit;

/// Changes the length; new bytes are uninitialised. BufferError while there is a view of the array.
///
/// # Safety
/// The caller must initialise the new bytes before anybody else sees them.
unsafe fn resize(array: &Bound<'_, PyByteArray>, len: usize) -> PyResult<()> {
    // SAFETY: the object is alive, and a bytearray.
    if unsafe { ffi::PyByteArray_Resize(array.as_ptr(), len.cast_signed()) } != 0 {
        return Err(PyErr::fetch(array.py()));
    }
    Ok(())
}

/// Runs `f`, which must not run Python code, on the bytes from `start` on.
///
/// # Safety
/// `start` must not exceed the length.
unsafe fn with_tail<R>(
    array: &Bound<'_, PyByteArray>,
    start: usize,
    f: impl FnOnce(&mut [MaybeUninit<u8>]) -> R,
) -> R {
    let len = array.len();
    // SAFETY: the object is alive, and a bytearray.
    let data = unsafe { ffi::PyByteArray_AsString(array.as_ptr()) };
    // SAFETY: `start` is inside the array, as the caller promises.
    let data = unsafe { data.add(start) };
    // SAFETY: `len - start` bytes follow. The GIL, held while the slice lives, keeps other threads away.
    f(unsafe { std::slice::from_raw_parts_mut(data.cast(), len - start) })
}

/// Appends a copy of the first `len` bytes of `source`, which the engine's receive has just written. BufferError
/// while there is a view of the array.
#[inline]
pub fn append_received(
    array: &Bound<'_, PyByteArray>,
    source: &[MaybeUninit<u8>],
    len: usize,
) -> PyResult<()> {
    let start = array.len();
    // SAFETY: the next lines initialise the new bytes.
    unsafe { resize(array, start + len) }?;
    // SAFETY: `start` is the old length.
    unsafe { with_tail(array, start, |tail| tail.copy_from_slice(&source[..len])) };
    Ok(())
}

/// Receives into up to `room` new bytes at the end of the array, and then into `rest`, whose bytes are appended.
/// `receive` returns the number of bytes written to both. `None`, with nothing received, if the array cannot be
/// resized because there is a view of it.
pub fn receive_at_end(
    array: &Bound<'_, PyByteArray>,
    room: usize,
    rest: &mut [MaybeUninit<u8>],
    receive: impl FnOnce(&mut [MaybeUninit<u8>], &mut [MaybeUninit<u8>]) -> std::io::Result<usize>,
) -> Option<PyResult<std::io::Result<usize>>> {
    let start = array.len();
    // SAFETY: shortened below to the bytes that `receive` has written, before Python code can run.
    unsafe { resize(array, start + room) }.ok()?;
    // SAFETY: `start` is the old length.
    let received = unsafe { with_tail(array, start, |tail| receive(tail, rest)) };
    let len = received.as_ref().map_or(0, |len| *len);
    // SAFETY: `receive` is one of the engine's calls, which return the number of bytes the kernel wrote.
    let cut = unsafe { resize(array, start + len.min(room)) };
    let over = len.saturating_sub(room);
    let appended =
        cut.and_then(|()| if over > 0 { append_received(array, rest, over) } else { Ok(()) });
    Some(appended.map(|()| received))
}
