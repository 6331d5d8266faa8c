//! `ClientTimeouts`: how long each phase of an exchange may take.

use pyo3::prelude::*;
use std::time::Duration;

pub const NEVER_NS: u64 = u64::MAX;

/// Times in nanoseconds; `NEVER_NS`: no limit.
#[pyclass(frozen, module = "oneloop._native")]
#[expect(clippy::struct_field_names, reason = "their unit")]
pub struct ClientTimeouts {
    pub read_ns: u64,
    pub write_ns: u64,
    pub pool_ns: u64,
}

/// `NEVER_NS` for None and for times above the range.
pub fn nanoseconds(time_s: Option<f64>) -> u64 {
    let time = time_s.map(|time_s| Duration::try_from_secs_f64(time_s.max(0.0)));
    match time {
        Some(Ok(time)) => u64::try_from(time.as_nanos()).unwrap_or(NEVER_NS),
        _ => NEVER_NS,
    }
}

#[pymethods]
impl ClientTimeouts {
    /// Args: seconds; None: no limit.
    #[new]
    #[pyo3(signature = (read, write, pool))]
    fn new(read: Option<f64>, write: Option<f64>, pool: Option<f64>) -> Self {
        Self {
            read_ns: nanoseconds(read),
            write_ns: nanoseconds(write),
            pool_ns: nanoseconds(pool),
        }
    }
}

/// What the deadline of a connection or a stream limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// More of the response.
    Response,
    /// The server reads what was sent.
    Drain,
    /// The next exchange.
    Exchange,
    Nothing,
}
