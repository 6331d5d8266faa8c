//! statx(2): an open file's status without contacting a server, and its alignment for direct I/O.
//!
//! Called by number, with the structure and the constants of linux/stat.h: glibc has `statx` from 2.28 on, musl from 1.2.5.

use super::{checked, libc};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

#[repr(C)]
struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
    reserved: i32,
}

/// `struct statx` of linux/stat.h, with the kernel's names; the kernel fills no more than it has defined of these 256 bytes.
#[repr(C)]
struct Statx {
    stx_mask: u32,
    stx_blksize: u32,
    stx_attributes: u64,
    stx_nlink: u32,
    stx_uid: u32,
    stx_gid: u32,
    stx_mode: u16,
    spare0: u16,
    stx_ino: u64,
    stx_size: u64,
    stx_blocks: u64,
    stx_attributes_mask: u64,
    stx_atime: Timestamp,
    stx_btime: Timestamp,
    stx_ctime: Timestamp,
    stx_mtime: Timestamp,
    stx_rdev_major: u32,
    stx_rdev_minor: u32,
    stx_dev_major: u32,
    stx_dev_minor: u32,
    stx_mnt_id: u64,
    stx_dio_mem_align: u32,
    stx_dio_offset_align: u32,
    spare3: [u64; 12],
}

const _: () = assert!(size_of::<Statx>() == 256);

const AT_STATX_SYNC_AS_STAT: libc::c_int = 0;
const AT_STATX_DONT_SYNC: libc::c_int = 0x4000;
const STATX_BASIC_STATS: u32 = 0x07ff;
const STATX_MNT_ID: u32 = 0x1000;
const STATX_DIOALIGN: u32 = 0x2000;
/// Since 6.8: a mount's number that is never reused.
const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
const WITH_MOUNT: u32 = STATX_BASIC_STATS | STATX_MNT_ID | STATX_MNT_ID_UNIQUE;

fn statx(file: RawFd, flags: libc::c_int, mask: u32) -> io::Result<Statx> {
    let mut told = MaybeUninit::<Statx>::zeroed();
    // SAFETY: the empty path is a literal, and `told` has room for the structure through the call. An
    // invalid `file` is an error from the kernel (EBADF), not a memory error.
    let result = unsafe {
        libc::syscall(
            libc::SYS_statx,
            file,
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            mask,
            told.as_mut_ptr(),
        )
    };
    checked(result as libc::c_int)?;
    // SAFETY: plain integers, all zero before the kernel filled them.
    Ok(unsafe { told.assume_init() })
}

/// The alignment that O_DIRECT requires for a file, in bytes; both are zero where it is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectAlignment {
    pub memory_bytes: u32,
    pub offset_bytes: u32,
}

/// `None`: the kernel (before 6.1) or the filesystem does not report it.
pub fn direct_alignment(file: RawFd) -> io::Result<Option<DirectAlignment>> {
    let told = statx(file, 0, STATX_DIOALIGN)?;
    Ok((told.stx_mask & STATX_DIOALIGN != 0).then_some(DirectAlignment {
        memory_bytes: told.stx_dio_mem_align,
        offset_bytes: told.stx_dio_offset_align,
    }))
}

/// The mount of a file. Kernels before 6.8 reuse the number of a mount that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mount {
    pub device: u64,
    pub id: u64,
}

/// What the kernel reports about an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub mode: u32,
    /// In bytes; may be out of date for a file on another machine.
    pub len: u64,
    /// The preferred I/O size in bytes.
    pub block_bytes: u32,
    pub links: u32,
    /// Allocated disk space in bytes.
    pub allocated_bytes: u64,
    pub uid: u32,
    /// When the content last changed: seconds since 1970, and nanoseconds of that second.
    pub modified: (i64, u32),
    pub mount: Mount,
}

impl Status {
    fn is(&self, format: libc::mode_t) -> bool {
        self.mode & libc::S_IFMT == format
    }

    pub fn is_fifo(&self) -> bool {
        self.is(libc::S_IFIFO)
    }

    /// Opening it may wait: for the other end of a FIFO or for a modem's carrier.
    pub fn may_wait_for_ever(&self) -> bool {
        self.is_fifo() || self.is(libc::S_IFCHR)
    }

