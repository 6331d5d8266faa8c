//! Starting a child with posix_spawn (vfork inside) and waiting for it, from a parent of a given size.

use std::io;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::floor::repeat::repeat;

/// Touches `parent_mib`, then starts `/bin/true` in batches of `count`, for at least `least`.
pub fn measure(count: u32, least: Duration, parent_mib: usize) -> io::Result<Value> {
    let mut ballast = vec![0_u8; parent_mib << 20];
    for byte in ballast.iter_mut().step_by(4096) {
        *byte = 1;
    }
    let figures = repeat(least, || {
        for _ in 0..count {
            // Without a pre-exec hook or a changed directory the standard library calls posix_spawn.
            let status = Command::new("/bin/true").status()?;
            if !status.success() {
                return Err(io::Error::other("/bin/true failed"));
            }
        }
        Ok(u64::from(count))
    })?;
    std::hint::black_box(&ballast);
    Ok(figures)
}
