//! The socket calls of the data path: receive, send, accept, shut down.
//!
//! Every call is non-blocking by flag (MSG_DONTWAIT), whatever the descriptor's own mode, so that no call from the
//! loop can block. SIGPIPE is suppressed (MSG_NOSIGNAL): EPIPE is returned instead.

use super::address::Address;
use super::{checked, checked_len, libc};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

const RECV: libc::c_int = libc::MSG_DONTWAIT;
const SEND: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Segments beyond this number wait for the next call (IOV_MAX on every Linux).
pub const MAX_SEGMENTS: usize = 1024;

/// Buffer space that a receive may write to.
pub type Room = [MaybeUninit<u8>];

/// recv(2). Returns `n`; the first `n` bytes of `buffer` were written.
#[inline]
pub fn recv(fd: RawFd, buffer: &mut Room) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into live memory during the call.
    checked_len(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), RECV) })
}

/// Whether a stream socket has neither data nor an end of file nor an error to read: recv(2) with MSG_PEEK.
pub fn has_nothing(fd: RawFd) -> bool {
    let mut byte = [MaybeUninit::<u8>::uninit(); 1];
    // SAFETY: the buffer has room for the one byte asked for.
    let got =
        unsafe { libc::recv(fd, byte.as_mut_ptr().cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    got < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
}

/// Like `recv`, but continues into `rest` when `first` is full: recvmsg(2).
pub fn recv_both(fd: RawFd, first: &mut Room, rest: &mut Room) -> io::Result<usize> {
    if rest.is_empty() {
        return recv(fd, first);
    }
    let mut rooms = [room_of(first), room_of(rest)];
    // SAFETY: all zeros is a valid msghdr: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = rooms.as_mut_ptr();
    message.msg_iovlen = rooms.len() as _;
    // SAFETY: the header and the buffers are live through the call, with their true sizes.
    checked_len(unsafe { libc::recvmsg(fd, &raw mut message, RECV) })
}

fn room_of(room: &mut Room) -> libc::iovec {
    libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }
}

/// recvfrom(2), with the sender's address.
pub fn recv_from(fd: RawFd, buffer: &mut Room) -> io::Result<(usize, Address)> {
    let mut from = Address::room();
    // SAFETY: buffer, address and length are live through the call, with their true sizes.
    let n = checked_len(unsafe {
        libc::recvfrom(
            fd,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            RECV,
            (&raw mut from.storage).cast(),
            &raw mut from.len,
        )
    })?;
    Ok((n, from))
}

/// send(2).
#[inline]
pub fn send(fd: RawFd, data: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads `data.len()` live bytes during the call.
    checked_len(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), SEND) })
}

/// sendto(2).
pub fn send_to(fd: RawFd, data: &[u8], to: &Address) -> io::Result<usize> {
    // SAFETY: data and address are live through the call, with their true sizes.
    checked_len(unsafe {
        libc::sendto(
            fd,
            data.as_ptr().cast(),
            data.len(),
            SEND,
            (&raw const to.storage).cast(),
            to.len,
        )
    })
}

/// sendmsg(2) of up to `MAX_SEGMENTS` segments.
pub fn send_vectored(fd: RawFd, segments: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: msghdr is plain data, for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice is guaranteed to have iovec's layout on Unix.
    message.msg_iov = segments.as_ptr().cast_mut().cast();
    // size_t in glibc, int in musl.
    message.msg_iovlen = segments.len().min(MAX_SEGMENTS) as _;
    // SAFETY: the segments borrow live bytes through the call, and the kernel only reads them.
    checked_len(unsafe { libc::sendmsg(fd, &raw const message, SEND) })
}

