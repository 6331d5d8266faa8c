//! The C library's name resolution, getaddrinfo(3), without anything around it. The standard library's own reads
//! addresses itself.

#![expect(unsafe_code, reason = "a call of the C library")]

use std::ffi::{CStr, CString};
use std::io;
use std::ptr;
use std::time::Duration;

use serde_json::Value;

use crate::floor::repeat::repeat;

/// Looks `host` up in batches of `count`, for at least `least`.
pub fn resolve(host: &str, count: u32, least: Duration) -> io::Result<Value> {
    let host = CString::new(host).map_err(io::Error::other)?;
    repeat(least, || {
        for _ in 0..count {
            look_up(&host)?;
        }
        Ok(u64::from(count))
    })
}

fn look_up(host: &CStr) -> io::Result<()> {
    let hints = libc::addrinfo {
        ai_flags: 0,
        ai_family: libc::AF_UNSPEC,
        ai_socktype: 0,
        ai_protocol: 0,
        ai_addrlen: 0,
        ai_addr: ptr::null_mut(),
        ai_canonname: ptr::null_mut(),
        ai_next: ptr::null_mut(),
    };
    let mut found = ptr::null_mut();
    // SAFETY: both texts end with a zero byte, and only `found` is written to.
    let status = unsafe {
        libc::getaddrinfo(host.as_ptr(), c"80".as_ptr(), &raw const hints, &raw mut found)
    };
    if status != 0 {
        return Err(io::Error::other(format!("getaddrinfo returned {status}")));
    }
    // SAFETY: the list is of getaddrinfo, and nobody else has it.
    unsafe { libc::freeaddrinfo(found) };
    Ok(())
}
