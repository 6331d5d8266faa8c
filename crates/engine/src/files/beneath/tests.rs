//! Files inside the folder are found and nothing else is, with and without openat2(2).

use super::{AtOnce, Found, Root};
use std::ffi::{CStr, CString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("beneath-{name}-{}", std::process::id()));
        fs::create_dir_all(place.join("in/sub")).expect("a folder");
        fs::write(place.join("outside"), "outside").expect("a file");
        fs::write(place.join("in/file"), "content").expect("a file");
        fs::write(place.join("in/sub/other"), "other").expect("a file");
        let link =
            |to: &Path, name: &str| symlink(to, place.join("in").join(name)).expect("a link");
        link(Path::new("../outside"), "out");
        link(&place.join("outside"), "absolute-out");
        link(&place.join("in/file"), "absolute-in");
        link(Path::new("sub/../file"), "round");
        link(Path::new("loop"), "loop");
        Self(place)
    }

    fn root(&self) -> Root {
        let path = CString::new(self.0.join("in").to_str().expect("text")).expect("no NUL");
        Root::open(&path).expect("the folder")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("removed");
    }
}

/// A word for what was found, or the file's content.
fn word(found: Found) -> String {
    match found {
        Found::File(opened) => {
            let mut content = String::new();
            fs::File::from(opened.fd).read_to_string(&mut content).expect("read");
            assert_eq!(content.len() as u64, opened.status.len);
            content
        }
        Found::Folder => "folder".into(),
        Found::Nothing => "nothing".into(),
        Found::Forbidden => "forbidden".into(),
    }
}

/// Tries until the kernel has the path in its cache. The kernel also says "not cached" while a rename is in progress.
fn found_at_once(root: &Root, path: &CStr, is_known: bool) -> Option<Found> {
    (0..100).find_map(|_| match root.find_cached(path, is_known).expect("found") {
        AtOnce::Done(found) => Some(found),
        _ => None,
    })
}

const CASES: [(&str, &str); 12] = [
    ("file", "content"),
    ("sub/other", "other"),
    ("sub", "folder"),
    ("none", "nothing"),
    ("file/index.html", "nothing"),
    ("out", "nothing"),
    ("../outside", "nothing"),
    ("absolute-out", "nothing"),
    ("absolute-in", "content"),
    ("round", "content"),
    ("loop", "nothing"),
    ("/etc/passwd", "nothing"),
];

#[test]
fn what_lies_in_the_folder_is_found() {
    let tree = Tree::new("found");
    let root = tree.root();
    for (path, expected) in CASES {
        let path = CString::new(path).expect("no NUL");
        assert_eq!(word(root.find(&path).expect("found")), expected, "{path:?}");
        for is_known in [false, true] {
            if let Some(found) = found_at_once(&root, &path, is_known) {
                assert_eq!(word(found), expected, "{path:?}");
            } else {
                // Links that the kernel refuses to follow are left to the threads.
                assert!(["nothing", "content"].contains(&expected), "{path:?}");
            }
        }
    }
    let file = CString::new("file").expect("no NUL");
    assert!(matches!(found_at_once(&root, &file, false), Some(Found::File(_))));
}

#[test]
fn without_the_kernels_help_the_same_is_found() {
    let tree = Tree::new("checked");
    let root = tree.root();
    for (path, expected) in CASES {
        let path = CString::new(path).expect("no NUL");
        let is_inside = matches!(root.check(&path), Ok(Some(_)));
        assert_eq!(is_inside, expected != "nothing", "{path:?}");
    }
}

#[test]
fn a_fifo_is_not_opened() {
    let tree = Tree::new("fifo");
    let path = CString::new(tree.0.join("in/fifo").as_os_str().as_bytes()).expect("no NUL");
    crate::sys::file::make_fifo((libc::AT_FDCWD, &path), 0o600).expect("a FIFO");
    let name = CString::new("fifo").expect("no NUL");
    assert_eq!(word(tree.root().find(&name).expect("found")), "nothing");
}
