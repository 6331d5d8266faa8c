//! `_faults_*`: system calls that fail by order, for tests/faults. Only in builds with the feature `faults`.

use oneloop_engine::sys::faults::{self, Fault};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Forget counts and orders; count from now on.
#[pyfunction]
fn _faults_start() {
    faults::start();
}

/// Make the calls of a function with the numbers first to first + times - 1 fail: an errno, or the fault's name.
#[pyfunction]
fn _faults_order(call: &str, first: u64, times: u64, fault: &str) -> PyResult<()> {
    let fault = Fault::parse(fault).ok_or_else(|| PyValueError::new_err(fault.to_owned()))?;
    faults::order(call, first, times, fault);
    Ok(())
}

/// Return how many calls there were so far.
#[pyfunction]
fn _faults_counts() -> BTreeMap<String, u64> {
    faults::counts()
}

/// Nothing fails any more. Return how many calls there were of each function, and how many failed by order.
#[pyfunction]
fn _faults_stop() -> (BTreeMap<String, u64>, u64) {
    faults::stop()
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if let Ok(orders) = std::env::var("ONELOOP_FAULTS") {
        faults::start_from(&orders).ok_or_else(|| PyValueError::new_err(orders))?;
    }
    module.add_function(wrap_pyfunction!(_faults_start, module)?)?;
    module.add_function(wrap_pyfunction!(_faults_order, module)?)?;
    module.add_function(wrap_pyfunction!(_faults_counts, module)?)?;
    module.add_function(wrap_pyfunction!(_faults_stop, module)?)
}
