//! getaddrinfo(3): the addresses of a name, as the system's configuration (nsswitch.conf, hosts) says. May wait for
//! servers. Not a system call, but the C library's only way to this configuration.

use super::address::Address;
use super::libc;
use std::ffi::CStr;
use std::io;
use std::ptr;

/// What is looked up; the numbers are those of getaddrinfo(3).
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    pub family: i32,
    pub kind: i32,
    pub protocol: i32,
    pub flags: i32,
}

#[derive(Debug)]
pub struct Found {
    pub family: i32,
    pub kind: i32,
    pub protocol: i32,
    /// The first address has it, if AI_CANONNAME was given.
    pub canonical_name: Vec<u8>,
    pub address: Address,
}

#[derive(Debug)]
pub enum LookUpError {
    /// One of the EAI numbers, and its text.
    Name(i32, String),
    System(io::Error),
}

/// The list that the C library has allocated.
struct List(*mut libc::addrinfo);

impl Drop for List {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: getaddrinfo has returned this list, and nothing refers to it any more.
            unsafe { libc::freeaddrinfo(self.0) }
        }
    }
}

fn failure(code: i32) -> LookUpError {
    if code == libc::EAI_SYSTEM {
        return LookUpError::System(io::Error::last_os_error());
    }
    // SAFETY: takes any number.
    let text = unsafe { libc::gai_strerror(code) };
    // SAFETY: a constant text of the C library, which ends with a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    LookUpError::Name(code, text.to_string_lossy().into_owned())
}

/// Blocks; from any thread.
pub fn look_up(
    host: &CStr,
    service: Option<&CStr>,
    hints: Hints,
) -> Result<Vec<Found>, LookUpError> {
    let wanted = libc::addrinfo {
        ai_flags: hints.flags,
        ai_family: hints.family,
        ai_socktype: hints.kind,
        ai_protocol: hints.protocol,
        ai_addrlen: 0,
        ai_addr: ptr::null_mut(),
        ai_canonname: ptr::null_mut(),
        ai_next: ptr::null_mut(),
    };
    let mut list = List(ptr::null_mut());
    let service = service.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the texts, the hints and the place for the result are live through the call.
    let code =
        unsafe { libc::getaddrinfo(host.as_ptr(), service, &raw const wanted, &raw mut list.0) };
    if code != 0 {
        return Err(failure(code));
    }
    let mut found = Vec::new();
    let mut next = list.0;
    while !next.is_null() {
        // SAFETY: an entry of the list, which `list` keeps.
        let entry = unsafe { &*next };
        found.push(Found {
            family: entry.ai_family,
            kind: entry.ai_socktype,
            protocol: entry.ai_protocol,
            canonical_name: canonical_name(entry),
            address: address(entry),
        });
        next = entry.ai_next;
    }
    Ok(found)
}

fn canonical_name(entry: &libc::addrinfo) -> Vec<u8> {
    if entry.ai_canonname.is_null() {
        return Vec::new();
    }
    // SAFETY: the entry's text, which ends with a NUL and lives as long as the list.
    unsafe { CStr::from_ptr(entry.ai_canonname) }.to_bytes().to_vec()
}

fn address(entry: &libc::addrinfo) -> Address {
    // SAFETY: the entry's address, of that length, which lives as long as the list.
    Address::from_bytes(unsafe {
        std::slice::from_raw_parts(entry.ai_addr.cast::<u8>(), entry.ai_addrlen as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::super::address::Decoded;
    use super::*;

    const ANY: Hints =
        Hints { family: libc::AF_UNSPEC, kind: libc::SOCK_STREAM, protocol: 0, flags: 0 };

    #[test]
    fn a_numeric_address_is_found() {
        let found = look_up(c"::1", Some(c"80"), ANY).expect("needs no server");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].family, found[0].kind), (libc::AF_INET6, libc::SOCK_STREAM));
        let expected = Decoded::V6 { host: "::1".into(), port: 80, flow: 0, scope: 0 };
        assert_eq!(found[0].address.decode(), expected);
        assert!(found[0].canonical_name.is_empty());
    }

    #[test]
    fn the_canonical_name_is_told() {
        let hints = Hints { flags: libc::AI_CANONNAME | libc::AI_NUMERICHOST, ..ANY };
        let found = look_up(c"127.0.0.1", None, hints).expect("needs no server");
        assert_eq!(found[0].canonical_name, b"127.0.0.1");
    }

    #[test]
    fn what_is_no_address_is_refused_with_number_and_text() {
        let hints = Hints { flags: libc::AI_NUMERICHOST, ..ANY };
        let error = look_up(c"name", None, hints).expect_err("it is a name");
        assert!(matches!(error, LookUpError::Name(libc::EAI_NONAME, text) if !text.is_empty()));
    }
}
