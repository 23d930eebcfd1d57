//! zlib-rs, stopped at the end of each block: where a block begins is what a restart point has to know, and zlib-rs's
//! own interface does not tell it.

use libz_rs_sys::{
    Z_BLOCK, Z_BUF_ERROR, Z_OK, Z_STREAM_END, inflate, inflateEnd, inflateInit2_, inflateReset,
    z_stream, zlibVersion,
};

/// Decompresses gzip and zlib streams and checks what they say of their content at their end.
pub(super) struct BlockStream {
    stream: Box<z_stream>,
}

/// How far a call came.
#[derive(Copy, Clone, Debug)]
pub(super) struct BlockStep {
    /// Bytes taken.
    pub(super) taken: usize,
    /// Bytes made.
    pub(super) made: usize,
    pub(super) state: BlockState,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockState {
    /// Within a block: there was no more input, or no more room.
    Within,
    /// Before the next block, which begins so many bits before the next byte to be taken.
    Between { bits: u8 },
    /// After the last block of the stream, which ends so many bits before the next byte to be taken.
    Last { bits: u8 },
    /// At the end of the stream.
    End,
}

/// A stream that is none, or does not have what it says.
pub(super) struct BadStream(pub(super) String);

/// What the header tells of gzip or zlib, with the largest window.
const ANY_HEADER: i32 = 15 + 32;

impl BlockStream {
    pub(super) fn new() -> Result<BlockStream, BadStream> {
        let mut stream = Box::new(z_stream::default());
        let size = i32::try_from(size_of::<z_stream>()).unwrap_or(0);
        // SAFETY: the stream has its default allocator and lives on the heap, where its state may point back to it;
        // version and size are those of the library that is linked.
        let code = unsafe { inflateInit2_(&mut *stream, ANY_HEADER, zlibVersion(), size) };
        if code == Z_OK { Ok(BlockStream { stream }) } else { Err(BadStream("no memory".into())) }
    }

    /// Begins another stream.
    pub(super) fn reset(&mut self) {
        // SAFETY: `new` has initialised the stream.
        unsafe { inflateReset(&mut *self.stream) };
    }

    /// Goes on, at most to the end of the block.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<BlockStep, BadStream> {
        // No more than it can count: what is left is for the next call.
        let most = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let (given, room) = (most(input.len()), most(output.len()));
        let stream = &mut *self.stream;
        stream.next_in = input.as_ptr();
        stream.avail_in = given;
        stream.next_out = output.as_mut_ptr();
        stream.avail_out = room;
        // SAFETY: `new` has initialised the stream; the two pointers and lengths are those of the slices, which
        // outlive the call, and nothing of them is kept after it.
        let code = unsafe { inflate(stream, Z_BLOCK) };
        let taken = (given - stream.avail_in) as usize;
        let made = (room - stream.avail_out) as usize;
        let bits = (stream.data_type & 63) as u8;
        let state = match code {
            Z_STREAM_END => BlockState::End,
            Z_OK | Z_BUF_ERROR => match (stream.data_type & 128 != 0, stream.data_type & 64 != 0) {
                (true, true) => BlockState::Last { bits },
                (true, false) => BlockState::Between { bits },
                _ => BlockState::Within,
            },
            _ => return Err(BadStream(self.message())),
        };
        Ok(BlockStep { taken, made, state })
    }

    fn message(&self) -> String {
        let message = self.stream.msg;
        if message.is_null() {
            return "it is no gzip or zlib stream".to_string();
        }
        // SAFETY: messages are constants of the library that end in a zero.
        let text = unsafe { std::ffi::CStr::from_ptr(message) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for BlockStream {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised the stream, and this is its only end.
        unsafe { inflateEnd(&mut *self.stream) };
    }
}
