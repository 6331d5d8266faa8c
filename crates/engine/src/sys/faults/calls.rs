//! The functions of `libc` that the files of `sys` call, under their names; each may fail by order.
//!
//! Everything else of `libc` is passed on as it is.

#![allow(non_upper_case_globals, reason = "libc's constants for system calls are written so")]
#![allow(
    clippy::too_many_arguments,
    clippy::missing_safety_doc,
    reason = "each is libc's function of the same name"
)]
#![allow(
    clippy::cast_sign_loss,
    clippy::collapsible_match,
    reason = "the kernel's counts and addresses"
)]

use super::{Fault, failed, gate};
pub use libc::*;

/// A transfer that fails. If it says that there is nothing to do yet, the next wait reports the descriptor, as the
/// kernel does when that changes.
fn refused(fd: c_int, errno: c_int, writes: bool) -> ssize_t {
    if errno == EAGAIN {
        super::waits::will_be_ready(fd, writes);
    }
    failed(errno) as ssize_t
}

/// Whether a transfer of this descriptor may be short; a datagram is never divided. To the program, a short transfer says
/// that there is no more (epoll(7)): that must be reported when it changes.
fn is_shortened(fd: c_int, writes: bool) -> bool {
    let mut kind: c_int = SOCK_STREAM;
    let mut len = size_of::<c_int>() as socklen_t;
    // A failure leaves the kind as it is: a pipe.
    // SAFETY: value and length are live through the call, with their true sizes.
    unsafe { libc::getsockopt(fd, SOL_SOCKET, SO_TYPE, (&raw mut kind).cast(), &raw mut len) };
    if kind == SOCK_STREAM {
        super::waits::will_be_ready(fd, writes);
    }
    kind == SOCK_STREAM
}

/// A table: functions that do what libc's does, unless it is their turn to fail.
macro_rules! plain {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            if let Some(Fault::Errno(errno)) = gate(stringify!($name)) {
                return failed(errno) as $result;
            }
            // SAFETY: the caller's promise to the function of that name.
            unsafe { libc::$name($($argument),*) }
        }
    )* };
}

plain! {
    shutdown(fd: c_int, how: c_int) -> c_int;
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    epoll_create1(flags: c_int) -> c_int;
    eventfd(count: c_uint, flags: c_int) -> c_int;
    pipe2(fds: *mut c_int, flags: c_int) -> c_int;
    lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fsync(fd: c_int) -> c_int;
    fdatasync(fd: c_int) -> c_int;
    ftruncate(fd: c_int, len: off_t) -> c_int;
    fallocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int;
    fstat(fd: c_int, status: *mut stat) -> c_int;
    fstatfs(fd: c_int, status: *mut statfs) -> c_int;
    renameat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int;
    unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int;
    mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int;
    linkat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int) -> c_int;
    symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int;
    inotify_init1(flags: c_int) -> c_int;
    inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int;
    inotify_rm_watch(fd: c_int, watch: c_int) -> c_int;
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    tee(from: c_int, to: c_int, len: size_t, flags: c_uint) -> ssize_t;
}

/// A table: functions of a socket that fail like transfers.
macro_rules! of_sockets {
    ($($writes:literal $name:ident($fd:ident: c_int $(, $argument:ident: $kind:ty)*) -> $result:ty;)*) => { $(
        pub unsafe extern "C" fn $name($fd: c_int $(, $argument: $kind)*) -> $result {
            if let Some(Fault::Errno(errno)) = gate(stringify!($name)) {
                return refused($fd, errno, $writes) as $result;
            }
            // SAFETY: the caller's promise to the function of that name.
            unsafe { libc::$name($fd $(, $argument)*) }
        }
    )* };
}

of_sockets! {
    false accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    true sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    false recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
}

