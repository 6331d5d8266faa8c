//! Memory: how the C library's allocator treats the blocks that long reads need; aligned blocks.

use super::transfer::Segment;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Once;

/// Larger than several of the blocks that long reads allocate: the end of the heap is given back to
/// the kernel when twice as much is free there.
const KEPT_BYTES: usize = 4 << 20;

/// Makes malloc keep blocks of up to some mebibytes instead of mapping and unmapping each.
///
/// glibc maps blocks above a threshold (128 KiB at first) on every allocation and unmaps them on
/// every free: for a long read that costs more page faults than the read itself. The threshold
/// follows the largest mapped block that was freed (mallopt(3), `M_MMAP_THRESHOLD`), so freeing one
/// such block once is all that is needed; the adjustment stays dynamic.
pub fn keep_large_blocks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: no pointers are passed; a failure gives null, which free accepts.
        let block = unsafe { libc::malloc(KEPT_BYTES) };
        // Without this the compiler may take the pair away.
        let block = std::hint::black_box(block);
        // SAFETY: what malloc has just returned, freed once.
        unsafe { libc::free(block) };
    });
}

/// Memory at a page's border, as O_DIRECT wants it.
pub struct Aligned {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory of its own, without ties to a thread.
unsafe impl Send for Aligned {}

impl Aligned {
    const PAGE: usize = 4096;

    /// Zeroed; None if there is no memory, or it would be more than there can be.
    pub fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), Self::PAGE).ok()?;
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        Some(Self { pointer: NonNull::new(pointer)?, layout })
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The first `len` bytes, for an operation of an engine that keeps this until its completion.
    pub fn segment(&mut self, len: usize) -> Segment {
        // SAFETY: the memory never moves, and is freed when its owner, the operation's record, is
        // dropped after the completion (S1).
        unsafe { Segment::new(self.pointer.as_ptr(), len.min(self.len())) }
    }

    /// The first `len` bytes.
    pub fn as_slice(&self, len: usize) -> &[u8] {
        // SAFETY: initialised at its allocation; the slice is not longer than that.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), len.min(self.len())) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout by the same allocator, freed once.
        unsafe { std::alloc::dealloc(self.pointer.as_ptr(), self.layout) }
    }
}
