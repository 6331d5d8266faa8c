//! The methods of `FastFile` that have a slow half.

use super::attempt::Act;
use super::fast::FastFile;
use super::operation::Operation;
use crate::ffi::Object;
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::recycled;
use oneloop_engine::files::cached::LONGEST;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use std::ffi::CStr;

/// A method with a slow half.
trait Halved {
    const NAME: &'static CStr;
    const DOC: &'static CStr;
    const SLOW: &'static str;

    /// `None`: only the slow half supports these arguments.
    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act>;
}

fn size_of(argument: Borrowed<'_, '_, PyAny>) -> Option<i64> {
    argument.cast_exact::<PyInt>().ok()?.extract().ok()
}

struct Method<H>(std::marker::PhantomData<H>);

impl<H: Halved> FastMethod for Method<H> {
    type Class = FastFile;

    const NAME: &'static CStr = H::NAME;
    const DOC: &'static CStr = H::DOC;

    fn call<'py>(
        slf: Borrowed<'_, 'py, FastFile>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let act = match arguments.named() {
            None => H::act(arguments.positional()),
            Some(_) => None,
        };
        let object: &Bound<'py, PyAny> = slf.as_any();
        if let Some(act) = act {
            let file = slf.to_owned().unbind();
            return Ok(recycled::make(py, Operation::new(file, act, H::SLOW))?.into_any());
        }
        let slow = object.getattr(fallible::interned(py, H::SLOW)?)?;
        arguments.call(&slow)
    }
}

struct Read;
impl Halved for Read {
    const NAME: &'static CStr = c"read";
    const DOC: &'static CStr =
        c"read($self, size=-1, /, *, timeout=None)\n--\n\nRead up to `size` bytes or characters, fewer only at the end; everything left if `size` is -1 or None.";
    const SLOW: &'static str = "_read";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        match arguments {
            [] => Some(Act::ReadAll),
            [size] => usize::try_from(size_of(*size)?).ok().filter(|size| *size > 0).map(Act::Read),
            _ => None,
        }
    }
}

struct ReadLine;
impl Halved for ReadLine {
    const NAME: &'static CStr = c"readline";
    const DOC: &'static CStr =
        c"readline($self, size=-1, /, *, timeout=None)\n--\n\nRead one line with its end, or its first `size` bytes or characters; empty at the end of the file.";
    const SLOW: &'static str = "_readline";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        arguments.is_empty().then_some(Act::ReadLine)
    }
}

struct Write;
impl Halved for Write {
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr =
        c"write($self, data, /, *, timeout=None)\n--\n\nWrite all of `data`, into the buffer if there is room; returns its length.";
    const SLOW: &'static str = "_write";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        match arguments {
            [data] => Some(Act::Write(Object::new((*data).to_owned()))),
            _ => None,
        }
    }
}

struct ReadAt;
impl Halved for ReadAt {
    const NAME: &'static CStr = c"pread";
    const DOC: &'static CStr =
        c"pread($self, size, offset, *, timeout=None)\n--\n\nRead up to `size` bytes from `offset` on, fewer only at the end of the file. Does not change the position.";
    const SLOW: &'static str = "_pread";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        let [size, offset] = arguments else { return None };
        let size = usize::try_from(size_of(*size)?).ok().filter(|size| *size <= LONGEST)?;
        let offset = size_of(*offset).filter(|offset| *offset >= 0)?;
        Some(Act::ReadAt { size, offset })
    }
}

struct Flush;
impl Halved for Flush {
    const NAME: &'static CStr = c"flush";
    const DOC: &'static CStr = c"flush($self, *, timeout=None)\n--\n\nPass all written data to the kernel; `fsync` also writes it to the disk.\n\nRaises:\n    OSError: the write failed. Data that was not written stays buffered and is tried again.";
    const SLOW: &'static str = "_flush";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        arguments.is_empty().then_some(Act::Flush)
    }
}

struct Close;
impl Halved for Close {
    const NAME: &'static CStr = c"close";
    const DOC: &'static CStr = c"close($self, *, timeout=None)\n--\n\nWrite buffered data and close the descriptor. A second call does nothing.\n\nA cancelled close continues in the background, and another call waits for the same close. A read that waits for a\npipe ends with ValueError.\n\nRaises:\n    OSError: buffered data could not be written, or the close failed; the file is closed nevertheless.";
    const SLOW: &'static str = "_close";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        arguments.is_empty().then_some(Act::Close)
    }
}

/// The end of `async with`: closes the file, with or without an exception.
struct Exit;
impl Halved for Exit {
    const NAME: &'static CStr = c"__aexit__";
    const DOC: &'static CStr = c"__aexit__($self, kind, error, trace, /)\n--\n\nClose the file.";
    const SLOW: &'static str = "_close";

    fn act(_: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        Some(Act::Close)
    }
}

/// Called once, when the module is loaded.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Method<Read>>(py)?;
    method::add::<Method<ReadLine>>(py)?;
    method::add::<Method<Write>>(py)?;
    method::add::<Method<Flush>>(py)?;
    method::add::<Method<Close>>(py)?;
    method::add::<Method<Exit>>(py)?;
    method::add::<Method<ReadAt>>(py)
}
