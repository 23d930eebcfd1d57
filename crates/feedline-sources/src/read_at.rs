//! Reading at a place of a file, from any number of threads at once.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Fills `buffer` from byte `offset` on. Fewer bytes than that are `UnexpectedEof`.
#[cfg(unix)]
pub fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Fills `buffer` from byte `offset` on. Fewer bytes than that are `UnexpectedEof`.
#[cfg(windows)]
pub fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
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

/// Appends `len` bytes from byte `offset` on. Fewer bytes than that are `UnexpectedEof`, more than
/// there is memory for `OutOfMemory`.
#[cfg(unix)]
pub fn append_at(file: &File, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
    // Into memory that is not zeroed first: for a picture that would cost as much as a tenth of
    // reading it.
    make_room(out, len)?;
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

/// Appends `len` bytes from byte `offset` on. Fewer bytes than that are `UnexpectedEof`, more than
/// there is memory for `OutOfMemory`.
#[cfg(windows)]
pub fn append_at(file: &File, out: &mut Vec<u8>, offset: u64, len: usize) -> io::Result<()> {
    make_room(out, len)?;
    let from = out.len();
    out.resize(from + len, 0);
    read_exact_at(file, &mut out[from..], offset)
}

/// Makes room for `len` more bytes, or says that there is no memory for them: lengths come from files,
/// which may say anything.
pub(crate) fn make_room(out: &mut Vec<u8>, len: usize) -> io::Result<()> {
    if len <= out.capacity() - out.len() {
        return Ok(());
    }
    let room = if out.is_empty() {
        // A buffer that is used again and again: in few sizes, so that it leaves few holes in the heap.
        *out = Vec::new();
        out.try_reserve_exact(len.checked_next_power_of_two().unwrap_or(len))
            .or_else(|_| out.try_reserve_exact(len))
    } else {
        out.try_reserve(len)
    };
    room.map_err(|_| {
        let what = format!("there is no memory for its {len} bytes");
        io::Error::new(io::ErrorKind::OutOfMemory, what)
    })
}

/// Opens a file for reading and tells its length. A pipe or a device, which might never answer, is
/// refused.
pub fn open_plain(path: &Path) -> io::Result<(File, Metadata)> {
    plain(File::options().read(true), path)
}

/// Opens a file as `options` say, and tells its length. What is no file is refused.
pub(crate) fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
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
