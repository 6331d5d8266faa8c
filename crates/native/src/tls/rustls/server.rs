//! The server side: makes a rustls configuration from files.

use super::failure;
use super::files::{self, Source};
use super::names::Names;
use super::options::{Options, provider};
use super::trust::{self, Authorities, ClientVerifier};
use pyo3::prelude::*;
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct ServerSettings {
    pub certificate: Source,
    pub others: Vec<(String, Source)>,
    pub client_ca: Option<PathBuf>,
    /// A client without a certificate is rejected.
    pub is_required: bool,
}

impl ServerSettings {
    /// Reads all files. The result shares nothing with an earlier one: sessions from other certificates or
    /// authorities cannot be resumed.
    pub fn load(&self, py: Python<'_>, options: &Options) -> PyResult<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(provider().clone())
            .with_protocol_versions(options.versions())
            .map_err(|e| failure::of(py, &e, None))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => builder.with_client_cert_verifier(self.verifier(py, path)?),
        };
        let mut config = builder.with_cert_resolver(Arc::new(self.names(py)?));
        // As in `ssl`.
        config.ignore_client_order = true;
        config.alpn_protocols.clone_from(&options.alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if options.is_resumed {
            config.ticketer = Ticketer::new().map_err(|e| failure::of(py, &e, None))?;
        } else {
            config.send_tls13_tickets = 0;
        }
        if let Some(log) = options.key_log() {
            config.key_log = log;
        }
        Ok(Arc::new(config))
    }

    fn names(&self, py: Python<'_>) -> PyResult<Names> {
        let load = |source: &Source| source.load(py, provider());
        let others = self
            .others
            .iter()
            .map(|(name, source)| Ok((name.to_ascii_lowercase(), load(source)?)))
            .collect::<PyResult<_>>()?;
        Ok(Names { default: load(&self.certificate)?, others })
    }

    fn verifier(&self, py: Python<'_>, path: &Path) -> PyResult<Arc<ClientVerifier>> {
        let roots = Arc::new(trust::roots(py, &[Authorities::File(path.to_owned())])?);
        let builder =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider().clone());
        let builder = if self.is_required { builder } else { builder.allow_unauthenticated() };
        let inner =
            builder.build().map_err(|e| files::bad(py, "BAD_CERTIFICATE", path, &e.to_string()))?;
        Ok(Arc::new(ClientVerifier::new(inner, roots)))
    }
}
