//! Engine operations on the memory of Python objects, which stay pinned until the completion (S1).

use super::buffer::View;
use oneloop_engine::files::operation::{Memory, Opcode, Operation};
use std::os::fd::RawFd;

/// The owner of an operation: views of its buffers, and a value that must live as long. An attached thread must drop
/// it.
pub struct Pinned<T> {
    views: Vec<View>,
    pub what: T,
}

/// An operation without its memory.
pub struct Frame {
    pub opcode: Opcode,
    pub fd: RawFd,
    pub offset: i64,
    pub rw_flags: i32,
    pub priority: u16,
    pub resfd: Option<RawFd>,
}

/// An operation on the views, the first of which is cut to `limit` bytes. For a read the views must come from
/// `View::writable`.
pub fn operation<T>(frame: Frame, views: Vec<View>, limit: usize, what: T) -> Operation<Pinned<T>> {
    let writes_memory = frame.opcode == Opcode::Read;
    let mut segments = Vec::with_capacity(views.len());
    for view in &views {
        assert!(!(writes_memory && view.is_readonly()), "a read has writable views");
        segments.push(view.segment());
    }
    if let Some(first) = segments.first_mut() {
        *first = first.cut(limit);
    }
    let memory = Memory::new(&segments);
    let Frame { opcode, fd, offset, rw_flags, priority, resfd } = frame;
    Operation {
        opcode,
        fd,
        offset,
        memory,
        rw_flags,
        priority,
        resfd,
        owner: Pinned { views, what },
    }
}

impl<T> Pinned<T> {
    /// Releases the buffers.
    pub fn release(self) -> T {
        drop(self.views);
        self.what
    }
}