/// A table: transfers of one buffer, of which the third argument is the length.
macro_rules! transfers {
    ($($writes:literal $name:ident($fd:ident, $buffer:ty $(, $argument:ident: $kind:ty)*);)*) => { $(
        pub unsafe extern "C" fn $name(fd: c_int, buffer: $buffer, len: size_t $(, $argument: $kind)*) -> ssize_t {
            let len = match gate(stringify!($name)) {
                Some(Fault::Errno(errno)) => return refused(fd, errno, $writes),
                Some(Fault::Short) if is_shortened(fd, $writes) => len.min(1),
                _ => len,
            };
            // SAFETY: the caller's promise to the function of that name; a shorter length is also live.
            unsafe { libc::$name(fd, buffer, len $(, $argument)*) }
        }
    )* };
}

transfers! {
    false recv(fd, *mut c_void, flags: c_int);
    true send(fd, *const c_void, flags: c_int);
}

/// eventfds transfer eight bytes or nothing, so that a short transfer concerns longer buffers only.
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    let len = match gate(if len == 8 { "eventfd read" } else { "read" }) {
        Some(Fault::Errno(errno)) => return refused(fd, errno, false),
        Some(Fault::Short) if len != 8 && is_shortened(fd, false) => 1,
        _ => len,
    };
    // SAFETY: the caller's promise to read(2); a shorter length is also live.
    unsafe { libc::read(fd, buffer, len) }
}

/// Only eventfds are written to with it.
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    if let Some(Fault::Errno(errno)) = gate("eventfd write") {
        return refused(fd, errno, true);
    }
    // SAFETY: the caller's promise to write(2).
    unsafe { libc::write(fd, buffer, len) }
}

/// The first byte of the first segment that has one, as a vector of its own.
///
/// # Safety
/// `vectors` are `count` valid descriptions.
unsafe fn first_byte(vectors: *const iovec, count: usize) -> iovec {
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts(vectors, count) };
    let first = all.iter().find(|vector| vector.iov_len > 0);
    first.map_or(iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }, |vector| iovec {
        iov_len: 1,
        ..*vector
    })
}

/// A table: transfers of several buffers.
macro_rules! vectored {
    ($($writes:literal $name:ident($($argument:ident: $kind:ty),*);)*) => { $(
        pub unsafe extern "C" fn $name(fd: c_int, vectors: *const iovec, count: c_int $(, $argument: $kind)*) -> ssize_t {
            match gate(stringify!($name)) {
                Some(Fault::Errno(errno)) => return refused(fd, errno, $writes),
                Some(Fault::Short) if count > 0 && is_shortened(fd, $writes) => {
                    // SAFETY: the caller's promise to the function of that name.
                    let byte = unsafe { first_byte(vectors, count as usize) };
                    // SAFETY: a part of the caller's memory.
                    return unsafe { libc::$name(fd, &raw const byte, 1 $(, $argument)*) };
                }
                _ => {}
            }
            // SAFETY: the caller's promise to the function of that name.
            unsafe { libc::$name(fd, vectors, count $(, $argument)*) }
        }
    )* };
}

vectored! {
    false readv();
    true writev();
    false preadv(offset: off_t);
    true pwritev(offset: off_t);
}

pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    match gate("recvmsg") {
        Some(Fault::Errno(errno)) => return refused(fd, errno, false),
        Some(Fault::Short) if is_shortened(fd, false) => {
            // SAFETY: the caller's header is live and nobody else uses it.
            let header = unsafe { &mut *message };
            // SAFETY: its vectors are live.
            let byte = unsafe { first_byte(header.msg_iov, header.msg_iovlen) };
            // SAFETY: a part of the caller's memory.
            return unsafe { libc::recv(fd, byte.iov_base, byte.iov_len, flags) };
        }
        _ => {}
    }
    // SAFETY: the caller's promise to recvmsg(2).
    unsafe { libc::recvmsg(fd, message, flags) }
}

pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    match gate("sendmsg") {
        Some(Fault::Errno(errno)) => return refused(fd, errno, true),
        Some(Fault::Short) if is_shortened(fd, true) => {
            // SAFETY: the caller's header is live.
            let header = unsafe { &*message };
            // SAFETY: its vectors are live.
            let byte = unsafe { first_byte(header.msg_iov, header.msg_iovlen) };
            // SAFETY: a part of the caller's memory.
            return unsafe { libc::send(fd, byte.iov_base, byte.iov_len, flags) };
        }
        _ => {}
    }
    // SAFETY: the caller's promise to sendmsg(2).
    unsafe { libc::sendmsg(fd, message, flags) }
}

/// Linux closes the descriptor whatever the result is (close(2)).
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let fault = gate("close");
    // SAFETY: the caller's promise to close(2).
    let result = unsafe { libc::close(fd) };
    match fault {
        Some(Fault::Errno(errno)) => failed(errno),
        _ => result,
    }
}

/// fcntl(2) with the argument that all of `sys` pass.
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    if let Some(Fault::Errno(errno)) = gate("fcntl") {
        return failed(errno);
    }
    // SAFETY: no pointers are passed.
    unsafe { libc::fcntl(fd, command, argument) }
}

/// ioctl(2) with the address of an integer, which is all that `sys` passes.
pub unsafe extern "C" fn ioctl(fd: c_int, request: Ioctl, value: *mut c_int) -> c_int {
    if let Some(Fault::Errno(errno)) = gate("ioctl") {
        return failed(errno);
    }
    // SAFETY: the caller's promise to ioctl(2).
    unsafe { libc::ioctl(fd, request, value) }
}

/// `flags`: of the calls that have some, the last argument.
fn name_of(number: c_long, flags: c_long) -> &'static str {
    let is_at_once = flags & c_long::from(RWF_NOWAIT) != 0;
    match number {
        SYS_preadv2 if is_at_once => "preadv2 at once",
        SYS_pwritev2 if is_at_once => "pwritev2 at once",
        SYS_preadv2 => "preadv2",
        SYS_pwritev2 => "pwritev2",
        SYS_openat2 => "openat2",
        SYS_renameat2 => "renameat2",
        SYS_statx => "statx",
        SYS_io_setup => "io_setup",
        SYS_io_submit => "io_submit",
        SYS_io_getevents => "io_getevents",
        SYS_io_cancel => "io_cancel",
        SYS_io_destroy => "io_destroy",
        _ => "syscall",
    }
}

/// syscall(2). Not variadic, because Rust cannot define such functions; the processors that oneloop is built for pass
/// integers to variadic functions as to others.
unsafe extern "C" fn numbered(
    number: c_long,
    first: c_long,
    second: c_long,
    mut third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    if number == SYS_epoll_pwait2 {
        // SAFETY: the arguments of that call.
        return unsafe { super::waits::epoll_pwait2(first, second, third, fourth, fifth, sixth) };
    }
    let mut byte = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut second = second;
    match gate(name_of(number, sixth)) {
        Some(Fault::Errno(errno)) => return failed(errno).into(),
        Some(Fault::Short) if [SYS_preadv2, SYS_pwritev2].contains(&number) && third > 0 => {
            // SAFETY: the second and third arguments of these calls are the vectors and their number.
            byte = unsafe { first_byte(second as *const iovec, third as usize) };
            second = &raw mut byte as c_long;
            third = 1;
        }
        Some(Fault::Short) if [SYS_io_submit, SYS_io_getevents].contains(&number) => {
            // The number of operations to submit; io_getevents may return fewer events in any case.
            if number == SYS_io_submit {
                second = second.min(1);
            }
        }
        _ => {}
    }
    // SAFETY: the caller's promise to syscall(2).
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    std::hint::black_box(&mut byte);
    result
}

type Numbered =
    unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
type Variadic = unsafe extern "C" fn(c_long, ...) -> c_long;

#[allow(non_upper_case_globals, reason = "it stands for a function")]
pub const syscall: Variadic = {
    let function: Numbered = numbered;
    // SAFETY: see `numbered`: both conventions pass integers in the same registers.
    unsafe { std::mem::transmute::<Numbered, Variadic>(function) }
};

pub use super::waits::{epoll_ctl, epoll_wait};
