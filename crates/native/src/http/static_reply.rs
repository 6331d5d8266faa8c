//! `Reply`: the answer to a request for a file below a folder: which file, and which part of it.
//!
//! Runs on the loop if nothing blocks, otherwise on threads. Uses no Python. Caches nothing, so nothing can be stale.
//! Hidden names are treated as missing.

use oneloop_engine::files::beneath::Found;
use oneloop_engine::files::served::Opened;
use oneloop_http1::representation::{Decision, Preferences, Validators};
use oneloop_http1::response::http_date;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// Content types by suffix in lower case, without the dot.
pub type Types = HashMap<Vec<u8>, Vec<u8>>;

/// In order of preference, for clients that accept several.
const CODINGS: [(&str, &[u8]); 3] = [("br", b".br"), ("zstd", b".zst"), ("gzip", b".gz")];
const INDEX: &[u8] = b"index.html";
const HEX: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
const UNKNOWN_TYPE: &[u8] = b"application/octet-stream";

/// A request for a file.
#[derive(Clone)]
pub struct Wanted<'a> {
    /// The folder's URL path; ends with a slash.
    pub prefix: &'a [u8],
    /// The rest of the request's path, decoded.
    pub names: Vec<u8>,
    pub query: &'a [u8],
    pub is_get: bool,
    pub preferences: Preferences<'a>,
    pub types: Arc<Types>,
    pub now_s: u64,
    /// Missing files are left to the application.
    pub is_open_to_app: bool,
}

/// An owned copy for a thread.
pub struct OwnWanted {
    prefix: Vec<u8>,
    names: Vec<u8>,
    query: Vec<u8>,
    is_get: bool,
    preferences: Preferences<'static>,
    types: Arc<Types>,
    now_s: u64,
    is_open_to_app: bool,
}

/// A part of an open file.
pub struct FilePart {
    pub opened: Opened,
    pub first: u64,
    pub len_bytes: u64,
}

pub struct Reply {
    pub status: u16,
    /// In their written form, including `content-length`.
    pub fields: Vec<u8>,
    /// The body of a GET, if there is one.
    pub part: Option<FilePart>,
}

pub enum Outcome {
    Reply(Reply),
    /// The application has to answer it.
    Application,
}

impl Wanted<'_> {
    pub fn into_owned(self) -> OwnWanted {
        OwnWanted {
            prefix: self.prefix.to_vec(),
            names: self.names,
            query: self.query.to_vec(),
            is_get: self.is_get,
            preferences: self.preferences.into_owned(),
            types: self.types,
            now_s: self.now_s,
            is_open_to_app: self.is_open_to_app,
        }
    }

    /// Finds the file and decides on the answer; `None` if `find` would block.
    pub fn reply(
        &self,
        find: &mut dyn FnMut(&CStr) -> io::Result<Option<Found>>,
    ) -> io::Result<Option<Outcome>> {
        let is_folder = self.names.is_empty() || self.names.ends_with(b"/");
        let mut names = self.names.clone();
        if is_folder {
            names.extend_from_slice(INDEX);
        }
        let Ok(path) = CString::new(names) else { return Ok(Some(self.missing())) };
        let outcome = match find(&path)? {
            None => return Ok(None),
            Some(Found::File(opened)) => return self.of_file(path.as_bytes(), opened, find),
            Some(Found::Folder) if !is_folder => Outcome::Reply(self.redirect()),
            Some(Found::Folder | Found::Nothing) => self.missing(),
            Some(Found::Forbidden) => Outcome::Reply(Reply::plain(403, "")),
        };
        Ok(Some(outcome))
    }

    pub fn missing(&self) -> Outcome {
        if self.is_open_to_app {
            Outcome::Application
        } else {
            Outcome::Reply(Reply::plain(404, ""))
        }
    }

    /// A redirect to the same path with a trailing slash, to which a page's links are relative.
    pub fn redirect(&self) -> Reply {
        let path = [self.prefix, &self.names].concat();
        let mut location = String::from("/");
        // A path that begins with two slashes would name another host.
        let slashes = path.iter().take_while(|byte| **byte == b'/').count();
        for byte in &path[slashes..] {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
                location.push(char::from(*byte));
            } else {
                location.push('%');
                location.extend([byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
            }
        }
        if !location.ends_with('/') {
            location.push('/');
        }
        let mut reply = Reply::plain(308, "");
        add(&mut reply.fields, b"location", location.as_bytes());
        if !self.query.is_empty() {
            reply.fields.truncate(reply.fields.len() - 2);
            reply.fields.push(b'?');
            reply.fields.extend_from_slice(self.query);
            reply.fields.extend_from_slice(b"\r\n");
        }
        reply
    }

    fn of_file(
        &self,
        names: &[u8],
        plain: Opened,
        find: &mut dyn FnMut(&CStr) -> io::Result<Option<Found>>,
    ) -> io::Result<Option<Outcome>> {
        let mut fields = Vec::with_capacity(320);
        let kind = type_of(&self.types, names);
        // For text, also if the client accepts no coding: a cache in between has to know (`vary`) that other clients
        // get another answer.
        let (opened, coding) = if self.preferences.names_codings() || is_text(kind) {
            match self.chosen(names, plain, &mut fields, find)? {
                Some(chosen) => chosen,
                None => return Ok(None),
            }
        } else {
            (plain, None)
        };
        let status = &opened.status;
        let (modified_s, modified_ns) = status.modified;
        let stamp = i128::from(modified_s) * 1_000_000_000 + i128::from(modified_ns);
        let etag = match coding {
            Some(coding) => format!("\"{stamp:x}-{:x}-{coding}\"", status.len),
            None => format!("\"{stamp:x}-{:x}\"", status.len),
        };
        // A date must not be later than its message: RFC 9110 section 8.8.2.1.
        let modified_s = u64::try_from(modified_s).unwrap_or(0).min(self.now_s);
        let file = Validators { etag: etag.as_bytes(), modified_s, len_bytes: status.len };
        let decision = self.preferences.decide(&file, self.is_get, self.now_s);
        let whole = (0, status.len);
        let ((first, len_bytes), status_code) = match decision {
            Decision::Whole => (whole, 200),
            Decision::Part { first, len_bytes } => ((first, len_bytes), 206),
            Decision::NotModified => (whole, 304),
            Decision::Failed => return Ok(Some(Outcome::Reply(Reply::plain(412, "")))),
            Decision::Unsatisfiable => {
                let range = format!("content-range: bytes */{}\r\n", status.len);
                return Ok(Some(Outcome::Reply(Reply::plain(416, &range))));
            }
        };
        add(&mut fields, b"etag", etag.as_bytes());
        add(&mut fields, b"last-modified", &http_date(modified_s));
        fields.extend_from_slice(b"accept-ranges: bytes\r\n");
        if status_code == 304 {
            return Ok(Some(Outcome::Reply(Reply { status: 304, fields, part: None })));
        }
        add(&mut fields, b"content-type", kind);
        fields.extend_from_slice(b"x-content-type-options: nosniff\r\n");
        if let Some(coding) = coding {
            add(&mut fields, b"content-encoding", coding.as_bytes());
        }
        if status_code == 206 {
            let last = first + len_bytes - 1;
            let range = format!("content-range: bytes {first}-{last}/{}\r\n", status.len);
            fields.extend_from_slice(range.as_bytes());
        }
        add(&mut fields, b"content-length", len_bytes.to_string().as_bytes());
        let has_body = self.is_get && len_bytes > 0;
        let part = has_body.then_some(FilePart { opened, first, len_bytes });
        Ok(Some(Outcome::Reply(Reply { status: status_code, fields, part })))
    }

    /// The file, or a compressed neighbour that the client prefers. A neighbour older than the file is ignored.
    fn chosen(
        &self,
        names: &[u8],
        plain: Opened,
        fields: &mut Vec<u8>,
        find: &mut dyn FnMut(&CStr) -> io::Result<Option<Found>>,
    ) -> io::Result<Option<(Opened, Option<&'static str>)>> {
        let mut chosen = None;
        let mut is_varying = false;
        for (coding, suffix) in CODINGS {
            let Ok(path) = CString::new([names, suffix].concat()) else { continue };
            match find(&path)? {
                None => return Ok(None),
                Some(Found::File(other)) if other.status.modified >= plain.status.modified => {
                    is_varying = true;
                    if chosen.is_none() && self.preferences.accepts(coding.as_bytes()) {
                        chosen = Some((other, Some(coding)));
                    }
                }
                Some(_) => {}
            }
        }
        if is_varying {
            fields.extend_from_slice(b"vary: accept-encoding\r\n");
        }
        Ok(Some(chosen.unwrap_or((plain, None))))
    }
}