    pub fn is_file_or_folder(&self) -> bool {
        self.is(libc::S_IFREG) || self.is(libc::S_IFDIR)
    }

    pub fn is_socket(&self) -> bool {
        self.is(libc::S_IFSOCK)
    }

    pub fn is_block_device(&self) -> bool {
        self.is(libc::S_IFBLK)
    }

    pub fn is_regular(&self) -> bool {
        self.is(libc::S_IFREG)
    }

    pub fn has_offsets(&self) -> bool {
        self.is(libc::S_IFREG) || self.is(libc::S_IFBLK)
    }
}

/// Returns what the kernel has cached about an open file (AT_STATX_DONT_SYNC). It contacts no server and so never
/// blocks.
pub fn at_hand(file: RawFd) -> io::Result<Status> {
    status(file, AT_STATX_DONT_SYNC)
}

/// Returns the current status, which may need a request to a server.
pub fn asked(file: RawFd) -> io::Result<Status> {
    status(file, AT_STATX_SYNC_AS_STAT)
}

/// A time as the kernel reports it: seconds since 1970, and nanoseconds of that second.
pub type Time = (i64, u32);

/// All that stat(2) reports, and the mount.
#[derive(Clone, Copy, Debug)]
pub struct FullStatus {
    pub mode: u32,
    pub inode: u64,
    pub device: u64,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub len: u64,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub block_bytes: u32,
    /// Allocated disk space in units of 512 bytes.
    pub blocks: u64,
    /// Of a device file: the device.
    pub of_device: u64,
    pub mount: Mount,
}

/// Like `at_hand`, with all that stat(2) reports.
pub fn all_at_hand(file: RawFd) -> io::Result<FullStatus> {
    let told = statx(file, AT_STATX_DONT_SYNC, WITH_MOUNT)?;
    let time = |time: &Timestamp| (time.seconds, time.nanoseconds);
    Ok(FullStatus {
        mode: told.stx_mode.into(),
        inode: told.stx_ino,
        device: libc::makedev(told.stx_dev_major, told.stx_dev_minor),
        links: told.stx_nlink,
        uid: told.stx_uid,
        gid: told.stx_gid,
        len: told.stx_size,
        accessed: time(&told.stx_atime),
        modified: time(&told.stx_mtime),
        changed: time(&told.stx_ctime),
        block_bytes: told.stx_blksize,
        blocks: told.stx_blocks,
        of_device: libc::makedev(told.stx_rdev_major, told.stx_rdev_minor),
        mount: mount(&told),
    })
}

fn mount(told: &Statx) -> Mount {
    Mount {
        device: u64::from(told.stx_dev_major) << 32 | u64::from(told.stx_dev_minor),
        id: told.stx_mnt_id,
    }
}

fn status(file: RawFd, sync: libc::c_int) -> io::Result<Status> {
    let told = statx(file, sync, WITH_MOUNT)?;
    Ok(Status {
        mode: told.stx_mode.into(),
        len: told.stx_size,
        block_bytes: told.stx_blksize,
        links: told.stx_nlink,
        allocated_bytes: told.stx_blocks.saturating_mul(512),
        uid: told.stx_uid,
        modified: (told.stx_mtime.seconds, told.stx_mtime.nanoseconds),
        mount: mount(&told),
    })
}

#[cfg(test)]
mod tests {
    use super::{asked, at_hand, direct_alignment};
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn pipes_have_no_alignment_and_files_have_powers_of_two() {
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(direct_alignment(pipe.as_raw_fd()).expect("statx"), None);
        let file = File::open(std::env::current_exe().expect("the test")).expect("open");
        if let Some(told) = direct_alignment(file.as_raw_fd()).expect("statx") {
            assert!(told.memory_bytes == 0 || told.memory_bytes.is_power_of_two());
            assert!(told.offset_bytes == 0 || told.offset_bytes.is_power_of_two());
        }
    }

    #[test]
    fn what_is_at_hand_is_what_is_told() {
        let file = File::open(std::env::current_exe().expect("the test")).expect("open");
        let told = at_hand(file.as_raw_fd()).expect("statx");
        assert_eq!(told, asked(file.as_raw_fd()).expect("statx"));
        assert!(told.is_regular() && told.len > 0 && told.links > 0);
        assert_eq!(at_hand(-1).expect_err("no file").raw_os_error(), Some(libc::EBADF));
    }
}
