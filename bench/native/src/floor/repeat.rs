//! Batches of work, until they took long enough together: as `bench/rivals/repeating.py` does it for programs in Python.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::{now_ns, own_cpu_ns};

/// Runs batches, at least one, until they took `least`. A batch returns the number of its operations. The figures are for
/// one operation.
pub fn repeat(least: Duration, mut batch: impl FnMut() -> io::Result<u64>) -> io::Result<Value> {
    let mut ops = 0;
    let (begin, cpu) = (now_ns(), own_cpu_ns());
    while ops == 0 || u128::from(now_ns() - begin) < least.as_nanos() {
        ops += batch()?;
    }
    let (wall, used) = (now_ns() - begin, own_cpu_ns() - cpu);
    Ok(json!({
        "ns_per_op": wall as f64 / ops as f64, "cpu_ns_per_op": used as f64 / ops as f64, "ops": ops,
    }))
}
