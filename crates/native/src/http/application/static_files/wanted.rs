//! `Wanted`: a request for a file below a folder. Decides which file is sent, and which part of it.
//!
//! Runs on the loop if nothing blocks, otherwise on threads. Uses no Python. Caches nothing, so nothing can be stale.
//! Hidden names are treated as missing.

use super::multipart::{self, content_range};
use crate::http::exchange::compression::Rules;
use crate::http::exchange::reply::{FilePart, Reply};
use oneloop_engine::files::beneath::Found;
use oneloop_engine::files::served::Opened;
use oneloop_http1::representation::{Decision, Part, Preferences, Validators};
use oneloop_http1::response::http_date;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::slice;
use std::sync::Arc;

/// Content types by suffix in lower case, without the dot.
pub type Types = HashMap<Vec<u8>, Vec<u8>>;

/// In order of preference, for clients that accept several.
const CODINGS: [(&str, &[u8]); 3] = [("br", b".br"), ("zstd", b".zst"), ("gzip", b".gz")];
const INDEX: &[u8] = b"index.html";
const HEX: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
const VARY: &[u8] = b"vary: accept-encoding\r\n";
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
    /// Which files are compressed.
    pub rules: Option<Arc<Rules>>,
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
    rules: Option<Arc<Rules>>,
    now_s: u64,
    is_open_to_app: bool,
}

pub enum Outcome {
    Reply(Reply),
    /// The application has to respond.
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
            rules: self.rules,
            now_s: self.now_s,
            is_open_to_app: self.is_open_to_app,
        }
    }

    /// Finds the file and decides on the response; `None` if `find` would block.
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
        // get another response.
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
        let packed =
            if coding.is_none() { self.packing(kind, status.len, &mut fields) } else { None };
        let etag = match packed.map(|(_, coding)| coding).or(coding) {
            Some(coding) => format!("\"{stamp:x}-{:x}-{coding}\"", status.len),
            None => format!("\"{stamp:x}-{:x}\"", status.len),
        };
        // A date must not be later than its message: RFC 9110 section 8.8.2.1.
        let modified_s = u64::try_from(modified_s).unwrap_or(0).min(self.now_s);
        let file = Validators { etag: etag.as_bytes(), modified_s, len_bytes: status.len };
        let decision = self.preferences.decide(&file, self.is_get, self.now_s);
        let whole = Part { first: 0, len_bytes: status.len };
        let (parts, status_code) = match &decision {
            Decision::Whole => (slice::from_ref(&whole), 200),
            Decision::Part(part) => (slice::from_ref(part), 206),
            Decision::Parts(parts) => (parts.as_slice(), 206),
            Decision::NotModified => (slice::from_ref(&whole), 304),
            Decision::Failed => return Ok(Some(Outcome::Reply(Reply::plain(412, "")))),
            Decision::Unsatisfiable => {
                let range = format!("content-range: bytes */{}\r\n", status.len);
                return Ok(Some(Outcome::Reply(Reply::plain(416, &range))));
            }
        };
        // Compressed again, it may be other bytes.
        let strength = if packed.is_some() { "W/" } else { "" };
        add(&mut fields, b"etag", format!("{strength}{etag}").as_bytes());
        add(&mut fields, b"last-modified", &http_date(modified_s));
        if packed.is_none() {
            fields.extend_from_slice(b"accept-ranges: bytes\r\n");
        }
        if status_code == 304 {
            let reply = Reply { status: 304, fields, part: None, coding: None };
            return Ok(Some(Outcome::Reply(reply)));
        }
        fields.extend_from_slice(b"x-content-type-options: nosniff\r\n");
        if let Some(coding) = packed.map(|(_, coding)| coding).or(coding) {
            add(&mut fields, b"content-encoding", coding.as_bytes());
        }
        let body = content(opened, kind, parts, status_code == 206, &mut fields);
        if packed.is_none() {
            add(&mut fields, b"content-length", body.len_bytes.to_string().as_bytes());
        }
        let has_body = self.is_get && body.len_bytes > 0;
        let part = has_body.then_some(body);
        let coding = packed.map(|(place, _)| place);
        Ok(Some(Outcome::Reply(Reply { status: status_code, fields, part, coding })))
    }

    /// The coding in which the file is sent compressed; a request for ranges gets them of the file itself.
    fn packing(&self, kind: &[u8], len: u64, fields: &mut Vec<u8>) -> Option<(usize, &str)> {
        let rules = self.rules.as_ref().filter(|rules| rules.is_for(kind, Some(len)))?;
        if memchr::memmem::find(fields, VARY).is_none() {
            fields.extend_from_slice(VARY);
        }
        if self.preferences.names_ranges() {
            return None;
        }
        rules.choose(&self.preferences).map(|place| (place, rules.codings[place].as_str()))
    }

    /// The file, or the compressed neighbour that the client prefers: that of the highest quality, among equals the
    /// first of `CODINGS`. A neighbour older than the file is ignored, and so is one below the quality that the client
    /// gives to `identity`.
    fn chosen(
        &self,
        names: &[u8],
        plain: Opened,
        fields: &mut Vec<u8>,
        find: &mut dyn FnMut(&CStr) -> io::Result<Option<Found>>,
    ) -> io::Result<Option<(Opened, Option<&'static str>)>> {
        let mut chosen = None;
        // Not named, it is acceptable, but anything that is named is better: RFC 9110 section 12.5.3.
        let mut least = self.preferences.quality(b"identity").max(1);
        let mut is_varying = false;
        for (coding, suffix) in CODINGS {
            let Ok(path) = CString::new([names, suffix].concat()) else { continue };
            match find(&path)? {
                None => return Ok(None),
                Some(Found::File(other)) if other.status.modified >= plain.status.modified => {
                    is_varying = true;
                    let quality = self.preferences.quality(coding.as_bytes());
                    if quality >= least {
                        // The next one has to be better.
                        least = quality + 1;
                        chosen = Some((other, Some(coding)));
                    }
                }
                Some(_) => {}
            }
        }
        if is_varying {
            fields.extend_from_slice(VARY);
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
            rules: self.rules.clone(),
            now_s: self.now_s,
            is_open_to_app: self.is_open_to_app,
        }
    }
}

/// The whole file, or one or several parts of it as a body; writes the fields that tell which.
fn content(
    opened: Opened,
    kind: &[u8],
    parts: &[Part],
    is_partial: bool,
    fields: &mut Vec<u8>,
) -> FilePart {
    let [part] = parts else {
        let boundary = multipart::boundary();
        let kind_of_all = format!("multipart/byteranges; boundary={boundary}");
        add(fields, b"content-type", kind_of_all.as_bytes());
        return multipart::body(opened, kind, parts, &boundary);
    };
    add(fields, b"content-type", kind);
    if is_partial {
        add(fields, b"content-range", content_range(*part, opened.status.len).as_bytes());
    }
    FilePart::new(opened, part.first, part.len_bytes)
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
