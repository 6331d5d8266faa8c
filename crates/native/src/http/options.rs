//! `Options`: the settings of a server.

use super::static_files::StaticFiles;
use oneloop_http1::Limits;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    Asgi,
    Wsgi,
}

#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub struct Options {
    pub interface: Interface,
    /// WSGI: each request runs in a green thread.
    pub green: bool,
    /// WSGI: the maximum number of threads, without green threads.
    pub threads: usize,
    /// WSGI: the value of `wsgi.multiprocess`.
    pub multiprocess: bool,
    pub root_path: String,
    /// The state from the lifespan; each request gets a copy.
    pub state: Option<Py<PyDict>>,
    /// The fields of every answer except `date`, in their written form.
    pub fields: Vec<u8>,
    pub date_header: bool,
    pub has_server_field: bool,
    pub limits: Limits,
    pub keep_alive_ns: u64,
    pub header_ns: u64,
    pub body_ns: u64,
    pub limit_concurrency: Option<usize>,
    /// Connections begin with a PROXY header.
    pub proxy_protocol: bool,
    /// The TLS context for connections after that header.
    pub tls_behind_proxy: Option<Py<PyAny>>,
    pub trust: Option<Py<PyAny>>,
    pub on_response: Option<Py<PyAny>>,
    pub on_request_end: Option<Py<PyAny>>,
    /// Folders that are served before the application.
    pub static_files: Option<Box<StaticFiles>>,
    pub ws_max_size: usize,
    pub ws_ping_interval_ns: u64,
    pub ws_ping_timeout_ns: u64,
    pub ws_deflate: bool,
}

/// No deadline.
pub const NEVER_NS: u64 = u64::MAX;

fn ns(name: &str, seconds: Option<f64>) -> PyResult<u64> {
    match seconds {
        None => Ok(NEVER_NS),
        // A number that is too large means no deadline, as does infinity.
        Some(seconds) if seconds > 0.0 => {
            let time =
                std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX);
            Ok(u64::try_from(time.as_nanos()).unwrap_or(NEVER_NS))
        }
        Some(seconds) => {
            Err(PyValueError::new_err(format!("{name} must be a positive number, got {seconds}")))
        }
    }
}

impl Options {
    /// TypeError for an unknown option, ValueError for an invalid value.
    pub fn new(interface: &str, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let interface = match interface {
            "asgi" => Interface::Asgi,
            "wsgi" => Interface::Wsgi,
            other => {
                let text = format!("interface must be 'asgi' or 'wsgi', not {other:?}");
                return Err(PyValueError::new_err(text));
            }
        };
        let mut options = Self {
            interface,
            green: false,
            threads: 8,
            multiprocess: false,
            root_path: String::new(),
            state: None,
            fields: Vec::new(),
            date_header: true,
            has_server_field: false,
            limits: Limits::default(),
            keep_alive_ns: ns("", Some(5.0))?,
            header_ns: ns("", Some(10.0))?,
            body_ns: ns("", Some(60.0))?,
            limit_concurrency: None,
            proxy_protocol: false,
            tls_behind_proxy: None,
            trust: None,
            on_response: None,
            on_request_end: None,
            static_files: None,
            ws_max_size: 16 * 1024 * 1024,
            ws_ping_interval_ns: ns("", Some(20.0))?,
            ws_ping_timeout_ns: ns("", Some(20.0))?,
            ws_deflate: true,
        };
        for (name, value) in given.into_iter().flatten() {
            options.set(name.extract()?, &value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match name {
            "green" => self.green = value.extract()?,
            "threads" => {
                self.threads = value.extract()?;
                if self.threads == 0 {
                    return Err(PyValueError::new_err("threads must be at least 1"));
                }
            }
            "multiprocess" => self.multiprocess = value.extract()?,
            "root_path" => self.root_path = value.extract()?,
            "state" => self.state = value.extract()?,
            "headers" => self.set_fields(value)?,
            "date_header" => self.date_header = value.extract()?,
            "max_line_bytes" => self.limits.line_bytes = value.extract()?,
            "max_header_bytes" => self.limits.head_bytes = value.extract()?,
            "max_headers" => self.limits.headers = value.extract()?,
            "max_body_bytes" => {
                self.limits.body_bytes = value.extract::<Option<u64>>()?.unwrap_or(u64::MAX);
            }
            "keep_alive_timeout_s" => self.keep_alive_ns = ns(name, value.extract()?)?,
            "header_timeout_s" => self.header_ns = ns(name, value.extract()?)?,
            "body_timeout_s" => self.body_ns = ns(name, value.extract()?)?,
            "limit_concurrency" => self.limit_concurrency = value.extract()?,
            "proxy_protocol" => self.proxy_protocol = value.extract()?,
            "tls_behind_proxy" => self.tls_behind_proxy = value.extract()?,
            "trust" => self.trust = value.extract()?,
            "on_response" => self.on_response = value.extract()?,
            "on_request_end" => self.on_request_end = value.extract()?,
            "static" => {
                let is_given = !value.is_none();
                self.static_files =
                    is_given.then(|| StaticFiles::new(value)).transpose()?.map(Box::new);
            }
            "ws_max_size" => self.ws_max_size = value.extract()?,
            "ws_ping_interval_s" => self.ws_ping_interval_ns = ns(name, value.extract()?)?,
            "ws_ping_timeout_s" => self.ws_ping_timeout_ns = ns(name, value.extract()?)?,
            "ws_per_message_deflate" => self.ws_deflate = value.extract()?,
            _ => {
                let text = format!("HttpServer() got an unexpected keyword argument '{name}'");
                return Err(PyTypeError::new_err(text));
            }
        }
        Ok(())
    }

    fn set_fields(&mut self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        for field in given.try_iter()? {
            let (name, value): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = field?.extract()?;
            let (name, value) = (name.as_bytes(), value.as_bytes());
            super::fields::check_field(name, value)?;
            self.has_server_field |= name.eq_ignore_ascii_case(b"server");
            self.fields.extend(name.iter().map(u8::to_ascii_lowercase));
            self.fields.extend_from_slice(b": ");
            self.fields.extend_from_slice(value);
            self.fields.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.state)?;
        visit.call(&self.trust)?;
        visit.call(&self.tls_behind_proxy)?;
        visit.call(&self.on_response)?;
        visit.call(&self.on_request_end)
    }
}
