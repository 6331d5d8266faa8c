//! Memory: tuning of malloc for the large blocks of long reads, and aligned blocks.

use super::transfer::Segment;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Once;

/// Larger than several of the blocks that long reads allocate. malloc returns the end of the heap to the kernel when
/// twice as much is free there.
const KEPT_BYTES: usize = 4 << 20;

/// Makes malloc keep blocks of up to a few mebibytes instead of mapping and unmapping each one.
///
/// glibc maps blocks above a threshold (128 KiB at first) on every allocation and unmaps them on every free. For a
/// long read that costs more page faults than the read itself. The threshold follows the largest mapped block that
/// was freed (mallopt(3), `M_MMAP_THRESHOLD`), so freeing one such block once is enough, and the threshold stays
/// dynamic.
pub fn keep_large_blocks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: no pointers are passed; a failure gives null, which free accepts.
        let block = unsafe { libc::malloc(KEPT_BYTES) };
        // Without this the compiler may remove the malloc and free.
        let block = std::hint::black_box(block);
        // SAFETY: `block` was returned by malloc above and is freed once.
        unsafe { libc::free(block) };
    });
}

/// Page-aligned memory, as O_DIRECT needs it.
pub struct Aligned {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, which has no ties to a thread.
unsafe impl Send for Aligned {}

impl Aligned {
    const PAGE: usize = 4096;

    /// Zeroed; `None` if there is no memory or `len` is too large.
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

    /// The first `len` bytes, for an operation of an engine that keeps this object until the completion.
    pub fn segment(&mut self, len: usize) -> Segment {
        // SAFETY: the memory never moves, and is freed when its owner, the operation's record, is dropped after the
        // completion (S1).
        unsafe { Segment::new(self.pointer.as_ptr(), len.min(self.len())) }
    }

    /// The first `len` bytes.
    pub fn as_slice(&self, len: usize) -> &[u8] {
        // SAFETY: initialised when allocated; the slice is not longer than the allocation.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), len.min(self.len())) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout by the same allocator, freed once.
        unsafe { std::alloc::dealloc(self.pointer.as_ptr(), self.layout) }
    }
}
