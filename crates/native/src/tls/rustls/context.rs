//! `TlsContext`: the shared configuration of a program's connections, made by `oneloop.tls`.
//!
//! A context holds one rustls configuration, which never changes: `reload` replaces it, and existing connections keep
//! theirs.

use super::client::ClientSettings;
use super::failure;
use super::files::Source;
use super::missing::missing;
use super::options::Options;
use super::server::ServerSettings;
use super::trust::Authorities;
use crate::ffi::LoopCell;
use crate::ffi::values::Value;
use crate::imports;
use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use rustls::pki_types::{IpAddr, Ipv4Addr, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::path::PathBuf;
use std::sync::Arc;

enum Settings {
    Server(ServerSettings),
    Client(ClientSettings),
}

#[derive(Clone)]
enum Configuration {
    Server(Arc<ServerConfig>),
    Client(Arc<ClientConfig>),
}

impl Settings {
    fn load(&self, py: Python<'_>, options: &Options) -> PyResult<Configuration> {
        Ok(match self {
            Self::Server(settings) => Configuration::Server(settings.load(py, options)?),
            Self::Client(settings) => Configuration::Client(settings.load(py, options)?),
        })
    }
}

/// Certificates, trust and protocol options for connections, made by `server_context()` or `client_context()`.
///
/// Can be used wherever oneloop's API takes `ssl=`. Only `reload()` changes it.
#[pyclass(frozen, weakref, module = "oneloop.tls")]
pub struct TlsContext {
    settings: Settings,
    options: Options,
    current: LoopCell<Configuration>,
}

type Versions = (u16, u16);

impl TlsContext {
    fn make(py: Python<'_>, settings: Settings, options: Options) -> PyResult<Self> {
        let current = LoopCell::new(settings.load(py, &options)?);
        Ok(Self { settings, options, current })
    }

    /// Whether the peer's certificate is verified.
    pub fn verifies(&self) -> bool {
        match &self.settings {
            Settings::Server(settings) => settings.client_ca.is_some(),
            Settings::Client(settings) => settings.verifies,
        }
    }

    /// Makes a connection, and returns its server's name as `ssl` shows it.
    ///
    /// Raises ValueError or ssl.SSLError like `ssl` if side or name do not fit the context.
    pub fn connect(
        &self,
        py: Python<'_>,
        server_side: bool,
        server_hostname: Option<&str>,
    ) -> PyResult<(Connection, Option<String>)> {
        let (connection, hostname) = match (self.current.with(py, |c| c.clone()), server_side) {
            (Configuration::Server(config), true) => {
                if server_hostname.is_some() {
                    let text = "server_hostname can only be specified in client mode";
                    return Err(PyValueError::new_err(text));
                }
                (ServerConnection::new(config).map(Connection::Server), None)
            }
            (Configuration::Client(config), false) => {
                let (name, hostname) = self.server_name(py, server_hostname)?;
                (ClientConnection::new(config, name).map(Connection::Client), hostname)
            }
            (Configuration::Server(_), false) => return Err(wrong_side(py, "client", "SERVER")),
            (Configuration::Client(_), true) => return Err(wrong_side(py, "server", "CLIENT")),
        };
        let connection = connection.map_err(|e| failure::of(py, &e, server_hostname))?;
        Ok((connection, hostname))
    }

    /// The name for rustls, and as `ssl` shows it: in DNS format.
    fn server_name(
        &self,
        py: Python<'_>,
        hostname: Option<&str>,
    ) -> PyResult<(ServerName<'static>, Option<String>)> {
        let Some(hostname) = hostname else {
            if self.check_hostname() {
                return Err(PyValueError::new_err("check_hostname requires server_hostname"));
            }
            // Without a name, or with an address, the client sends no server name. This address belongs to nobody.
            return Ok((ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4]))), None));
        };
        if hostname.is_empty() || hostname.starts_with('.') {
            return Err(PyValueError::new_err(
                "server_hostname cannot be an empty string or start with a leading dot.",
            ));
        }
        let ascii = if hostname.is_ascii() {
            hostname.to_owned()
        } else {
            imports::encode_hostname(py)?.call1((hostname,))?.extract()?
        };
        let name = ServerName::try_from(ascii.clone()).map_err(|_| {
            PyValueError::new_err(format!("server_hostname is not a valid host name: {hostname:?}"))
        })?;
        Ok((name, Some(ascii)))
    }
}

fn wrong_side(py: Python<'_>, wanted: &str, made: &str) -> PyErr {
    let text = format!("Cannot create a {wanted} socket with a PROTOCOL_TLS_{made} context");
    match imports::ssl_error(py).and_then(|class| class.call1((0, text))) {
        Ok(error) => PyErr::from_value(error),
        Err(e) => e,
    }
}

