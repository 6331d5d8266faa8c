//! `Names`: which certificate a server shows, by the name that the client asks for.

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct Names {
    /// For clients that ask for no name, or for one that is not here.
    pub default: Arc<CertifiedKey>,
    /// In lower case; `*.example.org` stands for all names with one label more.
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