impl OwnWanted {
    pub fn path(&self) -> Vec<u8> {
        [self.prefix.as_slice(), &self.names].concat()
    }

    pub fn borrow(&self) -> Wanted<'_> {
        Wanted {
            prefix: &self.prefix,
            names: self.names.clone(),
            query: &self.query,
            is_get: self.is_get,
            preferences: self.preferences.clone(),
            types: Arc::clone(&self.types),
            now_s: self.now_s,
            is_open_to_app: self.is_open_to_app,
        }
    }
}

impl Reply {
    /// An answer without a body.
    pub fn plain(status: u16, fields: &str) -> Self {
        let fields = format!("{fields}content-length: 0\r\n").into_bytes();
        Self { status, fields, part: None }
    }

    /// The answer to an error of the operating system: a shortage may be temporary.
    pub fn of_error(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Self::plain(503, ""),
            _ => Self::plain(500, ""),
        }
    }
}

fn add(fields: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    fields.extend_from_slice(name);
    fields.extend_from_slice(b": ");
    fields.extend_from_slice(value);
    fields.extend_from_slice(b"\r\n");
}

/// By the suffix of the last name. A leading dot does not start a suffix.
fn type_of<'a>(types: &'a Types, names: &[u8]) -> &'a [u8] {
    let name = names.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let suffix = match memchr::memrchr(b'.', name) {
        Some(dot) if dot > 0 => &name[dot + 1..],
        _ => return UNKNOWN_TYPE,
    };
    let found = match types.get(suffix) {
        None => types.get(&suffix.to_ascii_lowercase()),
        found => found,
    };
    found.map_or(UNKNOWN_TYPE, Vec::as_slice)
}

/// Types that are usually sent compressed.
fn is_text(kind: &[u8]) -> bool {
    kind.starts_with(b"text/") || kind.ends_with(b"charset=utf-8") || kind == b"application/wasm"
}

/// Names must not be hidden, lead upwards, or be impossible for files.
pub fn is_allowed(names: &[u8]) -> bool {
    let is_hidden = |name: &[u8]| name.starts_with(b".") && name != b".well-known";
    memchr::memchr(0, names).is_none()
        && !names.starts_with(b"/")
        && memchr::memmem::find(names, b"//").is_none()
        && !names.split(|byte| *byte == b'/').any(is_hidden)
}
