//! Converts socket addresses between the kernel's format and the Python objects of the `socket` module.

use crate::ffi::fallible;
use crate::ffi::values::ToPython;
use crate::imports;
use oneloop_engine::sys::address::{Address, Decoded};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};
use std::net::{Ipv4Addr, Ipv6Addr};

/// `(host, port)`, `(host, port, flowinfo, scope_id)`, a path, or the bytes of an abstract name.
pub fn to_python<'py>(py: Python<'py>, address: &Address) -> PyResult<Bound<'py, PyAny>> {
    match address.decode() {
        Decoded::V4 { host, port } => (host, port).to_python(py),
        Decoded::V6 { host, port, flow, scope } => (host, port, flow, scope).to_python(py),
        Decoded::Unix(name) if name.first() == Some(&0) => {
            Ok(fallible::bytes(py, name)?.into_any())
        }
        Decoded::Unix(path) => imports::fsdecode(py)?.call1((fallible::bytes(py, path)?,)),
        Decoded::Empty | Decoded::Other(_) => Ok(py.None().into_bound(py)),
    }
}

/// The kernel's format of a plain address of `family`: numeric hosts in exact tuples, ASCII paths, names as bytes.
/// `None` leaves it to the `socket` module, which resolves names, parses zones and raises the exceptions for invalid
/// addresses.
pub fn from_python(family: i32, address: &Bound<'_, PyAny>) -> Option<Address> {
    match family {
        libc::AF_INET => {
            let tuple = address.cast_exact::<PyTuple>().ok()?;
            if tuple.len() != 2 {
                return None;
            }
            let port = number(tuple, 1)?;
            Some(Address::v4(host(tuple)?.parse::<Ipv4Addr>().ok()?, u16::try_from(port).ok()?))
        }
        libc::AF_INET6 => {
            let tuple = address.cast_exact::<PyTuple>().ok()?;
            let optional = |index| if tuple.len() > index { number(tuple, index) } else { Some(0) };
            if !(2..=4).contains(&tuple.len()) {
                return None;
            }
            let port = u16::try_from(number(tuple, 1)?).ok()?;
            let flow = optional(2).filter(|flow| *flow <= FLOW_MAX)?;
            Some(Address::v6(host(tuple)?.parse::<Ipv6Addr>().ok()?, port, flow, optional(3)?))
        }
        libc::AF_UNIX => match address.cast_exact::<PyString>() {
            Ok(path) => Address::unix(path.to_str().ok().filter(|p| p.is_ascii())?.as_bytes()),
            Err(_) => Address::unix(address.cast_exact::<PyBytes>().ok()?.as_bytes()),
        },
        _ => None,
    }
}

/// The flow label and traffic class of RFC 3493 section 3.3, in the range that the `socket` module accepts.
const FLOW_MAX: u32 = 0xf_ffff;

fn host<'a>(tuple: &'a Bound<'_, PyTuple>) -> Option<&'a str> {
    let host: &Bound<'_, PyAny> = tuple.as_slice().first()?;
    host.cast_exact::<PyString>().ok()?.to_str().ok()
}

fn number(tuple: &Bound<'_, PyTuple>, index: usize) -> Option<u32> {
    let number = tuple.get_borrowed_item(index).ok()?;
    if !number.is_exact_instance_of::<PyInt>() {
        return None;
    }
    number.extract().ok()
}
