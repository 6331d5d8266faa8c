//! fstatfs(2): the type of an open file's filesystem. May wait for a server.

use super::{checked, libc};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// The type's number from linux/magic.h.
pub fn magic(file: RawFd) -> io::Result<u32> {
    let mut told = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the structure is live through the call; the kernel rejects an invalid `file`.
    checked(unsafe { libc::fstatfs(file, told.as_mut_ptr()) })?;
    // SAFETY: plain integers that were zeroed before the kernel filled them.
    let told = unsafe { told.assume_init() };
    // The numbers have 32 bits; where the field is signed, some are negative.
    Ok(u32::try_from(told.f_type & 0xffff_ffff).unwrap_or_default())
}
