//! `Lookup`: what a thread has to find, because finding it may block.

use super::wanted::{Outcome, OwnWanted};
use oneloop_engine::files::beneath::Root;
use std::ffi::CString;
use std::io;

/// What a thread has to find.
pub struct Lookup {
    pub folder: CString,
    pub wanted: OwnWanted,
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
