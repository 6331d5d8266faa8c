//! `Room`: where nghttp2 frames what is sent, and how an idle session gives that memory back.
//!
//! nghttp2 takes 16 KiB for it with the session, and keeps them until its end. What is in them matters only while a
//! frame is under way. So they get pages of their own, which the kernel takes back while nothing is sent; it gives empty
//! ones when nghttp2 writes again. Everything else is allocated as without this.
//!
//! Upholds: nghttp2 passes the address of a session's `Room` to these functions only while it runs, that is within calls
//! that have the session for themselves.

#![expect(unsafe_code, reason = "functions that C calls, and the C library's allocator")]

use libnghttp2_sys as c;
use std::ffi::c_void;
use std::ptr;

/// nghttp2's chunk is longer by a few bytes, and the only allocation of this length.
const ROOM_BYTES: usize = 16 * 1024;

pub struct Room {
    at: *mut c_void,
    page_bytes: usize,
}

impl Room {
    pub fn new() -> Self {
        // SAFETY: it has no pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self { at: ptr::null_mut(), page_bytes: usize::try_from(page_bytes).unwrap_or(usize::MAX) }
    }

    /// Gives the pages back. No frame may be under way. Locked memory stays as it is.
    pub fn give_back(&self) {
        if !self.at.is_null() {
            // SAFETY: whole pages of an allocation of at least this length; nobody needs what is in them.
            unsafe { libc::madvise(self.at, ROOM_BYTES, libc::MADV_DONTNEED) };
        }
    }
}

/// The allocator for a session with this room.
pub fn allocator(room: *mut Room) -> c::nghttp2_mem {
    c::nghttp2_mem {
        mem_user_data: room.cast(),
        malloc: Some(allocate),
        free: Some(free),
        calloc: Some(allocate_zeros),
        realloc: Some(allocate_again),
    }
}

unsafe extern "C" fn allocate(len: usize, user_data: *mut c_void) -> *mut c_void {
    // SAFETY: the head of the file; no other reference is alive.
    let room = unsafe { &mut *user_data.cast::<Room>() };
    // With longer pages, this would take more than it gives back.
    if len < ROOM_BYTES || !room.at.is_null() || !ROOM_BYTES.is_multiple_of(room.page_bytes) {
        // SAFETY: any length is allowed.
        return unsafe { libc::malloc(len) };
    }
    // SAFETY: a page is a power of two; the pointer is written, or left as it is.
    if unsafe { libc::posix_memalign(&raw mut room.at, room.page_bytes, len) } != 0 {
        room.at = ptr::null_mut();
    }
    room.at
}

unsafe extern "C" fn free(at: *mut c_void, user_data: *mut c_void) {
    // SAFETY: the head of the file; no other reference is alive.
    let room = unsafe { &mut *user_data.cast::<Room>() };
    if at == room.at {
        room.at = ptr::null_mut();
    }
    // SAFETY: allocated here, or null.
    unsafe { libc::free(at) };
}

unsafe extern "C" fn allocate_zeros(
    count: usize,
    len: usize,
    _user_data: *mut c_void,
) -> *mut c_void {
    // SAFETY: any length is allowed.
    unsafe { libc::calloc(count, len) }
}

unsafe extern "C" fn allocate_again(
    at: *mut c_void,
    len: usize,
    user_data: *mut c_void,
) -> *mut c_void {
    if at.is_null() {
        // SAFETY: as this function.
        return unsafe { allocate(len, user_data) };
    }
    // SAFETY: the head of the file; no other reference is alive.
    let room = unsafe { &mut *user_data.cast::<Room>() };
    // SAFETY: allocated here, or null.
    let moved = unsafe { libc::realloc(at, len) };
    if !moved.is_null() && at == room.at {
        room.at = ptr::null_mut();
    }
    moved
}
