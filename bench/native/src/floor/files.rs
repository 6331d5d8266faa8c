//! Reading whole files with open, read, close, on one thread: the floor of cached reads.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::floor::repeat::repeat;

/// Reads every path into one buffer, in batches of `rounds`, for at least `least`.
pub fn measure(paths: &[PathBuf], rounds: u32, least: Duration) -> io::Result<Value> {
    let mut buffer = vec![0_u8; 1 << 20];
    repeat(least, || {
        for _ in 0..rounds {
            for path in paths {
                let mut file = File::open(path)?;
                while file.read(&mut buffer)? == buffer.len() {}
            }
        }
        Ok(u64::from(rounds) * paths.len() as u64)
    })
}
