//! `StaticFiles`: folders whose files are served (`--static`) before the application is asked.
//!
//! A file in the kernel's caches is sent immediately: it is looked up here, and the connection reads it into a buffer
//! after its head. In all other cases `FileResponse` does the work. Nothing about files is cached except that they existed: each
//! request finds and reads the current file.

use super::lookup::Lookup;
use super::wanted::{Outcome, Types, Wanted, is_allowed};
use crate::ffi::LoopCell;
use crate::http::application::file_response::{log_failure, send_reply, start_lookup};
use crate::http::exchange::contract::Found;
use crate::http::exchange::reply::Reply;
use crate::http::exchange::request_view::decoded;
use crate::http::exchange::service::Service;
use oneloop_engine::files::beneath::{self, Root};
use oneloop_engine::files::cached::AtOnce;
use oneloop_http1::Request;
use oneloop_http1::representation::Preferences;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many names are remembered to be files, and their maximum length.
const MOST_KNOWN: usize = 4096;
const LONGEST_KNOWN_BYTES: usize = 256;

pub struct StaticFiles {
    /// Longest URL first, because one may be inside another.
    folders: Vec<StaticFolder>,
    types: Arc<Types>,
    /// Paths that never belong to a folder.
    reserved: Vec<Vec<u8>>,
}

struct StaticFolder {
    /// The URL, ending in a slash. With `/`, missing files are left to the application.
    prefix: Vec<u8>,
    path: CString,
    state: LoopCell<FolderState>,
}

#[derive(Default)]
struct FolderState {
    /// Opened again in each tick, because the path may lead to another folder by then.
    root: Option<Arc<Root>>,
    tick: u64,
    /// Names that were files at the last lookup. They are opened without checking their type first.
    known: HashSet<Vec<u8>>,
}

impl StaticFiles {
    /// Args: pairs of a URL and a folder, content types by suffix, paths that are never files.
    pub fn new(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Given = (Vec<(String, std::path::PathBuf)>, HashMap<String, String>, Vec<String>);
        let (folders, types, reserved): Given = given.extract()?;
        let mut made = Vec::with_capacity(folders.len());
        for (url, path) in folders {
            let path = CString::new(path.into_os_string().as_encoded_bytes())
                .map_err(|_| PyValueError::new_err("embedded null byte"))?;
            let prefix = format!("{}/", url.trim_end_matches('/')).into_bytes();
            made.push(StaticFolder { prefix, path, state: LoopCell::default() });
        }
        made.sort_by_key(|folder: &StaticFolder| std::cmp::Reverse(folder.prefix.len()));
        let types = types.into_iter().map(|(suffix, kind)| (suffix.into(), kind.into())).collect();
        let reserved = reserved.into_iter().map(String::into_bytes).collect();
        Ok(Self { folders: made, types: Arc::new(types), reserved })
    }

    /// The folder that a path belongs to; true if the path is the folder's without its slash.
    fn folder_of(&self, path: &[u8]) -> Option<(&StaticFolder, bool)> {
        if self.reserved.iter().any(|reserved| reserved == path) {
            return None;
        }
        self.folders.iter().find_map(|folder| match folder.prefix.as_slice() {
            prefix if path.starts_with(prefix) => Some((folder, false)),
            [bare @ .., _] if !bare.is_empty() && path == bare => Some((folder, true)),
            _ => None,
        })
    }
}

impl StaticFolder {
    /// The folder in this tick; `None` if opening it might block.
    fn root(&self, py: Python<'_>, tick: u64) -> io::Result<Option<Arc<Root>>> {
        let kept = |s: &mut FolderState| s.root.clone().filter(|_| s.tick == tick);
        if let Some(root) = self.state.with(py, kept) {
            return Ok(Some(root));
        }
        let root = Root::open_cached(&self.path)?.map(Arc::new);
        let old = self.state.with(py, |s| {
            s.tick = tick;
            std::mem::replace(&mut s.root, root.clone())
        });
        drop(old);
        Ok(root)
    }

