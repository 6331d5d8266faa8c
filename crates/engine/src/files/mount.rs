//! Which filesystems answer without blocking: from memory, or by reporting that they would block.
//!
//! On all others (NFS, FUSE, unknown types) every call may wait for a server, even fstat(2) and close(2), so an
//! engine has to do it. The verdict depends on the filesystem type. statfs(2), which returns the type, may itself
//! block, so threads call `learn` once per mount and the loop only calls `verdict`.

use crate::sys::statfs;
use crate::sys::statx::{Mount, Status};
use std::io;
use std::os::fd::RawFd;
use std::sync::{PoisonError, RwLock};

/// How a filesystem behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// Calls may wait for a server.
    Remote,
    /// Reading what the kernel has in memory does not block, but opening for writing may copy the whole file first.
    LocalToRead,
    Local,
    /// The files themselves are in memory. A read can only wait for swapped-out pages, but cannot report that it
    /// would.
    Memory,
}

impl Locality {
    pub fn is_local(self) -> bool {
        self != Self::Remote
    }
}

/// What may hang together: all local filesystems, or one mount of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Local,
    Mount(Mount),
    /// A function of the program, or a path of which nothing is known.
    Unknown,
}

impl Place {
    /// Never blocks.
    pub fn of(mount: Mount) -> Self {
        if verdict(mount).is_some_and(Locality::is_local) {
            Self::Local
        } else {
            Self::Mount(mount)
        }
    }

    /// Of several places that one call uses: the one that may hang.
    pub fn first_remote(places: impl Iterator<Item = Self>) -> Self {
        places.fold(Self::Unknown, |found, place| match (found, place) {
            (Self::Mount(_), _) | (_, Self::Unknown) => found,
            (Self::Local | Self::Unknown, place) => place,
        })
    }
}

/// The number of verdicts kept. With more mounts than that they are learnt again.
const KEPT: usize = 128;

static VERDICTS: RwLock<Vec<(Mount, Locality)>> = RwLock::new(Vec::new());

/// From linux/magic.h and the filesystems' own headers.
const LOCAL: [u32; 18] = [
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0xe0f5_e1e2, // erofs
    0x7371_7368, // squashfs
    0x3153_464a, // jfs
    0x0000_4d44, // vfat
    0x2011_bab0, // exfat
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x6367_7270, // cgroup2
    0x0000_1cd1, // devpts
    0x5049_5045, // pipes
    0x534f_434b, // sockets
    0x0904_1934, // eventfd and similar
];
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
const OVERLAY: u32 = 0x794c_7630;

fn of_type(magic: u32) -> Locality {
    match magic {
        OVERLAY => Locality::LocalToRead,
        TMPFS | RAMFS => Locality::Memory,
        magic if LOCAL.contains(&magic) => Locality::Local,
        _ => Locality::Remote,
    }
}

/// `None`: not learnt yet. Never blocks.
pub fn verdict(mount: Mount) -> Option<Locality> {
    let verdicts = VERDICTS.read().unwrap_or_else(PoisonError::into_inner);
    verdicts.iter().find(|(known, _)| *known == mount).map(|(_, verdict)| *verdict)
}

/// Determines the behaviour of an open file's filesystem. May wait for a server.
pub fn learn(file: RawFd, status: &Status) -> io::Result<Locality> {
    if let Some(verdict) = verdict(status.mount) {
        return Ok(verdict);
    }
    let verdict = of_type(statfs::magic(file)?);
    let mut verdicts = VERDICTS.write().unwrap_or_else(PoisonError::into_inner);
    if verdicts.len() >= KEPT {
        verdicts.clear();
    }
    verdicts.push((status.mount, verdict));
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::statx;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_verdict_is_learnt_once_and_is_of_the_type() {
        let proc = File::open("/proc/version").expect("procfs");
        let status = statx::at_hand(proc.as_raw_fd()).expect("statx");
        assert_eq!(learn(proc.as_raw_fd(), &status).expect("statfs"), Locality::Local);
        assert_eq!(verdict(status.mount), Some(Locality::Local));
        let (remote, unknown) = (Place::Mount(status.mount), Place::Unknown);
        for (places, found) in [
            (vec![], unknown),
            (vec![unknown, Place::Local, unknown], Place::Local),
            (vec![Place::Local, remote, Place::Local, unknown], remote),
        ] {
            assert_eq!(Place::first_remote(places.into_iter()), found);
        }
        assert_eq!(of_type(0x6573_5546), Locality::Remote, "FUSE");
        assert_eq!(of_type(0x6969), Locality::Remote, "NFS");
        assert_eq!(of_type(TMPFS), Locality::Memory);
        assert_eq!(of_type(OVERLAY), Locality::LocalToRead);
    }
}
