//! How far the kernel is with a TCP connection: TCP_INFO of tcp(7).

use super::{checked, libc, socket};
use std::io;
use std::os::fd::RawFd;

/// `struct tcp_info` of linux/tcp.h, as far as it is of use. Linux 4.19 has all of it.
#[repr(C)]
struct Info {
    _states: [u8; 8],
    _times: [u32; 24],
    _rates: [u64; 2],
    _acknowledged_bytes: u64,
    received_bytes: u64,
    _segments: [u32; 2],
    unsent_bytes: u32,
    _more_segments: [u32; 3],
    _limits: [u64; 4],
    _delivered: [u32; 2],
    sent_bytes: u64,
    repeated_bytes: u64,
}

/// What one end of a connection has sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Without what was sent again.
    sent_bytes: u64,
    received_bytes: u64,
    /// More is waiting to be sent, here or in the program.
    has_more: bool,
    /// Its program has read all that was received.
    is_read: bool,
}

impl Progress {
    /// Fails for what is no TCP socket, and with ENOTSUP on kernels that do not tell it.
    pub fn of(fd: RawFd) -> io::Result<Self> {
        // SAFETY: it has only integers, for which zeros are valid.
        let mut info: Info = unsafe { std::mem::zeroed() };
        let mut len = size_of::<Info>() as libc::socklen_t;
        // SAFETY: value and length are live through the call, with their true sizes.
        checked(unsafe {
            let room = (&raw mut info).cast();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, room, &raw mut len)
        })?;
        if (len as usize) < size_of::<Info>() {
            return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
        }
        let mut unread: libc::c_int = 0;
        // SAFETY: the number is live through the call, with its true size.
        checked(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut unread) })?;
        Ok(Self {
            sent_bytes: info.sent_bytes.saturating_sub(info.repeated_bytes),
            received_bytes: info.received_bytes,
            has_more: info.unsent_bytes > 0 || !socket::is_writable(fd)?,
            is_read: unread == 0,
        })
    }

    /// Whether the kernel has yet to bring something of this end to its peer, which has room for it.
    pub fn is_ahead_of(&self, peer: &Self) -> bool {
        self.sent_bytes > peer.received_bytes || self.has_more && peer.is_read
    }
}