    /// Finds a file without blocking.
    fn find_cached(
        &self,
        py: Python<'_>,
        root: &Root,
        path: &CStr,
    ) -> io::Result<Option<beneath::Found>> {
        let name = path.to_bytes();
        let is_known = self.state.with(py, |s| s.known.contains(name));
        let AtOnce::Done(found) = root.find_cached(path, is_known)? else { return Ok(None) };
        match (&found, is_known) {
            (beneath::Found::File(_), false) if name.len() <= LONGEST_KNOWN_BYTES => {
                self.state.with(py, |s| {
                    if s.known.len() >= MOST_KNOWN {
                        s.known.clear();
                    }
                    s.known.insert(name.to_vec());
                });
            }
            (beneath::Found::File(_), _) | (_, false) => {}
            (_, true) => {
                self.state.with(py, |s| s.known.remove(name));
            }
        }
        Ok(Some(found))
    }
}

/// Finds the response to a request for a file, as far as that is possible without blocking.
pub fn find(
    service: &Bound<'_, Service>,
    files: &StaticFiles,
    root_path: &str,
    request: &Request<'_, '_>,
) -> PyResult<Found> {
    let py = service.py();
    let path = path_of(root_path, request.path);
    let Some((folder, is_bare)) = files.folder_of(&path) else { return Ok(Found::Nothing) };
    let wanted = Wanted {
        prefix: &folder.prefix,
        names: if is_bare { Vec::new() } else { path[folder.prefix.len()..].to_vec() },
        query: request.query,
        is_get: request.method == "GET",
        preferences: Preferences::of(request.headers),
        types: Arc::clone(&files.types),
        rules: service.get().options.compression.as_ref().map(|c| Arc::clone(&c.rules)),
        now_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        is_open_to_app: folder.prefix == b"/",
    };
    match at_once(service, folder, &wanted, request.method, is_bare) {
        // Compressing it takes an exchange.
        Ok(Some(Outcome::Reply(reply))) if reply.coding.is_some() => {
            Ok(Found::Later(Box::new(|exchange, _| send_reply(exchange, reply))))
        }
        Ok(Some(Outcome::Reply(reply))) => Ok(Found::Reply(reply)),
        Ok(Some(Outcome::Application)) => Ok(Found::Nothing),
        Ok(None) => {
            let lookup = Lookup { folder: folder.path.clone(), wanted: wanted.into_owned() };
            Ok(Found::Later(Box::new(|exchange, view| start_lookup(exchange, lookup, view))))
        }
        Err(error) => {
            log_failure(py, &path, &error)?;
            Ok(Found::Reply(Reply::of_error(&error)))
        }
    }
}

pub fn path_of<'a>(root: &str, raw: &'a [u8]) -> Cow<'a, [u8]> {
    let is_encoded = memchr::memchr(b'%', raw).is_some();
    match (root.is_empty(), is_encoded) {
        (true, false) => Cow::Borrowed(raw),
        (true, true) => Cow::Owned(decoded(raw)),
        (false, _) => Cow::Owned([root.as_bytes(), &decoded(raw)].concat()),
    }
}

fn at_once(
    service: &Bound<'_, Service>,
    folder: &StaticFolder,
    wanted: &Wanted<'_>,
    method: &str,
    is_bare: bool,
) -> io::Result<Option<Outcome>> {
    let py = service.py();
    if is_bare {
        return Ok(Some(Outcome::Reply(wanted.redirect())));
    }
    if !is_allowed(&wanted.names) {
        return Ok(Some(wanted.missing()));
    }
    if !matches!(method, "GET" | "HEAD") {
        return Ok(Some(if wanted.is_open_to_app {
            Outcome::Application
        } else {
            Outcome::Reply(Reply::plain(405, "allow: GET, HEAD\r\n"))
        }));
    }
    let tick = service.get().owner.get().tick_number(py);
    let root = match folder.root(py, tick) {
        Ok(Some(root)) => root,
        Ok(None) => return Ok(None),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
            return Ok(Some(wanted.missing()));
        }
        Err(e) => return Err(e),
    };
    wanted.reply(&mut |path| folder.find_cached(py, &root, path))
}
