//! rustls configurations from PEM files: the generator's trust, the floor server's certificate.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Trusts the one authority in `ca_file`.
pub fn client(ca_file: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca_file).map_err(io::Error::other)? {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Presents the chain and key in `file` (one PEM with both).
pub fn server(file: &Path) -> io::Result<Arc<ServerConfig>> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(io::Error::other)?.collect();
    let key = PrivateKeyDer::from_pem_file(file).map_err(io::Error::other)?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain.map_err(io::Error::other)?, key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}
