//! Keeps the interpreter's stack chunks for later green threads.
//!
//! Each greenlet's Python frames are in chunks of 16 KiB (`DATA_STACK_CHUNK_SIZE`, pystate.c), which the interpreter
//! takes from its arena allocator: one mmap, one page fault and one munmap per greenlet. This file keeps freed
//! chunks, up to a limit, and reuses them. Requests of other sizes, and chunks beyond the limit, go to the previous
//! allocator. Both sides use that one allocator's memory.

use pyo3::ffi::{PyObject_GetArenaAllocator, PyObject_SetArenaAllocator, PyObjectArenaAllocator};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

const CHUNK_SIZE: usize = 16 * 1024;
/// The maximum number kept; most of them have one page in use.
const LIMIT: usize = 1024;

/// The header at the beginning of an unused chunk.
struct Free {
    next: *mut Free,
}

struct Chunks {
    /// Interpreters with separate GILs may come here at the same time. Nobody waits for the flag: if it is taken, the
    /// previous allocator is used, so that a child forked meanwhile cannot hang.
    is_taken: AtomicBool,
    inner: UnsafeCell<Inner>,
}

struct Inner {
    first: *mut Free,
    count: usize,
}

// SAFETY: `inner` is accessed only by the thread that has set `is_taken`; see `with`.
unsafe impl Sync for Chunks {}

static CHUNKS: Chunks = Chunks {
    is_taken: AtomicBool::new(false),
    inner: UnsafeCell::new(Inner { first: null_mut(), count: 0 }),
};

impl Chunks {
    /// `None` if another thread is using it.
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> Option<T> {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: the flag was not set, and stays set until this reference is gone.
        let done = f(unsafe { &mut *self.inner.get() });
        self.is_taken.store(false, Ordering::Release);
        Some(done)
    }
}

struct Behind {
    allocator: PyObjectArenaAllocator,
}

// SAFETY: the interpreter's table of functions, which any thread with the GIL may call.
unsafe impl Send for Behind {}
// SAFETY: as for `Send`.
unsafe impl Sync for Behind {}

static BEHIND: PyOnceLock<Behind> = PyOnceLock::new();

extern "C" fn alloc(context: *mut c_void, size: usize) -> *mut c_void {
    if size == CHUNK_SIZE {
        let kept = CHUNKS.with(|inner| {
            let chunk = inner.first;
            if !chunk.is_null() {
                // SAFETY: `free` wrote it into memory that nobody else has used since.
                inner.first = unsafe { (*chunk).next };
                inner.count -= 1;
            }
            chunk
        });
        if let Some(chunk) = kept
            && !chunk.is_null()
        {
            return chunk.cast();
        }
    }
    // SAFETY: `keep` passes a `Behind` in a static as the context.
    let behind = unsafe { &*context.cast::<Behind>() };
    behind.allocator.alloc.map_or(null_mut(), |alloc| alloc(behind.allocator.ctx, size))
}

extern "C" fn free(context: *mut c_void, memory: *mut c_void, size: usize) {
    if size == CHUNK_SIZE {
        let chunk = memory.cast::<Free>();
        let is_kept = CHUNKS.with(|inner| {
            let has_room = inner.count < LIMIT;
            if has_room {
                // SAFETY: a chunk that the interpreter has freed; it begins at a page boundary.
                unsafe { chunk.write(Free { next: inner.first }) };
                inner.first = chunk;
                inner.count += 1;
            }
            has_room
        });
        if is_kept == Some(true) {
            return;
        }
    }
    // SAFETY: as in `alloc`.
    let behind = unsafe { &*context.cast::<Behind>() };
    if let Some(free) = behind.allocator.free {
        free(behind.allocator.ctx, memory, size);
    }
}

/// Starts keeping chunks; done once per process.
pub fn keep(py: Python<'_>) {
    let mut is_new = false;
    let behind = BEHIND.get_or_init(py, || {
        is_new = true;
        let mut allocator = PyObjectArenaAllocator { ctx: null_mut(), alloc: None, free: None };
        // SAFETY: the interpreter fills the table; the thread is attached.
        unsafe { PyObject_GetArenaAllocator(&raw mut allocator) };
        Behind { allocator }
    });
    if is_new {
        let context = std::ptr::from_ref(behind).cast_mut().cast();
        let mut ours =
            PyObjectArenaAllocator { ctx: context, alloc: Some(alloc), free: Some(free) };
        // SAFETY: the table is copied; the functions and the context live as long as the process.
        unsafe { PyObject_SetArenaAllocator(&raw mut ours) };
    }
}
