//! Socket addresses in the kernel's format: a sockaddr_storage and its length.
//!
//! A plain value, so that it can be stored with a datagram or a connection and converted to a Python address only on
//! request.

use std::ffi::CStr;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a sockaddr. Unix addresses are the longest that we decode (110).
#[derive(Clone, Copy)]
pub struct Address {
    pub(super) storage: libc::sockaddr_storage,
    pub(super) len: libc::socklen_t,
}

/// A decoded address. Unix paths are bytes; abstract names keep their leading NUL.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    V4 {
        host: String,
        port: u16,
    },
    V6 {
        host: String,
        port: u16,
        flow: u32,
        scope: u32,
    },
    Unix(&'a [u8]),
    /// No address, as recvfrom returns it for connected stream sockets.
    Empty,
    /// A family that only the `socket` module decodes.
    Other(i32),
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.decode().fmt(f)
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Address {
    /// Space for the kernel to write an address into.
    pub fn room() -> Self {
        // SAFETY: sockaddr_storage is plain data, for which all zeros (AF_UNSPEC) is a value.
        let storage = unsafe { mem::zeroed() };
        Self { storage, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn of<T>(raw: &T, len: usize) -> Self {
        let mut address = Self::room();
        debug_assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>());
        // SAFETY: T is one of the kernel's sockaddr types, plain data not longer than the storage.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(raw).cast::<u8>(),
                (&raw mut address.storage).cast::<u8>(),
                size_of::<T>(),
            );
        }
        address.len = len as libc::socklen_t;
        address
    }

    pub fn v4(ip: Ipv4Addr, port: u16) -> Self {
        let raw = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
            sin_zero: [0; 8],
        };
        Self::of(&raw, size_of_val(&raw))
    }

    pub fn v6(ip: Ipv6Addr, port: u16, flow: u32, scope: u32) -> Self {
        let raw = libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: port.to_be(),
            sin6_flowinfo: flow.to_be(),
            sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
            sin6_scope_id: scope,
        };
        Self::of(&raw, size_of_val(&raw))
    }

    /// A path or, with a leading NUL, an abstract name; `None` if it is too long.
    pub fn unix(path: &[u8]) -> Option<Self> {
        let mut raw = libc::sockaddr_un {
            sun_family: libc::AF_UNIX as libc::sa_family_t,
            sun_path: [0; 108],
        };
        let is_abstract = path.first() == Some(&0);
        if path.len() + usize::from(!is_abstract) > raw.sun_path.len() {
            return None;
        }
        for (target, byte) in raw.sun_path.iter_mut().zip(path) {
            // c_char is signed on x86-64 and unsigned on AArch64.
            *target = *byte as libc::c_char;
        }
        let offset = mem::offset_of!(libc::sockaddr_un, sun_path);
        Some(Self::of(&raw, offset + path.len() + usize::from(!is_abstract && !path.is_empty())))
    }

    /// The inverse of `as_bytes`. Longer input is truncated.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut address = Self::room();
        let len = bytes.len().min(size_of::<libc::sockaddr_storage>());
        // SAFETY: source and target are live, do not overlap, and are at least `len` bytes long.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (&raw mut address.storage).cast::<u8>(),
                len,
            );
        }
        address.len = len as libc::socklen_t;
        address
    }

    pub fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// An internet address that stands for all addresses of the machine.
    pub fn is_wildcard(&self) -> bool {
        match self.family() {
            libc::AF_INET => self.view::<libc::sockaddr_in>().sin_addr.s_addr == 0,
            libc::AF_INET6 => self.view::<libc::sockaddr_in6>().sin6_addr.s6_addr == [0; 16],
            _ => false,
        }
    }

    /// The address and port, an IPv4 address in its mapped form (RFC 4291 section 2.5.5.2). None: no internet address.
    pub fn internet(&self) -> Option<(Ipv6Addr, u16)> {
        match self.family() {
            libc::AF_INET => {
                let raw: &libc::sockaddr_in = self.view();
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Some((ip.to_ipv6_mapped(), u16::from_be(raw.sin_port)))
            }
            libc::AF_INET6 => {
                let raw: &libc::sockaddr_in6 = self.view();
                Some((Ipv6Addr::from(raw.sin6_addr.s6_addr), u16::from_be(raw.sin6_port)))
            }
            _ => None,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        let len = (self.len as usize).min(size_of::<libc::sockaddr_storage>());
        // SAFETY: the whole storage was zeroed and `len` is capped by its size, so that the bytes are initialised and
        // inside it.
        unsafe { std::slice::from_raw_parts((&raw const self.storage).cast::<u8>(), len) }
    }

    fn view<T>(&self) -> &T {
        debug_assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>());
        // SAFETY: sockaddr_storage is aligned and sized for every sockaddr type, and was zeroed.
        unsafe { &*(&raw const self.storage).cast::<T>() }
    }

    pub fn decode(&self) -> Decoded<'_> {
        if self.len == 0 {
            return Decoded::Empty;
        }
        match self.family() {
            libc::AF_INET => {
                let raw: &libc::sockaddr_in = self.view();
                Decoded::V4 {
                    host: Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr)).to_string(),
                    port: u16::from_be(raw.sin_port),
                }
            }
            libc::AF_INET6 => {
                let raw: &libc::sockaddr_in6 = self.view();
                Decoded::V6 {
                    host: v6_text(&raw.sin6_addr),
                    port: u16::from_be(raw.sin6_port),
                    flow: u32::from_be(raw.sin6_flowinfo),
                    scope: raw.sin6_scope_id,
                }
            }
            libc::AF_UNIX => Decoded::Unix(self.unix_path()),
            other => Decoded::Other(other),
        }
    }

    fn unix_path(&self) -> &[u8] {
        let path =
            self.as_bytes().get(mem::offset_of!(libc::sockaddr_un, sun_path)..).unwrap_or(&[]);
        if path.first() == Some(&0) {
            return path;
        }
        // Depending on how it was bound, Linux includes the path's terminating NUL or not (unix(7)).
        path.split(|byte| *byte == 0).next().unwrap_or(&[])
    }
}

