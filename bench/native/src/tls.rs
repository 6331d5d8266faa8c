//! rustls configurations from PEM files: the generator's trust, the floor server's certificate.
//!
//! Both sides support only one cipher suite and one key exchange group, so that every server does the same work.
//! By default, some libraries prefer AES-128 and others AES-256.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::trust::Trust;

/// What a TLS 1.3 client keeps of one server: more than any server sends in one connection.
const SESSIONS_KEPT: usize = 8;

/// TLS_AES_256_GCM_SHA384 and X25519: what OpenSSL's defaults agree on.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    })
}

/// Trusts the one authority in `ca_file`. Never resumes a session.
pub fn client(ca_file: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca_file).map_err(io::Error::other)? {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(io::Error::other)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trust::new(verifier)))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The same client with a separate session store: each of its connections resumes the session of an earlier one, if
/// the server accepts it.
#[must_use]
pub fn resuming(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(SESSIONS_KEPT);
    Arc::new(config)
}

/// Presents the chain and key in `file` (one PEM with both). Its tickets carry the session, as OpenSSL's do.
pub fn server(file: &Path) -> io::Result<Arc<ServerConfig>> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(io::Error::other)?.collect();
    let key = PrivateKeyDer::from_pem_file(file).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(io::Error::other)?, key)
        .map_err(io::Error::other)?;
    config.ticketer = ring::Ticketer::new().map_err(io::Error::other)?;
    Ok(Arc::new(config))
}
