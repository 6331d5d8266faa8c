//! The arguments of `get_events()`: the timeout, and the minimum and maximum number of events.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// The end of a wait.
#[derive(Clone, Copy)]
pub enum Deadline {
    Never,
    At(Instant),
}

impl Deadline {
    /// From seconds. `None`, and times beyond the clock's range, mean forever.
    pub fn after(timeout_s: Option<f64>) -> PyResult<Self> {
        let Some(timeout_s) = timeout_s else { return Ok(Self::Never) };
        if timeout_s.is_nan() || timeout_s < 0.0 {
            return Err(PyValueError::new_err(format!("invalid timeout: {timeout_s} seconds")));
        }
        let end = Duration::try_from_secs_f64(timeout_s)
            .ok()
            .and_then(|timeout| Instant::now().checked_add(timeout));
        Ok(end.map_or(Self::Never, Self::At))
    }

    /// The remaining nanoseconds; `None`: forever.
    pub fn left_ns(self) -> Option<u64> {
        let Self::At(end) = self else { return None };
        let left = end.saturating_duration_since(Instant::now());
        Some(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The minimum and maximum number of events that a call returns.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub min: usize,
    pub max: usize,
}

impl Wanted {
    pub fn new(min: i64, max: i64) -> PyResult<Self> {
        match (usize::try_from(min), usize::try_from(max)) {
            (Ok(min), Ok(max)) if min <= max => Ok(Self { min, max }),
            _ => Err(PyValueError::new_err(format!(
                "invalid numbers of events: min_jobs={min}, max_jobs={max}; use 0 <= min_jobs <= max_jobs"
            ))),
        }
    }
}
