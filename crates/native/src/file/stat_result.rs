//! `os.stat_result` of a status that statx(2) has reported.

use crate::ffi::structure;
use crate::ffi::values::{ToPython, Value};
use crate::imports;
use oneloop_engine::sys::statx::{FullStatus, Time};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

const NANOSECONDS: i64 = 1_000_000_000;

/// In nanoseconds; an int of Python where that is too long for a machine's.
fn nanoseconds(py: Python<'_>, (seconds, nanoseconds): Time) -> PyResult<Bound<'_, PyAny>> {
    let total = seconds.checked_mul(NANOSECONDS).and_then(|ns| ns.checked_add(nanoseconds.into()));
    match total {
        Some(total) => total.to_python(py),
        None => seconds.to_python(py)?.mul(Value(NANOSECONDS))?.add(Value(nanoseconds)),
    }
}

/// The result of `os.stat`, with the fields that it has on Linux. `None`: it has others in this version of Python.
pub fn stat_result<'py>(
    py: Python<'py>,
    status: &FullStatus,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let times = [status.accessed, status.modified, status.changed];
    let seconds = |index: usize| times[index].0.to_python(py);
    // As CPython computes it.
    let float = |index: usize| {
        let (seconds, nanoseconds) = times[index];
        (seconds as f64 + 1e-9 * f64::from(nanoseconds)).to_python(py)
    };
    let len = i64::try_from(status.len).map_err(|_| PyOverflowError::new_err("file size"))?;
    structure::filled(
        &imports::stat_result(py)?,
        [
            status.mode.to_python(py)?,
            status.inode.to_python(py)?,
            status.device.to_python(py)?,
            status.links.to_python(py)?,
            status.uid.to_python(py)?,
            status.gid.to_python(py)?,
            len.to_python(py)?,
            seconds(0)?,
            seconds(1)?,
            seconds(2)?,
            float(0)?,
            float(1)?,
            float(2)?,
            nanoseconds(py, times[0])?,
            nanoseconds(py, times[1])?,
            nanoseconds(py, times[2])?,
            status.block_bytes.to_python(py)?,
            status.blocks.to_python(py)?,
            status.of_device.to_python(py)?,
        ],
    )
}
