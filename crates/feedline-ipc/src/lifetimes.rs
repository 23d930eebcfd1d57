//! Whatever is made, lent, kept, returned and closed in whatever order: what is held stays as it was, byte for
//! byte, and what nobody holds has no memory. Both sides are in this process, over a file of small slots.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::end::{Block, End, Posted};
use crate::file::SharedFile;
use crate::hub::{Hub, Received};
use crate::layout::{Direction, HEADER, Layout};
use crate::loan::Loan;

const SLOT: u64 = 64 << 10;
const SLOTS: u64 = 48;

#[derive(Clone, Debug)]
enum Step {
    /// The worker makes a block and writes it.
    Make(usize),
    /// The worker sends a part of a block that it has, and the hub holds it.
    Send(Index, Index, Index),
    /// The worker sends bytes that are in none, and the hub holds them.
    Copy(usize),
    /// The worker packs a message with a block that it has, and does not send it.
    PackOnly(Index),
    /// The worker lets go of a block.
    Disown(Index),
    /// The hub's process lets go of what it holds.
    Drop(Index),
    /// The worker has nothing to do.
    Pause,
}

fn size() -> impl Strategy<Value = usize> {
    let slot = SLOT as usize;
    prop_oneof![0..200usize, 0..slot / 4, slot / 4..slot, slot - 70..6 * slot]
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    prop_oneof![
        3 => size().prop_map(Step::Make),
        3 => (index(), index(), index()).prop_map(|(block, a, b)| Step::Send(block, a, b)),
        2 => size().prop_map(Step::Copy),
        1 => index().prop_map(Step::PackOnly),
        3 => index().prop_map(Step::Disown),
        3 => index().prop_map(Step::Drop),
        1 => Just(Step::Pause),
    ]
}

/// Both sides, and what they should have.
struct World {
    hub: Hub,
    end: End,
    fd: OwnedFd,
    region: Range<u64>,
    /// As the machine has it, and as it is pretended to be.
    pages: [u64; 2],
    blocks: Vec<(Block, Vec<u8>)>,
    /// Each with its block's place in the file.
    held: Vec<(Loan, Vec<u8>, Range<u64>)>,
    made: u8,
}

impl World {
    fn new(pages: u64) -> World {
        let layout = Layout::small(SLOT, SLOTS);
        let file = SharedFile::create("test", layout.file_len()).expect("memory");
        let real = file.page();
        let file = file.with_page(pages * real);
        let fd = rustix::io::dup(&file).expect("a descriptor");
        let hub = Hub::over(Arc::new(file), layout).expect("memory");
        World {
            end: hub.worker_end(0).expect("there is one").expect("it is open"),
            hub,
            fd,
            region: layout.region(0, Direction::Results),
            pages: [real, pages * real],
            blocks: Vec::new(),
            held: Vec::new(),
            made: 0,
        }
    }

    /// Bytes that differ from place to place and from block to block, none of them 0.
    fn pattern(&mut self, len: usize) -> Vec<u8> {
        self.made = self.made.wrapping_add(1);
        (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(self.made) | 1).collect()
    }

    /// Sends a buffer. The region may be full.
    fn send(&mut self, buffer: &[u8], block: Option<Range<u64>>) {
        // SAFETY: the buffer is a slice that lives.
        let Ok(message) = (unsafe { self.end.pack(b"?", &[(buffer.as_ptr(), buffer.len())]) })
        else {
            return;
        };
        assert!(matches!(message.post(Duration::ZERO), Ok(Posted::Done)));
        let Ok(Received::Parcel(mut parcel)) = self.hub.try_receive() else {
            panic!("it was sent")
        };
        let loan = parcel.take_buffers().pop().expect("one buffer");
        let block = block.unwrap_or_else(|| place(loan.block(), buffer.len()));
        self.held.push((loan, buffer.to_vec(), block));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Make(len) => {
                let Ok(block) = self.end.allocate(len) else { return };
                let bytes = self.pattern(len);
                // SAFETY: the block is new and as long.
                unsafe { bytes.as_ptr().copy_to_nonoverlapping(block.pointer().as_ptr(), len) };
                self.blocks.push((block, bytes));
            }
            Step::Send(block, a, b) if !self.blocks.is_empty() => {
                let (block, bytes) = &self.blocks[block.index(self.blocks.len())];
                let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
                // SAFETY: within the block, which nobody writes any more.
                let part = unsafe {
                    std::slice::from_raw_parts(
                        block.pointer().add(a.min(b)).as_ptr(),
                        a.abs_diff(b),
                    )
                };
                // Nothing is nowhere, so it gets a block of its own.
                let place = (!part.is_empty()).then(|| place(block.block(), block.len()));
                self.send(part, place);
            }
            Step::Copy(len) => {
                let bytes = self.pattern(len);
                self.send(&bytes, None);
            }
            Step::PackOnly(block) if !self.blocks.is_empty() => {
                let (block, _) = &self.blocks[block.index(self.blocks.len())];
                // SAFETY: the buffer is the block.
                drop(unsafe { self.end.pack(b"!", &[(block.pointer().as_ptr(), block.len())]) });
            }
            Step::Disown(block) if !self.blocks.is_empty() => {
                self.blocks.swap_remove(block.index(self.blocks.len()));
            }
            Step::Drop(held) if !self.held.is_empty() => {
                self.held.swap_remove(held.index(self.held.len()));
            }
            Step::Pause => {
                assert!(self.end.receive(Duration::ZERO).is_ok());
            }
            Step::Send(..) | Step::PackOnly(_) | Step::Disown(_) | Step::Drop(_) => {}
        }
    }

    fn check_bytes(&self) {
        for (loan, bytes, _) in &self.held {
            // SAFETY: nobody writes what was sent.
            let found = unsafe { std::slice::from_raw_parts(loan.pointer().as_ptr(), loan.len()) };
            assert!(found == bytes, "{} held bytes have changed", bytes.len());
        }
        for (block, bytes) in &self.blocks {
            // SAFETY: as above.
            let found =
                unsafe { std::slice::from_raw_parts(block.pointer().as_ptr(), block.len()) };
            assert!(found == bytes, "{} bytes of a block have changed", bytes.len());
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

    /// After a pause: blocks in use have memory, and little else.
    fn check_idle(&self) {
        let blocks = self.blocks.iter().map(|(block, _)| place(block.block(), block.len()));
        let used = blocks.chain(self.held.iter().map(|(_, _, block)| block.clone()));
        let used = self.touched(used, self.pages[1]);
        let spare = self.resident().difference(&used).count() as u64 * self.pages[0];
        // An eighth of a slot may stay for small blocks, and for large ones, each as whole pages.
        assert!(spare <= 2 * (SLOT / 8 + self.pages[1]), "{spare} bytes are not in use");
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

/// A block with its header.
fn place(block: u64, len: usize) -> Range<u64> {
    block - HEADER..block + len as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_held_stays_and_what_is_not_held_goes(
        steps in prop::collection::vec(step(), 1..60),
        drops in prop::collection::vec(any::<Index>(), 0..40),
        pages in prop_oneof![Just(1u64), Just(4)],
    ) {
        let mut world = World::new(pages);
        for step in steps {
            let pause = matches!(step, Step::Pause);
            world.step(step);
            world.check_bytes();
            if pause {
                world.check_idle();
            }
        }
        world.hub.close();
        world.blocks.clear();
        for drop in drops {
            world.check_closed();
            world.check_bytes();
            world.step(Step::Drop(drop));
        }
        world.held.clear();
        world.check_closed();
    }
}