#[pymethods]
impl TlsContext {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the options of server_context(), in one call")]
    fn _server(
        py: Python<'_>,
        certfile: PathBuf,
        keyfile: Option<PathBuf>,
        sni: Vec<(String, PathBuf, Option<PathBuf>)>,
        client_ca: Option<PathBuf>,
        is_required: bool,
        alpn: Vec<Vec<u8>>,
        versions: Versions,
        is_resumed: bool,
        key_log: Option<PathBuf>,
    ) -> PyResult<Self> {
        let others = sni
            .into_iter()
            .map(|(name, certificate, key)| (name, Source { certificate, key }))
            .collect();
        let certificate = Source { certificate: certfile, key: keyfile };
        let settings = ServerSettings { certificate, others, client_ca, is_required };
        let options = Options::new(alpn, versions, is_resumed, key_log)?;
        Self::make(py, Settings::Server(settings), options)
    }

    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the options of client_context(), in one call")]
    fn _client(
        py: Python<'_>,
        ca: Vec<Option<PathBuf>>,
        verifies: bool,
        checks_hostname: bool,
        certfile: Option<PathBuf>,
        keyfile: Option<PathBuf>,
        alpn: Vec<Vec<u8>>,
        versions: Versions,
        is_resumed: bool,
        key_log: Option<PathBuf>,
    ) -> PyResult<Self> {
        let authorities = ca
            .into_iter()
            .map(|path| path.map_or(Authorities::System, Authorities::File))
            .collect();
        let certificate = certfile.map(|certificate| Source { certificate, key: keyfile });
        let settings = ClientSettings { authorities, verifies, checks_hostname, certificate };
        let options = Options::new(alpn, versions, is_resumed, key_log)?;
        Self::make(py, Settings::Client(settings), options)
    }

    /// Read all files again: certificates, keys, authorities.
    ///
    /// New connections use them; existing ones are not affected. Earlier sessions are not resumed, so that a peer
    /// that is no longer trusted has to show a certificate.
    ///
    /// Raises:
    ///     OSError, ssl.SSLError: a file cannot be used; nothing has changed.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        let new = self.settings.load(py, &self.options)?;
        drop(self.current.with(py, |current| std::mem::replace(current, new)));
        Ok(())
    }

    /// `ssl.CERT_REQUIRED`, `CERT_OPTIONAL` or `CERT_NONE`.
    #[getter]
    fn verify_mode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = match &self.settings {
            _ if !self.verifies() => "CERT_NONE",
            Settings::Server(settings) if !settings.is_required => "CERT_OPTIONAL",
            _ => "CERT_REQUIRED",
        };
        imports::ssl(py)?.getattr(name)
    }

    /// Whether a server's certificate must match the requested name.
    #[getter]
    fn check_hostname(&self) -> bool {
        match &self.settings {
            Settings::Server(_) => false,
            Settings::Client(settings) => settings.verifies && settings.checks_hostname,
        }
    }

    /// `ssl.PROTOCOL_TLS_SERVER` or `PROTOCOL_TLS_CLIENT`.
    #[getter]
    fn protocol<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::ssl(py)?.getattr(match self.settings {
            Settings::Server(_) => "PROTOCOL_TLS_SERVER",
            Settings::Client(_) => "PROTOCOL_TLS_CLIENT",
        })
    }

    /// An `ssl.TLSVersion`.
    #[getter]
    fn minimum_version<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::ssl(py)?.getattr(intern!(py, "TLSVersion"))?.call1((self.options.minimum_version,))
    }

    /// An `ssl.TLSVersion`.
    #[getter]
    fn maximum_version<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::ssl(py)?.getattr(intern!(py, "TLSVersion"))?.call1((self.options.maximum_version,))
    }

    /// The file to which the secrets of all connections are appended, or None.
    #[getter]
    fn keylog_filename(&self) -> Value<Option<String>> {
        Value(self.options.key_log_path().map(|path| path.to_string_lossy().into_owned()))
    }

    /// The application protocols that it offers, in order of preference.
    #[getter]
    fn alpn(&self) -> Value<Vec<String>> {
        Value(
            self.options
                .alpn
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
        )
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        Err(missing(slf.as_any(), name, "SSLContext"))
    }

    fn __setattr__(&self, name: &str, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(unchangeable(name))
    }

    fn __delattr__(&self, name: &str) -> PyResult<()> {
        Err(unchangeable(name))
    }

    fn __repr__(&self) -> Value<&'static str> {
        Value(match self.settings {
            Settings::Server(_) => "<oneloop.tls.TlsContext of a server>",
            Settings::Client(_) => "<oneloop.tls.TlsContext of a client>",
        })
    }
}

fn unchangeable(name: &str) -> PyErr {
    PyAttributeError::new_err(format!(
        "a TlsContext does not change, so '{name}' cannot be set: pass it to server_context() or client_context(), \
         or use an ssl.SSLContext"
    ))
}
