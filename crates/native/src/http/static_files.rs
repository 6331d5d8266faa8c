//! `StaticFiles`: folders whose files are served (`--static`) before the application is asked.
//!
//! A file in the kernel's caches is answered immediately: it is looked up, read into a buffer after its head, and
//! sent. In all other cases `FileAnswer` does the work. Nothing about files is cached except that they existed: each
//! request finds and reads the current file.

use super::connection::{Awaited, HttpConnection};
use super::static_reply::{self, FilePart, Outcome, OwnWanted, Reply, Types, Wanted};
use crate::ffi::LoopCell;
use oneloop_engine::files::beneath::{Found, Root};
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_http1::Request;
use oneloop_http1::representation::Preferences;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A body up to this length is copied after its head; the buffer for heads is kept for the next one.
const SHORT_BYTES: u64 = 48 * 1024;
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

/// The result for a request.
pub enum Taken {
    /// The application has to answer it.
    NotOurs,
    Answered,
    Reply(Reply),
    /// Finding the file may block.
    Later(Lookup),
}

/// What a thread has to find.
pub struct Lookup {
    folder: CString,
    wanted: OwnWanted,
}

impl Lookup {
    /// The request's path, for messages.
    pub fn path(&self) -> Vec<u8> {
        self.wanted.path()
    }

    pub fn run(self) -> io::Result<Outcome> {
        let wanted = self.wanted.borrow();
        let root = match Root::open(&self.folder) {
            Ok(root) => root,
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
                return Ok(wanted.missing());
            }
            Err(e) => return Err(e),
        };
        let found = wanted.reply(&mut |path| root.find(path).map(Some))?;
        Ok(found.unwrap_or_else(|| wanted.missing()))
    }
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
    fn find_cached(&self, py: Python<'_>, root: &Root, path: &CStr) -> io::Result<Option<Found>> {
        let name = path.to_bytes();
        let is_known = self.state.with(py, |s| s.known.contains(name));
        let AtOnce::Done(found) = root.find_cached(path, is_known)? else { return Ok(None) };
        match (&found, is_known) {
            (Found::File(_), false) if name.len() <= LONGEST_KNOWN_BYTES => {
                self.state.with(py, |s| {
                    if s.known.len() >= MOST_KNOWN {
                        s.known.clear();
                    }
                    s.known.insert(name.to_vec());
                });
            }
            (Found::File(_), _) | (_, false) => {}
            (_, true) => {
                self.state.with(py, |s| s.known.remove(name));
            }
        }
        Ok(Some(found))
    }
}

/// Answers a request for a file, as far as that is possible without blocking. `has_body`: the request has a body.
pub fn take(
    connection: &Bound<'_, HttpConnection>,
    files: &StaticFiles,
    request: &Request<'_, '_>,
    has_body: bool,
) -> PyResult<Taken> {
    let py = connection.py();
    let options = &connection.get().http.get().options;
    let path = path_of(&options.root_path, request.path);
    let Some((folder, is_bare)) = files.folder_of(&path) else { return Ok(Taken::NotOurs) };
    let wanted = Wanted {
        prefix: &folder.prefix,
        names: if is_bare { Vec::new() } else { path[folder.prefix.len()..].to_vec() },
        query: request.query,
        is_get: request.method == "GET",
        preferences: Preferences::of(request.headers),
        types: Arc::clone(&files.types),
        now_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        is_open_to_app: folder.prefix == b"/",
    };
    let reply = match at_once(connection, folder, &wanted, request.method, is_bare) {
        Ok(Some(Outcome::Reply(reply))) => reply,
        Ok(Some(Outcome::Application)) => return Ok(Taken::NotOurs),
        Ok(None) => {
            let folder = folder.path.clone();
            return Ok(Taken::Later(Lookup { folder, wanted: wanted.into_owned() }));
        }
        Err(error) => {
            super::file_answer::log_failure(py, &path, &error)?;
            Reply::of_error(&error)
        }
    };
    if has_body {
        return Ok(Taken::Reply(reply));
    }
    answer_now(connection, request, reply)
}

fn path_of<'a>(root: &str, raw: &'a [u8]) -> Cow<'a, [u8]> {
    let is_encoded = memchr::memchr(b'%', raw).is_some();
    match (root.is_empty(), is_encoded) {
        (true, false) => Cow::Borrowed(raw),
        (true, true) => Cow::Owned(super::scope::decoded(raw)),
        (false, _) => Cow::Owned([root.as_bytes(), &super::scope::decoded(raw)].concat()),
    }
}

fn at_once(
    connection: &Bound<'_, HttpConnection>,
    folder: &StaticFolder,
    wanted: &Wanted<'_>,
    method: &str,
    is_bare: bool,
) -> io::Result<Option<Outcome>> {
    let py = connection.py();
    if is_bare {
        return Ok(Some(Outcome::Reply(wanted.redirect())));
    }
    if !static_reply::is_allowed(&wanted.names) {
        return Ok(Some(wanted.missing()));
    }
    if !matches!(method, "GET" | "HEAD") {
        return Ok(Some(if wanted.is_open_to_app {
            Outcome::Application
        } else {
            Outcome::Reply(Reply::plain(405, "allow: GET, HEAD\r\n"))
        }));
    }
    let tick = connection.get().http.get().owner.get().tick_number(py);
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

/// Sends head and body in one call, without an exchange, if possible.
fn answer_now(
    connection: &Bound<'_, HttpConnection>,
    request: &Request<'_, '_>,
    reply: Reply,
) -> PyResult<Taken> {
    let py = connection.py();
    let this = connection.get();
    let http = this.http.get();
    let (is_paused, is_last) = this.state.with(py, |s| (s.is_writing_paused, s.is_last));
    let is_short = reply.part.as_ref().is_none_or(|part| part.len_bytes <= SHORT_BYTES);
    if is_paused || !is_short || http.options.on_response.is_some() {
        return Ok(Taken::Reply(reply));
    }
    let keeps_alive = request.keeps_alive && !is_last;
    let mut out = http.serving.with(py, |serving| std::mem::take(&mut serving.spare));
    out.clear();
    super::fields::write_status_line(&mut out, reply.status);
    http.write_defaults(py, &mut out);
    out.extend_from_slice(&reply.fields);
    if !keeps_alive {
        out.extend_from_slice(b"connection: close\r\n");
    } else if request.version == oneloop_http1::Version::Http10 {
        out.extend_from_slice(b"connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
    if let Some(part) = &reply.part
        && !read_all(part, &mut out)
    {
        // It is not entirely in memory, or was truncated: the code that reads the rest will notice.
        http.keep_spare(py, out);
        return Ok(Taken::Reply(reply));
    }
    let written = HttpConnection::write(connection, &out);
    http.keep_spare(py, out);
    drop(reply);
    written?;
    http.count_response(py)?;
    this.state.with(py, |s| s.searched = 0);
    if keeps_alive {
        this.wait_for(py, Awaited::Request);
    } else {
        this.close(py)?;
    }
    Ok(Taken::Answered)
}

/// Whether the whole part could be read without blocking.
fn read_all(part: &FilePart, out: &mut Vec<u8>) -> bool {
    let (Ok(len), Ok(first)) = (usize::try_from(part.len_bytes), i64::try_from(part.first)) else {
        return false;
    };
    let read = cached::read_onto(part.opened.fd.as_raw_fd(), out, len, first);
    matches!(read, Ok(AtOnce::Done(read)) if read == len)
}
