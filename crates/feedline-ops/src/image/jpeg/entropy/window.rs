//! A scan's data without its byte stuffing, a window at a time.

/// So many bytes are made ready at once: they stay in the processor's nearest caches.
const AHEAD: usize = 16 << 10;
/// More than one MCU can take (10 blocks of 64 symbols of at most 32 bits) and one load beyond. So many zeros
/// follow the last byte of a segment, which is what libjpeg reads there, too.
const SLACK: usize = 2560 + 64;

/// The part of a segment (what lies between two markers) that is being decoded.
pub(super) struct ScanWindow {
    /// What is left of the file, from the scan's first byte on.
    source: *const u8,
    length: usize,
    /// Bytes of the source that were taken.
    taken: usize,
    /// `end` bytes without stuffing, then anything.
    data: Vec<u8>,
    end: usize,
    /// The segment's end has been seen, and zeros follow `end`.
    complete: bool,
    /// The marker behind the segment; none if the file ended.
    marker: Option<u8>,
}

// SAFETY: the pointer is only read, under the promise of `begin`, which holds on any thread.
unsafe impl Send for ScanWindow {}
// SAFETY: nothing is read through a shared reference but the window's own data.
unsafe impl Sync for ScanWindow {}

impl Default for ScanWindow {
    fn default() -> Self {
        Self {
            source: std::ptr::NonNull::dangling().as_ptr(),
            length: 0,
            taken: 0,
            data: vec![0; AHEAD + 2 * SLACK],
            end: 0,
            complete: false,
            marker: None,
        }
    }
}

impl ScanWindow {
    /// Begins a scan.
    ///
    /// # Safety
    ///
    /// `length` bytes at `source` stay readable and unchanged until the window is last asked for more.
    pub(super) unsafe fn begin(&mut self, source: *const u8, length: usize) {
        (self.source, self.length, self.taken) = (source, length, 0);
        self.start_segment();
    }

    fn start_segment(&mut self) {
        (self.end, self.complete, self.marker) = (0, false, None);
    }

    /// The data; what is read from it lies before the end or in the zeros behind it.
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Bits before the end.
    pub(super) fn bits(&self) -> i64 {
        self.end as i64 * 8
    }

    /// Whether the segment ended with the file.
    pub(super) fn exhausted(&self) -> bool {
        self.complete && self.marker.is_none()
    }

    /// Makes sure that an MCU's bytes are there from `at` on, or the segment's end and zeros. Moves `at` along
    /// with the data.
    #[inline]
    pub(super) fn fill(&mut self, at: &mut usize) {
        if self.end < *at + SLACK && !self.complete {
            self.refill(at);
        }
    }

    #[cold]
    fn refill(&mut self, at: &mut usize) {
        // Not complete, so the zeros behind the end have not been read: `at` is at most a load beyond it.
        let from = (*at).min(self.end);
        self.data.copy_within(from..self.end, 0);
        self.end -= from;
        *at -= from;
        while self.end < AHEAD && !self.complete {
            self.take(true);
        }
        if self.complete {
            self.data[self.end..self.end + SLACK].fill(0);
        }
    }

    /// Takes bytes up to the next 0xff and what that means.
    fn take(&mut self, keep: bool) {
        // SAFETY: the promise of `begin`; `taken` never exceeds `length`.
        let rest = unsafe {
            std::slice::from_raw_parts(self.source.add(self.taken), self.length - self.taken)
        };
        let room = if keep { AHEAD + SLACK - self.end - 1 } else { rest.len() };
        let part = &rest[..rest.len().min(room)];
        let plain = memchr::memchr(0xff, part);
        let count = plain.unwrap_or(part.len());
        if keep {
            self.data[self.end..self.end + count].copy_from_slice(&part[..count]);
            self.end += count;
        }
        self.taken += count;
        if plain.is_none() {
            self.complete = self.taken == self.length;
            return;
        }
        match rest.get(count + 1) {
            Some(0x00) => {
                if keep {
                    self.data[self.end] = 0xff;
                    self.end += 1;
                }
                self.taken += 2;
            }
            // Any number of 0xff may come before a marker.
            Some(0xff) => self.taken += 1,
            Some(&marker) => {
                self.taken += 2;
                (self.marker, self.complete) = (Some(marker), true);
            }
            None => {
                self.taken = self.length;
                self.complete = true;
            }
        }
    }

    /// Passes over what is left of the segment; its marker, or none at the file's end.
    pub(super) fn next_segment(&mut self) -> Option<u8> {
        while !self.complete {
            self.take(false);
        }
        let marker = self.marker;
        self.start_segment();
        marker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(source: &[u8]) -> Vec<(Vec<u8>, Option<u8>)> {
        let mut window = ScanWindow::default();
        // SAFETY: `source` outlives the window.
        unsafe { window.begin(source.as_ptr(), source.len()) };
        let mut all = Vec::new();
        loop {
            let (mut at, mut data) = (0, Vec::new());
            loop {
                window.fill(&mut at);
                // An MCU's worth at most, as the decoder takes it.
                let step = (window.end - at).min(1000);
                data.extend_from_slice(&window.data()[at..at + step]);
                at += step;
                if window.complete && at == window.end {
                    break;
                }
            }
            assert!(window.data()[at..at + SLACK].iter().all(|&b| b == 0), "zeros behind the end");
            let marker = window.next_segment();
            all.push((data, marker));
            if marker.is_none_or(|m| !(0xd0..=0xd7).contains(&m)) {
                return all;
            }
        }
    }

    #[test]
    fn stuffing_goes_and_markers_part_segments() {
        let source = b"ab\xff\x00c\xff\xff\xd0d\xff\x00\xff\x00\xff\xd9more";
        let expected = vec![(b"ab\xffc".to_vec(), Some(0xd0)), (b"d\xff\xff".to_vec(), Some(0xd9))];
        assert_eq!(segments(source), expected);
    }

    #[test]
    fn the_files_end_is_no_marker() {
        assert_eq!(segments(b""), vec![(vec![], None)]);
        assert_eq!(segments(b"abc"), vec![(b"abc".to_vec(), None)]);
        assert_eq!(segments(b"abc\xff"), vec![(b"abc".to_vec(), None)]);
    }

    #[test]
    fn long_segments_pass_window_by_window() {
        let plain: Vec<u8> = (0..100_000u32).map(|i| ((i * 7919) >> 5) as u8).collect();
        let mut source = Vec::new();
        for &byte in &plain {
            source.push(byte);
            if byte == 0xff {
                source.push(0);
            }
        }
        source.extend_from_slice(b"\xff\xd9");
        assert!(segments(&source) == vec![(plain, Some(0xd9))]);
    }
}