/// Space for the longest IPv6 text and its NUL (netinet/in.h).
const INET6_ADDRSTRLEN: usize = 46;

unsafe extern "C" {
    // Not in the libc crate.
    fn inet_ntop(
        family: libc::c_int,
        source: *const libc::c_void,
        target: *mut libc::c_char,
        size: libc::socklen_t,
    ) -> *const libc::c_char;
}

/// inet_ntop(3), which spells mapped and compatible addresses as Python programs expect.
fn v6_text(ip: &libc::in6_addr) -> String {
    let mut text = [0 as libc::c_char; INET6_ADDRSTRLEN];
    // SAFETY: both pointers are to live objects of the sizes that AF_INET6 requires.
    let result = unsafe {
        inet_ntop(
            libc::AF_INET6,
            std::ptr::from_ref(ip).cast(),
            text.as_mut_ptr(),
            INET6_ADDRSTRLEN as libc::socklen_t,
        )
    };
    if result.is_null() {
        return Ipv6Addr::from(ip.s6_addr).to_string();
    }
    // SAFETY: inet_ntop has written a NUL-terminated string into `text`.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        assert_eq!(
            Address::v4(Ipv4Addr::LOCALHOST, 80).decode(),
            Decoded::V4 { host: "127.0.0.1".into(), port: 80 }
        );
        assert_eq!(
            Address::v6(Ipv6Addr::LOCALHOST, 443, 5, 2).decode(),
            Decoded::V6 { host: "::1".into(), port: 443, flow: 5, scope: 2 }
        );
        for path in [&b"/tmp/x"[..], b"\0abstract", b""] {
            let address = Address::unix(path).expect("short enough");
            assert_eq!(address.decode(), Decoded::Unix(path));
            assert_eq!(Address::from_bytes(address.as_bytes()), address);
        }
        assert!(Address::unix(&[b'x'; 108]).is_none());
        assert!(Address::v4(Ipv4Addr::UNSPECIFIED, 1).is_wildcard());
        assert!(Address::v6(Ipv6Addr::UNSPECIFIED, 1, 0, 0).is_wildcard());
        assert!(!Address::v4(Ipv4Addr::LOCALHOST, 1).is_wildcard());
    }
}
