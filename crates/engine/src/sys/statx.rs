//! statx(2): what direct I/O on an open file must be aligned to.

use super::checked;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// What O_DIRECT asks of a file, in bytes; both are zero where it is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectAlignment {
    pub memory_bytes: u32,
    pub offset_bytes: u32,
}

/// `None`: the kernel (before 6.1) or the filesystem does not tell.
pub fn direct_alignment(file: RawFd) -> io::Result<Option<DirectAlignment>> {
    let mut told = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the empty path is a literal, and `told` has room for the structure through the call. A
    // wrong `file` is an error of the kernel's (EBADF), not of memory.
    checked(unsafe {
        libc::statx(
            file,
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            told.as_mut_ptr(),
        )
    })?;
    // SAFETY: plain integers, all zero before the kernel filled them.
    let told = unsafe { told.assume_init() };
    Ok((told.stx_mask & libc::STATX_DIOALIGN != 0).then_some(DirectAlignment {
        memory_bytes: told.stx_dio_mem_align,
        offset_bytes: told.stx_dio_offset_align,
    }))
}

#[cfg(test)]
mod tests {
    use super::direct_alignment;
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
}
