//! `Options`: the settings of a server, from the keyword arguments of `HttpServer`.

use crate::http::application::options::{ApplicationOptions, Interface};
use crate::http::application::static_files::folders::StaticFiles;
use crate::http::connection::options::{ConnectionOptions, Http2Options, HttpVersions, NEVER_NS};
use crate::http::exchange::compression::Compression;
use crate::http::exchange::response_fields;
use crate::http::exchange::service::ResponseOptions;
use oneloop_http1::Limits;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The options of each layer.
pub struct Options {
    pub response: ResponseOptions,
    pub connection: ConnectionOptions,
    pub application: ApplicationOptions,
}

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

fn versions(name: &str) -> PyResult<HttpVersions> {
    match name {
        "1" => Ok(HttpVersions::One),
        "2" | "h2c" => Ok(HttpVersions::Two),
        "auto" => Ok(HttpVersions::Auto),
        other => {
            let text = format!("http must be '1', '2', 'h2c' or 'auto', not {other:?}");
            Err(PyValueError::new_err(text))
        }
    }
}

fn within<T>(name: &str, value: &Bound<'_, PyAny>, range: RangeInclusive<T>) -> PyResult<T>
where
    T: PartialOrd + Display + for<'py> FromPyObjectOwned<'py>,
{
    let refused = || {
        let (least, most) = (range.start(), range.end());
        PyValueError::new_err(format!("{name} must be between {least} and {most}, got {value}"))
    };
    let value: T = value.extract().map_err(|_| refused())?;
    if range.contains(&value) { Ok(value) } else { Err(refused()) }
}

fn set_http2(options: &mut Http2Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "http2_streams" => options.streams = within(name, value, 1..=1 << 30)?,
        "http2_stream_window" => options.stream_window = within(name, value, 65_535..=i32::MAX)?,
        "http2_connection_window" => {
            options.connection_window = within(name, value, 65_535..=i32::MAX)?;
        }
        // RFC 9113 section 6.5.2.
        _ => options.frame_bytes = within(name, value, 16_384..=16_777_215)?,
    }
    Ok(())
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
            response: ResponseOptions {
                fields: Vec::new(),
                date_header: true,
                has_server_field: false,
                holds_heads: interface == Interface::Wsgi,
                trust: None,
                compression: None,
                on_response: None,
                on_request_end: None,
            },
            connection: ConnectionOptions {
                http: HttpVersions::Auto,
                http2: Http2Options {
                    streams: 100,
                    stream_window: 256 * 1024,
                    connection_window: 1024 * 1024,
                    frame_bytes: 16 * 1024,
                },
                limits: Limits::default(),
                keep_alive_ns: ns("", Some(5.0))?,
                header_ns: ns("", Some(10.0))?,
                body_ns: ns("", Some(60.0))?,
                send_ns: ns("", Some(60.0))?,
                ws_ping_interval_ns: ns("", Some(20.0))?,
                ws_ping_timeout_ns: ns("", Some(20.0))?,
                limit_concurrency: None,
                proxy_protocol: false,
                proxies: None,
                tls_behind_proxy: None,
            },
            application: ApplicationOptions {
                interface,
                green: false,
                threads: 8,
                multiprocess: false,
                root_path: String::new(),
                state: None,
                health: None,
                redirect_https: None,
                static_files: None,
                ws_max_size: 16 * 1024 * 1024,
                ws_deflate: true,
            },
        };
        for (name, value) in given.into_iter().flatten() {
            options.set(name.extract()?, &value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let Self { response, connection, application } = self;
        match name {
            "green" => application.green = value.extract()?,
            "threads" => {
                application.threads = value.extract()?;
                if application.threads == 0 {
                    return Err(PyValueError::new_err("threads must be at least 1"));
                }
            }
            "multiprocess" => application.multiprocess = value.extract()?,
            "root_path" => application.root_path = value.extract()?,
            "state" => application.state = value.extract()?,
            "headers" => self.set_fields(value)?,
            "date_header" => response.date_header = value.extract()?,
            "http" => connection.http = versions(value.extract()?)?,
            "http2_streams"
            | "http2_stream_window"
            | "http2_connection_window"
            | "http2_frame_bytes" => set_http2(&mut connection.http2, name, value)?,
            "max_line_bytes" => connection.limits.line_bytes = value.extract()?,
            "max_header_bytes" => connection.limits.head_bytes = value.extract()?,
            "max_headers" => connection.limits.headers = value.extract()?,
            "max_body_bytes" => {
                connection.limits.body_bytes = value.extract::<Option<u64>>()?.unwrap_or(u64::MAX);
            }
            "keep_alive_timeout_s" => connection.keep_alive_ns = ns(name, value.extract()?)?,
            "header_timeout_s" => connection.header_ns = ns(name, value.extract()?)?,
            "body_timeout_s" => connection.body_ns = ns(name, value.extract()?)?,
            "send_timeout_s" => connection.send_ns = ns(name, value.extract()?)?,
            "limit_concurrency" => connection.limit_concurrency = value.extract()?,
            "proxy_protocol" => connection.proxy_protocol = value.extract()?,
            "proxies" => connection.proxies = value.extract()?,
            "tls_behind_proxy" => connection.tls_behind_proxy = value.extract()?,
            "trust" => response.trust = value.extract()?,
            "compress" => {
                let is_given = !value.is_none();
                response.compression = is_given.then(|| Compression::new(value)).transpose()?;
            }
            "health" => application.health = value.extract()?,
            "redirect_https" => application.redirect_https = value.extract()?,
            "on_response" => response.on_response = value.extract()?,
            "on_request_end" => response.on_request_end = value.extract()?,
            "static" => {
                let is_given = !value.is_none();
                application.static_files =
                    is_given.then(|| StaticFiles::new(value)).transpose()?.map(Box::new);
            }
            "ws_max_size" => application.ws_max_size = value.extract()?,
            "ws_ping_interval_s" => connection.ws_ping_interval_ns = ns(name, value.extract()?)?,
            "ws_ping_timeout_s" => connection.ws_ping_timeout_ns = ns(name, value.extract()?)?,
            "ws_per_message_deflate" => application.ws_deflate = value.extract()?,
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
            response_fields::check_field(name, value)?;
            let response = &mut self.response;
            response.has_server_field |= name.eq_ignore_ascii_case(b"server");
            response.fields.extend(name.iter().map(u8::to_ascii_lowercase));
            response.fields.extend_from_slice(b": ");
            response.fields.extend_from_slice(value);
            response.fields.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}
