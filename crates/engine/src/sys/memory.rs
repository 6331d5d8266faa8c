//! How the C library's allocator treats the blocks that long reads need.

use std::sync::Once;

/// Larger than any block that a read allocates.
const KEPT_BYTES: usize = 1 << 20;

/// Makes malloc keep blocks of up to a mebibyte instead of mapping and unmapping each.
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
