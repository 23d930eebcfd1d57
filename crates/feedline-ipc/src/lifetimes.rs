//! Whatever is made, lent, kept, returned and closed in whatever order: what is held stays as it was, byte for
//! byte, and what nobody holds has no memory. Both sides are in this process, over a file of small chunks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::end::{End, Extent, Posted};
use crate::file::SharedFile;
use crate::file_map::{Direction, FileMap, HEADER};
use crate::hub::{Hub, Received};
use crate::loan::Loan;

const CHUNK: u64 = 64 << 10;
const CHUNKS: u64 = 48;

#[derive(Clone, Debug)]
enum TestMove {
    /// The worker makes an extent and writes it.
    Make(usize),
    /// The worker sends a part of an extent that it has, and the hub holds it.
    Send(Index, Index, Index),
    /// The worker sends bytes that are in none, and the hub holds them.
    Copy(usize),
    /// The worker packs a message with an extent that it has, and does not send it.
    PackOnly(Index),
    /// The worker lets go of an extent.
    Disown(Index),
    /// The hub's process lets go of what it holds.
    Drop(Index),
    /// The worker has nothing to do.
    Pause,
}

fn size() -> impl Strategy<Value = usize> {
    let chunk = CHUNK as usize;
    prop_oneof![0..200usize, 0..chunk / 4, chunk / 4..chunk, chunk - 70..6 * chunk]
}

fn step() -> impl Strategy<Value = TestMove> {
    let index = any::<Index>;
    prop_oneof![
        3 => size().prop_map(TestMove::Make),
        3 => (index(), index(), index()).prop_map(|(extent, a, b)| TestMove::Send(extent, a, b)),
        2 => size().prop_map(TestMove::Copy),
        1 => index().prop_map(TestMove::PackOnly),
        3 => index().prop_map(TestMove::Disown),
        3 => index().prop_map(TestMove::Drop),
        1 => Just(TestMove::Pause),
    ]
}

/// Both sides, and what they should have.
struct BothSides {
    hub: Hub,
    end: End,
    fd: OwnedFd,
    region: Range<u64>,
    /// As the machine has it, and as it is pretended to be.
    pages: [u64; 2],
    extents: Vec<(Extent, Vec<u8>)>,
    /// Each with its extent's place in the file.
    held: Vec<(Loan, Vec<u8>, Range<u64>)>,
    made: u8,
}

impl BothSides {
    fn new(pages: u64) -> BothSides {
        let file_map = FileMap::small(CHUNK, CHUNKS);
        let file = SharedFile::create("test", file_map.file_len()).expect("memory");
        let real = file.page();
        let file = file.with_page(pages * real);
        let fd = rustix::io::dup(&file).expect("a descriptor");
        let hub = Hub::over(Arc::new(file), file_map, 1).expect("memory");
        BothSides {
            end: hub.worker_end(0).expect("there is one").expect("it is open"),
            hub,
            fd,
            region: file_map.region(0, Direction::Results),
            pages: [real, pages * real],
            extents: Vec::new(),
            held: Vec::new(),
            made: 0,
        }
    }

    /// Bytes that differ from place to place and from extent to extent, none of them 0.
    fn pattern(&mut self, len: usize) -> Vec<u8> {
        self.made = self.made.wrapping_add(1);
        (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(self.made) | 1).collect()
    }

    /// Sends a buffer. The region may be full.
    fn send(&mut self, buffer: &[u8], extent: Option<Range<u64>>) {
        // SAFETY: the buffer is a slice that lives.
        let Ok(message) = (unsafe { self.end.pack(b"?", &[(buffer.as_ptr(), buffer.len())]) })
        else {
            return;
        };
        assert!(matches!(message.post(Duration::ZERO), Ok(Posted::Done)));
        let Ok(Received::Message(mut message)) = self.hub.try_receive() else {
            panic!("it was sent")
        };
        let loan = message.take_buffers().pop().expect("one buffer");
        let extent = extent.unwrap_or_else(|| bytes_of(loan.extent(), buffer.len()));
        self.held.push((loan, buffer.to_vec(), extent));
    }

