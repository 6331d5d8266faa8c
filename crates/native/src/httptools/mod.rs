//! `oneloop.compat.httptools`: httptools' parsers on `oneloop_http1`, without an event loop.
//!
//! Uses only the protocol crate. The classes get httptools' names here; the exceptions are defined in Python.

mod callbacks;
mod early;
mod failure;
mod feeding;
mod head;
mod parser;
mod url;

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("HttpParser", py.get_type::<parser::HttpParser>())?;
    module.add("HttpRequestParser", py.get_type::<parser::HttpRequestParser>())?;
    module.add("HttpResponseParser", py.get_type::<parser::HttpResponseParser>())?;
    module.add("HttpUrl", py.get_type::<url::Url>())?;
    module.add_function(wrap_pyfunction!(url::parse_url, module)?)
}
