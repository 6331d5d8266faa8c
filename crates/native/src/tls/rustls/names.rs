//! `Names`: selects a server's certificate by the name that the client requests.

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct Names {
    /// For clients that send no name or an unknown one.
    pub default: Arc<CertifiedKey>,
    /// In lower case; `*.example.org` matches all names with one more label.
    pub others: HashMap<String, Arc<CertifiedKey>>,
}

impl Names {
    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.others.get(&name).or_else(|| {
            let (_, parent) = name.split_once('.')?;
            self.others.get(&format!("*.{parent}"))
        })
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = match hello.server_name() {
            Some(name) if !self.others.is_empty() => self.find(name),
            _ => None,
        };
        Some(found.unwrap_or(&self.default).clone())
    }
}
