//! URLs as browsers read them (WHATWG URL Standard), by the crate `url`: international names, percent-encoding, relative
//! references.

use crate::ffi::fallible;
use crate::ffi::values::{ToPython, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use url::Url;

/// Parse a URL, relative to `base` if one is given. Returns its parts and its whole text: scheme, user, password, host,
/// port, path, query, fragment; the host without the brackets of an IPv6 address.
///
/// Raises:
///     ValueError: why it is none.
#[pyfunction]
#[pyo3(signature = (text, base = None))]
pub fn split_url<'py>(
    py: Python<'py>,
    text: &str,
    base: Option<&str>,
) -> PyResult<Value<(Bound<'py, PyTuple>, String)>> {
    let refused =
        |error: url::ParseError| pyo3::exceptions::PyValueError::new_err(error.to_string());
    let url = match base {
        Some(base) => Url::parse(base).and_then(|base| base.join(text)),
        None => Url::parse(text),
    }
    .map_err(refused)?;
    let host = match url.host() {
        Some(url::Host::Domain(name)) => name.to_owned(),
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Ipv6(address)) => address.to_string(),
        None => String::new(),
    };
    let parts = [
        url.scheme().to_python(py)?,
        url.username().to_python(py)?,
        url.password().unwrap_or_default().to_python(py)?,
        host.to_python(py)?,
        url.port().to_python(py)?,
        url.path().to_python(py)?,
        url.query().to_python(py)?,
        url.fragment().to_python(py)?,
    ];
    Ok(Value((fallible::tuple(py, parts)?, url.into())))
}

/// Bytes that parsing leaves as they are in a path: fewer than there are.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
                | b'/'
                | b'%'
        )
}

/// The text before the path of a URL, and the target of a request.
type Split<'py> = (Bound<'py, PyString>, Bound<'py, PyBytes>);

/// Split a URL that parsing would not change behind its authority. Returns the text before the path, and the target of a
/// request; None for a URL that has to be parsed: another scheme, user information, a fragment, dots as segments,
/// characters that are encoded.
#[pyfunction]
pub fn plain_target<'py>(url: &Bound<'py, PyAny>) -> PyResult<Value<Option<Split<'py>>>> {
    let Some((place, target)) = plain_parts(url) else { return Ok(Value(None)) };
    let (place, target) =
        (fallible::text(url.py(), place)?, fallible::bytes(url.py(), target.as_bytes())?);
    Ok(Value(Some((place, target))))
}

fn plain_parts<'a>(url: &'a Bound<'_, PyAny>) -> Option<(&'a str, &'a str)> {
    let text = url.cast_exact::<PyString>().ok()?.to_str().ok()?;
    let scheme_len = match text.as_bytes() {
        [b'h', b't', b't', b'p', b':', b'/', b'/', ..] => 7,
        [b'h', b't', b't', b'p', b's', b':', b'/', b'/', ..] => 8,
        _ => return None,
    };
    let is_of_host = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']')
    };
    let host_len = text.as_bytes()[scheme_len..].iter().take_while(|byte| is_of_host(byte)).count();
    let (place, target) = text.split_at_checked(scheme_len + host_len)?;
    let target = if target.is_empty() { "/" } else { target };
    if host_len == 0 || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let has_dots =
        path.as_bytes().windows(3).any(|w| w[0] == b'%' && w[1] == b'2' && w[2] | 32 == b'e')
            || path.contains("/.");
    let is_right = path.bytes().all(is_plain)
        && query.bytes().all(|byte| is_plain(byte) || matches!(byte, b'?' | b'[' | b']'));
    if has_dots || !is_right {
        return None;
    }
    Some((place, target))
}
