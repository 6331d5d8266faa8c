//! `Flow`: the water marks of a transport, and whether its protocol is paused.
//!
//! The protocol is paused above the high mark and resumed at the low mark or below, each once. Must not depend on
//! what is queued; callers pass its size.

use super::life::report_failure;
use crate::event_loop::LoopCore;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// asyncio's default, in bytes; the low mark is a quarter of it.
pub const HIGH_WATER: usize = 64 * 1024;

pub struct Flow {
    high_water: usize,
    low_water: usize,
    paused: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Self { high_water: HIGH_WATER, low_water: HIGH_WATER / 4, paused: false }
    }
}

impl Flow {
    /// The marks in asyncio's order: low, high.
    pub fn limits(&self) -> (usize, usize) {
        (self.low_water, self.high_water)
    }

    /// Sets marks that `marks` has checked.
    pub fn set_limits(&mut self, (low, high): (usize, usize)) {
        self.low_water = low;
        self.high_water = high;
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The protocol should be paused and is not.
    pub fn wants_pause(&self, queued: usize) -> bool {
        !self.paused && queued > self.high_water
    }

    /// True if `pause_writing` must be called now.
    pub fn pause(&mut self, queued: usize) -> bool {
        let tell = self.wants_pause(queued);
        self.paused |= tell;
        tell
    }

    /// True if `resume_writing` must be called now.
    pub fn resume(&mut self, queued: usize) -> bool {
        let tell = self.paused && queued <= self.low_water;
        self.paused &= !tell;
        tell
    }
}

/// A water mark from a program: any number, rounded down.
pub struct Mark(isize);

impl<'py> FromPyObject<'_, 'py> for Mark {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(number) = number.extract() {
            return Ok(Self(number));
        }
        // A float, or an integer larger than any buffer. Casts of floats saturate.
        Ok(Self(number.extract::<f64>()?.floor() as isize))
    }
}

/// The marks (low, high) for `set_write_buffer_limits(high, low)`, computed like
/// `asyncio.transports._FlowControlMixin`; ValueError unless high >= low >= 0.
pub fn marks(
    high: Option<Mark>,
    low: Option<Mark>,
    default_high: usize,
) -> PyResult<(usize, usize)> {
    let (high, low) = (high.map(|Mark(high)| high), low.map(|Mark(low)| low));
    let high = match (high, low) {
        (Some(high), _) => high,
        (None, Some(low)) => low.saturating_mul(4),
        (None, None) => default_high.cast_signed(),
    };
    let low = low.unwrap_or(high / 4);
    if !(high >= low && low >= 0) {
        return Err(PyValueError::new_err(format!(
            "high ({high}) must be >= low ({low}) must be >= 0"
        )));
    }
    Ok((low.cast_unsigned(), high.cast_unsigned()))
}

/// Calls `protocol.pause_writing()` or `resume_writing()`. Runs in the connection's context.
pub fn tell(
    owner: &Bound<'_, LoopCore>,
    transport: &Bound<'_, PyAny>,
    protocol: Option<&Bound<'_, PyAny>>,
    method: &str,
) -> PyResult<()> {
    let Some(protocol) = protocol else { return Ok(()) };
    protocol.call_method0(method).map(drop).or_else(|error| {
        let text = format!("protocol.{method}() failed");
        report_failure(owner, transport, Some(protocol), &text, error)
    })
}