/// read(2), for descriptors other than sockets; they must be non-blocking.
pub fn read(fd: RawFd, buffer: &mut Room) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into live memory during the call.
    checked_len(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Like `read`, but continues into `rest` when `first` is full: readv(2).
pub fn read_both(fd: RawFd, first: &mut Room, rest: &mut Room) -> io::Result<usize> {
    if rest.is_empty() {
        return read(fd, first);
    }
    let rooms = [room_of(first), room_of(rest)];
    // SAFETY: the buffers are live through the call, with their true sizes.
    checked_len(unsafe { libc::readv(fd, rooms.as_ptr(), rooms.len() as _) })
}

/// writev(2), for descriptors other than sockets; they must be non-blocking.
pub fn write_vectored(fd: RawFd, segments: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = segments.len().min(MAX_SEGMENTS) as libc::c_int;
    // SAFETY: IoSlice has iovec's layout; the segments borrow live bytes through the call.
    checked_len(unsafe { libc::writev(fd, segments.as_ptr().cast(), count) })
}

/// accept4(2), non-blocking and close-on-exec. Also returns the peer's address.
pub fn accept(fd: RawFd) -> io::Result<(OwnedFd, Address)> {
    let mut from = Address::room();
    // SAFETY: address and length are live through the call, with their true sizes.
    let fd = checked(unsafe {
        libc::accept4(
            fd,
            (&raw mut from.storage).cast(),
            &raw mut from.len,
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    })?;
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, from))
}

pub fn shutdown_write(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::shutdown(fd, libc::SHUT_WR) })?;
    Ok(())
}

/// The number of sent bytes that the peer has not taken: SIOCOUTQ of tcp(7) and unix(7).
pub fn untaken_bytes(fd: RawFd) -> io::Result<usize> {
    let mut len: libc::c_int = 0;
    // SAFETY: the length is live through the call, with its true size.
    checked(unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut len) })?;
    Ok(usize::try_from(len).unwrap_or(0))
}

/// Whether the peer has ended its side, even if data that came before that was not received yet: poll(2).
pub fn is_ended(fd: RawFd) -> io::Result<bool> {
    let mut wanted = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry, live through the call.
    checked(unsafe { libc::poll(&raw mut wanted, 1, 0) })?;
    Ok(wanted.revents != 0)
}

/// Whether it takes more to send now: poll(2).
pub fn is_writable(fd: RawFd) -> io::Result<bool> {
    let mut wanted = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, live through the call.
    checked(unsafe { libc::poll(&raw mut wanted, 1, 0) })?;
    Ok(wanted.revents != 0)
}

/// getsockname(2).
pub fn local_address(fd: RawFd) -> io::Result<Address> {
    // SAFETY: `filled` passes a live address and its true size.
    filled(|address, len| unsafe { libc::getsockname(fd, address, len) })
}

/// getpeername(2).
pub fn peer_address(fd: RawFd) -> io::Result<Address> {
    // SAFETY: `filled` passes a live address and its true size.
    filled(|address, len| unsafe { libc::getpeername(fd, address, len) })
}

/// The address that a call writes.
fn filled(
    call: impl FnOnce(*mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int,
) -> io::Result<Address> {
    let mut address = Address::room();
    checked(call((&raw mut address.storage).cast(), &raw mut address.len))?;
    Ok(address)
}

fn option(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: value and length are live through the call, with their true sizes.
    checked(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Whether it is a byte stream, where a short read has emptied the receive queue. False if that cannot be determined.
pub fn is_stream(fd: RawFd) -> bool {
    kind(fd).is_ok_and(|(family, kind, _)| {
        kind == libc::SOCK_STREAM && [libc::AF_INET, libc::AF_INET6].contains(&family)
    })
}

/// Family, type and protocol of a socket, as `socket.socket(fileno=…)` needs them.
pub fn kind(fd: RawFd) -> io::Result<(i32, i32, i32)> {
    Ok((
        option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?,
        option(fd, libc::SOL_SOCKET, libc::SO_TYPE)?,
        option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?,
    ))
}

/// TCP_NODELAY, which asyncio sets on every TCP connection.
pub fn set_nodelay(fd: RawFd) -> io::Result<()> {
    let one: libc::c_int = 1;
    // SAFETY: the value is live through the call, with its true size.
    checked(unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const one).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}
