//! `Request`: one file operation as data, the same for every engine.
//!
//! Owns its paths, but has only the addresses of its memory (see `Transfer`). Must not depend on who executes it.

use crate::sys::transfer::Transfer;
use std::ffi::CString;
use std::os::fd::RawFd;

/// A name in a folder (AT_FDCWD for the current folder).
#[derive(Clone, Debug)]
pub struct Place {
    pub dir_fd: RawFd,
    pub path: CString,
}

#[derive(Clone, Debug)]
pub enum Request {
    /// O_CLOEXEC is always added. The result is the descriptor.
    Open {
        at: Place,
        flags: libc::c_int,
        mode: libc::mode_t,
    },
    Close {
        fd: RawFd,
    },
    Read(Transfer),
    Write(Transfer),
    Sync {
        fd: RawFd,
        datasync: bool,
    },
    Truncate {
        fd: RawFd,
        len: i64,
    },
    Allocate {
        fd: RawFd,
        mode: libc::c_int,
        offset: i64,
        len: i64,
    },
    Rename {
        from: Place,
        to: Place,
        flags: libc::c_uint,
    },
    Unlink {
        at: Place,
        flags: libc::c_int,
    },
    Mkdir {
        at: Place,
        mode: libc::mode_t,
    },
    Link {
        from: Place,
        to: Place,
        flags: libc::c_int,
    },
    Symlink {
        target: CString,
        at: Place,
    },
}

impl Request {
    /// The open file that the request uses, except for a close.
    pub fn fd(&self) -> Option<RawFd> {
        match self {
            Self::Read(transfer) | Self::Write(transfer) => Some(transfer.fd),
            Self::Sync { fd, .. } | Self::Truncate { fd, .. } | Self::Allocate { fd, .. } => {
                Some(*fd)
            }
            _ => None,
        }
    }

    /// The names that a request without an open file uses.
    pub fn names(&self) -> Vec<&Place> {
        match self {
            Self::Open { at, .. }
            | Self::Unlink { at, .. }
            | Self::Mkdir { at, .. }
            | Self::Symlink { at, .. } => vec![at],
            Self::Rename { from, to, .. } | Self::Link { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// Transfers on pipes and terminals, where the other end may never act.
    pub fn may_wait_for_ever(&self) -> bool {
        matches!(self, Self::Read(transfer) | Self::Write(transfer) if transfer.waits)
    }

    /// Whether the ring is faster than a thread. The ring gives buffered writes to a kernel worker, which costs four
    /// times as much as one of our threads (design 0014).
    pub fn suits_ring(&self) -> bool {
        match self {
            Self::Write(transfer) => transfer.direct || transfer.waits,
            Self::Open { .. } | Self::Close { .. } => false,
            _ => true,
        }
    }

    /// The number of bytes transferred.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Read(transfer) | Self::Write(transfer) => transfer.memory.len(),
            _ => 0,
        }
    }

    /// A transfer on a file opened with O_DIRECT.
    pub fn is_direct(&self) -> bool {
        matches!(self, Self::Read(transfer) | Self::Write(transfer) if transfer.direct)
    }

    /// The system call that does the same, for error messages (S8).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Close { .. } => "close",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Sync { datasync: false, .. } => "fsync",
            Self::Sync { .. } => "fdatasync",
            Self::Truncate { .. } => "ftruncate",
            Self::Allocate { .. } => "fallocate",
            Self::Rename { .. } => "rename",
            Self::Unlink { .. } => "unlink",
            Self::Mkdir { .. } => "mkdir",
            Self::Link { .. } => "link",
            Self::Symlink { .. } => "symlink",
        }
    }
}
