//! The data behind `get_extra_info` of a TLS transport: the handshake's results and everything from the transport
//! below.

use super::transport::TlsTransport;
use crate::ffi::fallible;
use pyo3::intern;
use pyo3::prelude::*;

impl TlsTransport {
    /// Drops everything that only `get_extra_info` would use, for protocols that keep a reference to their transport.
    pub fn forget(&self, py: Python<'_>) {
        self.library.release(py);
        let dropped =
            self.state.with(py, |s| (s.sslcontext.take(), s.under.take(), s.extra.take()));
        drop(dropped);
    }

    /// Stores the handshake's results now, if they cannot be read later.
    pub fn remember_handshake(&self, py: Python<'_>) -> PyResult<()> {
        let Some(object) = self.library.told_at_once(py) else { return Ok(()) };
        let extra = fallible::dict(py)?;
        for (name, method) in
            [("peercert", "getpeercert"), ("cipher", "cipher"), ("compression", "compression")]
        {
            extra.set_item(name, object.call_method0(method)?)?;
        }
        let extra = extra.unbind();
        self.state.with(py, |s| s.extra = Some(extra));
        Ok(())
    }

    fn info<'py>(&self, name: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        let Ok(key) = name.extract::<&str>() else { return Ok(None) };
        let method = match key {
            "sslcontext" => {
                return Ok(self
                    .state
                    .with(py, |s| s.sslcontext.as_ref().map(|c| c.bind(py).clone())));
            }
            _ if !self.state.with(py, |s| s.is_shaken) => return Ok(None),
            "ssl_object" => return Ok(self.library.object(py)),
            "peercert" => "getpeercert",
            "cipher" | "compression" => key,
            _ => return Ok(None),
        };
        let known = self.state.with(py, |s| s.extra.as_ref().map(|extra| extra.bind(py).clone()));
        let extra = if let Some(extra) = known {
            extra
        } else {
            let extra = fallible::dict(py)?;
            let kept = extra.clone().unbind();
            self.state.with(py, |s| s.extra = Some(kept));
            extra
        };
        if let Some(value) = extra.get_item(name)? {
            return Ok(Some(value));
        }
        let Some(object) = self.library.object(py) else { return Ok(None) };
        let value = object.call_method0(method)?;
        extra.set_item(name, &value)?;
        Ok(Some(value))
    }
}

#[pymethods]
impl TlsTransport {
    /// Return information about the transport: `sslcontext` and, after the handshake, `ssl_object`, `peercert`,
    /// `cipher`, `compression`; and everything from the transport below. Returns `default` for an unknown name.
    #[pyo3(signature = (name, default = None))]
    fn get_extra_info<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let this = slf.get();
        Self::flush_gathered(slf)?;
        if let Some(value) = this.info(name)? {
            return Ok(Some(value));
        }
        match this.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py))) {
            Some(under) => under
                .object(py)
                .call_method1(intern!(py, "get_extra_info"), (name, default))
                .map(Some),
            None => Ok(default),
        }
    }
}