    fn step(&mut self, step: TestMove) {
        match step {
            TestMove::Make(len) => {
                let Ok(extent) = self.end.allocate(len) else { return };
                let bytes = self.pattern(len);
                // SAFETY: the extent is new and as long.
                unsafe { bytes.as_ptr().copy_to_nonoverlapping(extent.pointer().as_ptr(), len) };
                self.extents.push((extent, bytes));
            }
            TestMove::Send(extent, a, b) if !self.extents.is_empty() => {
                let (extent, bytes) = &self.extents[extent.index(self.extents.len())];
                let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
                // SAFETY: within the extent, which nobody writes any more.
                let part = unsafe {
                    std::slice::from_raw_parts(
                        extent.pointer().add(a.min(b)).as_ptr(),
                        a.abs_diff(b),
                    )
                };
                // Nothing is nowhere, so it gets an extent of its own.
                let place = (!part.is_empty()).then(|| bytes_of(extent.extent(), extent.len()));
                self.send(part, place);
            }
            TestMove::Copy(len) => {
                let bytes = self.pattern(len);
                self.send(&bytes, None);
            }
            TestMove::PackOnly(extent) if !self.extents.is_empty() => {
                let (extent, _) = &self.extents[extent.index(self.extents.len())];
                // SAFETY: the buffer is the extent.
                drop(unsafe { self.end.pack(b"!", &[(extent.pointer().as_ptr(), extent.len())]) });
            }
            TestMove::Disown(extent) if !self.extents.is_empty() => {
                self.extents.swap_remove(extent.index(self.extents.len()));
            }
            TestMove::Drop(held) if !self.held.is_empty() => {
                self.held.swap_remove(held.index(self.held.len()));
            }
            TestMove::Pause => {
                assert!(self.end.receive(Duration::from_nanos(1)).is_ok());
            }
            TestMove::Send(..)
            | TestMove::PackOnly(_)
            | TestMove::Disown(_)
            | TestMove::Drop(_) => {}
        }
    }

    fn check_bytes(&self) {
        for (loan, bytes, _) in &self.held {
            // SAFETY: nobody writes what was sent.
            let found = unsafe { std::slice::from_raw_parts(loan.pointer().as_ptr(), loan.len()) };
            assert!(found == bytes, "{} held bytes have changed", bytes.len());
        }
        for (extent, bytes) in &self.extents {
            // SAFETY: as above.
            let found =
                unsafe { std::slice::from_raw_parts(extent.pointer().as_ptr(), extent.len()) };
            assert!(found == bytes, "{} bytes of an extent have changed", bytes.len());
        }
    }

    /// The pages of the region that have memory, by the machine's size.
    fn resident(&self) -> BTreeSet<u64> {
        use rustix::fs::{SeekFrom, seek};
        let (mut pages, mut at) = (BTreeSet::new(), self.region.start);
        while let Ok(data) = seek(&self.fd, SeekFrom::Data(at))
            && data < self.region.end
        {
            at = seek(&self.fd, SeekFrom::Hole(data)).expect("every file ends with one");
            pages.extend((data..at.min(self.region.end)).step_by(self.pages[0] as usize));
        }
        pages
    }

    /// The machine's pages that these touch, when pages are of the size `page`.
    fn touched(&self, parts: impl Iterator<Item = Range<u64>>, page: u64) -> BTreeSet<u64> {
        parts
            .filter(|part| !part.is_empty())
            .flat_map(|part| {
                let start = part.start / page * page;
                let end = part.end.div_ceil(page) * page;
                (start..end).step_by(self.pages[0] as usize)
            })
            .collect()
    }

    /// After a pause: extents in use have memory, and little else.
    fn check_idle(&self) {
        let extents =
            self.extents.iter().map(|(extent, _)| bytes_of(extent.extent(), extent.len()));
        let used = extents.chain(self.held.iter().map(|(_, _, extent)| extent.clone()));
        let used = self.touched(used, self.pages[1]);
        let spare = self.resident().difference(&used).count() as u64 * self.pages[0];
        // An eighth of a chunk may stay for small extents, and for large ones, each as whole pages.
        assert!(spare <= 2 * (CHUNK / 8 + self.pages[1]), "{spare} bytes are not in use");
    }

    /// After the end: what is held has memory, and nothing else.
    fn check_closed(&self) {
        let held = || self.held.iter().map(|(loan, _, _)| loan.bytes());
        let resident = self.resident();
        assert!(self.touched(held(), self.pages[0]).is_subset(&resident), "held, but gone");
        let most = self.touched(held(), self.pages[1]);
        assert!(resident.is_subset(&most), "{:?}", resident.difference(&most));
    }
}

/// An extent with its header.
fn bytes_of(extent: u64, len: usize) -> Range<u64> {
    extent - HEADER..extent + len as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_held_stays_and_what_is_not_held_goes(
        steps in prop::collection::vec(step(), 1..60),
        drops in prop::collection::vec(any::<Index>(), 0..40),
        pages in prop_oneof![Just(1u64), Just(4)],
    ) {
        let mut world = BothSides::new(pages);
        for step in steps {
            let pause = matches!(step, TestMove::Pause);
            world.step(step);
            world.check_bytes();
            if pause {
                world.check_idle();
            }
        }
        world.hub.close();
        world.extents.clear();
        for drop in drops {
            world.check_closed();
            world.check_bytes();
            world.step(TestMove::Drop(drop));
        }
        world.held.clear();
        world.check_closed();
    }
}
