//! Names of header fields as lower-case `bytes`. The names of common fields are made once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

pub const KNOWN: [&str; 48] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "dnt",
    "expect",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "proxy-connection",
    "range",
    "referer",
    "sec-ch-ua",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "te",
    "traceparent",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];

pub const PLACES: usize = 256;

/// The known names, each at the place computed from its length and two of its letters. Names that share a place are
/// made anew each time.
struct Table([Option<(&'static str, Py<PyBytes>)>; PLACES]);

pub fn place(name: &[u8]) -> usize {
    let letter = |at: usize| usize::from(name[at] | 0x20);
    let last = name.len() - 1;
    (name.len() * 31 + letter(0) * 7 + letter(last) * 13 + letter(last / 2) * 3) % PLACES
}

/// The name in lower case. It must not be empty.
pub fn lower<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    let table = TABLE.get_or_init(py, || {
        let mut table = Table([const { None }; PLACES]);
        for known in KNOWN {
            table.0[place(known.as_bytes())]
                .get_or_insert_with(|| (known, PyBytes::new(py, known.as_bytes()).unbind()));
        }
        table
    });
    match &table.0[place(name.as_bytes())] {
        Some((known, object)) if known.eq_ignore_ascii_case(name) => Ok(object.bind(py).clone()),
        _ => PyBytes::new_with(py, name.len(), |room| {
            room.copy_from_slice(name.as_bytes());
            room.make_ascii_lowercase();
            Ok(())
        }),
    }
}
