//! Starting a child with posix_spawn (vfork inside) and waiting for it, from a parent of a given size; libc's
//! name resolution without anything around it.

use std::io;
use std::net::ToSocketAddrs;
use std::process::Command;

use serde_json::{Value, json};

use crate::clock::now_ns;

/// Touches `parent_mib`, then starts `/bin/true` `count` times.
pub fn measure(count: u32, parent_mib: usize) -> io::Result<Value> {
    let mut ballast = vec![0_u8; parent_mib << 20];
    for byte in ballast.iter_mut().step_by(4096) {
        *byte = 1;
    }
    let begin = now_ns();
    for _ in 0..count {
        // Without a pre-exec hook or a changed directory the standard library calls posix_spawn.
        let status = Command::new("/bin/true").status()?;
        if !status.success() {
            return Err(io::Error::other("/bin/true failed"));
        }
    }
    let elapsed = now_ns() - begin;
    std::hint::black_box(&ballast);
    Ok(json!({"ns_per_op": elapsed as f64 / f64::from(count), "ops": count}))
}

/// Looks `host` up `count` times.
pub fn resolve(host: &str, count: u32) -> io::Result<Value> {
    let begin = now_ns();
    for _ in 0..count {
        std::hint::black_box((host, 80).to_socket_addrs()?.count());
    }
    let elapsed = now_ns() - begin;
    Ok(json!({"ns_per_op": elapsed as f64 / f64::from(count), "ops": count}))
}
