//! Reading whole files with open, read, close, on one thread: the floor of cached reads.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::clock::{now_ns, own_cpu_ns};

/// Reads every path `rounds` times into one buffer.
pub fn measure(paths: &[PathBuf], rounds: u32) -> io::Result<Value> {
    let mut buffer = vec![0_u8; 1 << 20];
    let mut bytes = 0_u64;
    let (begin, cpu) = (now_ns(), own_cpu_ns());
    for _ in 0..rounds {
        for path in paths {
            let mut file = File::open(path)?;
            loop {
                let count = file.read(&mut buffer)?;
                bytes += count as u64;
                if count < buffer.len() {
                    break;
                }
            }
        }
    }
    let ops = f64::from(rounds) * paths.len() as f64;
    Ok(json!({
        "ns_per_op": (now_ns() - begin) as f64 / ops,
        "cpu_ns_per_op": (own_cpu_ns() - cpu) as f64 / ops,
        "ops": ops, "bytes": bytes,
    }))
}
