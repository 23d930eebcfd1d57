//! Reading at a place of a file, from any number of threads at once.

use std::fs::File;
use std::io;

/// Fills `buffer` from byte `offset` on. Fewer bytes than that are `UnexpectedEof`.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Fills `buffer` from byte `offset` on. Fewer bytes than that are `UnexpectedEof`.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Appends `len` bytes from byte `offset` on. Fewer bytes than that are `UnexpectedEof`.
///
/// The caller has compared `len` with the file's length: it is allocated at once.
#[cfg(unix)]
pub(crate) fn append_at(file: &File, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
    if out.is_empty() && out.capacity() < len {
        // A buffer that is used again and again: in few sizes, so that it leaves few holes in the heap.
        *out = Vec::with_capacity(len.checked_next_power_of_two().unwrap_or(len));
    }
    // Into memory that is not zeroed first: for a picture that would cost as much as a tenth of
    // reading it.
    out.reserve(len);
    let mut done = 0;
    while done < len {
        let spare = &mut out.spare_capacity_mut()[..len - done];
        let read = match rustix::io::pread(file, spare, offset + done as u64) {
            Ok((read, _)) => read.len(),
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: `pread` has written so many bytes behind the vector's end, within its capacity.
        unsafe { out.set_len(out.len() + read) };
        done += read;
    }
    Ok(())
}

/// Appends `len` bytes from byte `offset` on. Fewer bytes than that are `UnexpectedEof`.
#[cfg(windows)]
pub(crate) fn append_at(file: &File, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
    let from = out.len();
    out.resize(from + len, 0);
    read_exact_at(file, &mut out[from..], offset)
}

/// Opens a file for reading and tells its length. A pipe or a device, which might never answer, is
/// refused.
pub(crate) fn open_plain(path: &std::path::Path) -> io::Result<(File, std::fs::Metadata)> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Were it a pipe, opening would not wait for a writer; for a file it means nothing. Asking
        // for the kind only afterwards leaves no moment in which it could change.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() {
        return Ok((file, meta));
    }
    let what = if meta.is_dir() { "it is a folder" } else { "it is no regular file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}
