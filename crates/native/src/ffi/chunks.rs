//! The interpreter's stack chunks, kept for the next green thread.
//!
//! Each greenlet's Python frames lie in chunks of 16 KiB (`DATA_STACK_CHUNK_SIZE`, pystate.c), which the interpreter takes
//! from its arena allocator: one mmap, one page fault and one munmap for each greenlet's life. Here the chunks that are
//! given back are kept, up to a limit, and given out again. Sizes other than a chunk's go to the allocator that was there
//! before, and so does what there is no room for: both sides are one allocator's memory.

use pyo3::ffi::{PyObject_GetArenaAllocator, PyObject_SetArenaAllocator, PyObjectArenaAllocator};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

const CHUNK_SIZE: usize = 16 * 1024;
/// At most so many are kept; of most of them one page is in use.
const LIMIT: usize = 1024;

/// A chunk that nobody uses, at its beginning.
struct Free {
    next: *mut Free,
}

struct Chunks {
    /// Interpreters with a lock of their own may come at once. Nobody waits for it: who finds it taken goes to the
    /// allocator behind, so that a child that was forked meanwhile goes on.
    is_taken: AtomicBool,
    inner: UnsafeCell<Inner>,
}

struct Inner {
    first: *mut Free,
    count: usize,
}

// SAFETY: `inner` is reached by whoever has set `is_taken` alone; see `with`.
unsafe impl Sync for Chunks {}

static CHUNKS: Chunks = Chunks {
    is_taken: AtomicBool::new(false),
    inner: UnsafeCell::new(Inner { first: null_mut(), count: 0 }),
};

impl Chunks {
    /// `None` if somebody else is at it.
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> Option<T> {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: the flag was not set, and is until this reference is gone.
        let done = f(unsafe { &mut *self.inner.get() });
        self.is_taken.store(false, Ordering::Release);
        Some(done)
    }
}

struct Behind {
    allocator: PyObjectArenaAllocator,
}

// SAFETY: the interpreter's table of functions, which any thread that holds its lock may call.
unsafe impl Send for Behind {}
// SAFETY: as above.
unsafe impl Sync for Behind {}

static BEHIND: PyOnceLock<Behind> = PyOnceLock::new();

extern "C" fn alloc(context: *mut c_void, size: usize) -> *mut c_void {
    if size == CHUNK_SIZE {
        let kept = CHUNKS.with(|inner| {
            let chunk = inner.first;
            if !chunk.is_null() {
                // SAFETY: written by `free` into memory that nobody else has since.
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
    // SAFETY: `install` has put the allocator behind there, and passes it as the context.
    let behind = unsafe { &*context.cast::<Behind>() };
    behind.allocator.alloc.map_or(null_mut(), |alloc| alloc(behind.allocator.ctx, size))
}

extern "C" fn free(context: *mut c_void, memory: *mut c_void, size: usize) {
    if size == CHUNK_SIZE {
        let chunk = memory.cast::<Free>();
        let is_kept = CHUNKS.with(|inner| {
            let has_room = inner.count < LIMIT;
            if has_room {
                // SAFETY: a chunk that the interpreter has given back; it begins where a page does.
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

/// Keeps chunks from now on; once for the process.
pub fn keep(py: Python<'_>) {
    let mut is_new = false;
    let behind = BEHIND.get_or_init(py, || {
        is_new = true;
        let mut allocator = PyObjectArenaAllocator { ctx: null_mut(), alloc: None, free: None };
        // SAFETY: the interpreter fills in the table; the thread is attached.
        unsafe { PyObject_GetArenaAllocator(&raw mut allocator) };
        Behind { allocator }
    });
    if is_new {
        let context = std::ptr::from_ref(behind).cast_mut().cast();
        let mut ours =
            PyObjectArenaAllocator { ctx: context, alloc: Some(alloc), free: Some(free) };
        // SAFETY: copied; the functions and the context live as long as the process.
        unsafe { PyObject_SetArenaAllocator(&raw mut ours) };
    }
}
