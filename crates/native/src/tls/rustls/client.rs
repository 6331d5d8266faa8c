//! The client side: makes a rustls configuration from files.

use super::failure;
use super::files::Source;
use super::options::{Options, provider};
use super::trust::{self, Anybody, Authorities, Verifier};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::sign::SingleCertAndKey;
use std::sync::Arc;

/// The number of servers whose last sessions are remembered.
const SESSIONS: usize = 256;

pub struct ClientSettings {
    pub authorities: Vec<Authorities>,
    pub verifies: bool,
    pub checks_hostname: bool,
    pub certificate: Option<Source>,
}

impl ClientSettings {
    /// Reads all files. Sessions from an earlier configuration cannot be resumed.
    pub fn load(&self, py: Python<'_>, options: &Options) -> PyResult<Arc<ClientConfig>> {
        let builder = ClientConfig::builder_with_provider(provider().clone())
            .with_protocol_versions(options.versions())
            .map_err(|e| failure::of(py, &e, None))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(py)?);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(source) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(
                source.load(py, provider())?,
            ))),
        };
        config.alpn_protocols.clone_from(&options.alpn);
        config.resumption = if options.is_resumed {
            Resumption::in_memory_sessions(SESSIONS)
        } else {
            Resumption::disabled()
        };
        if let Some(log) = options.key_log() {
            config.key_log = log;
        }
        Ok(Arc::new(config))
    }

    fn verifier(&self, py: Python<'_>) -> PyResult<Arc<dyn ServerCertVerifier>> {
        if !self.verifies {
            return Ok(Arc::new(Anybody::new(provider())));
        }
        let roots = Arc::new(trust::roots(py, &self.authorities)?);
        let inner = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider().clone())
            .build()
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Arc::new(Verifier::new(inner, roots, self.checks_hostname)))
    }
}
