//! Huffman decoding of baseline files, in place of libjpeg's own.
//!
//! More than half of the time of a decoded photograph went into libjpeg's `decode_mcu`. This one gives the same
//! coefficients in about half of it:
//!
//! * byte stuffing is taken out beforehand, a window at a time, so bits are refilled by one load ([`window`]);
//! * one look at the next bits gives up to two coefficients with their values and places, not a code that says
//!   how many bits to read next ([`tables`]);
//! * blocks outside the crop are only parsed, by tables that pass over as many symbols as fit.
//!
//! Everything else of the decoder stays libjpeg's: `shim.c` puts [`Entropy`] in the place of libjpeg's entropy
//! decoder where a file has one sequential Huffman scan, and leaves all others alone.

mod block;
mod tables;
mod window;

use std::ffi::{c_int, c_void};

use block::Bits;
use tables::{Ac, Dc, Spec};
use window::ScanWindow;

/// What `shim.c` says about a scan. Keep in step with it.
#[repr(C)]
pub(super) struct Scan {
    blocks: u32,
    mcus_per_row: u32,
    first_column: u32,
    last_column: u32,
    restart_interval: u32,
    component: [u8; 10],
    needed: [u8; 10],
    dc: [u8; 10],
    ac: [u8; 10],
    dc_tables: [*const RawTable; 4],
    ac_tables: [*const RawTable; 4],
    data: *const u8,
    length: usize,
}

/// The head of libjpeg's `JHUFF_TBL`.
#[repr(C)]
struct RawTable {
    bits: [u8; 17],
    values: [u8; 256],
}

/// Answers to `shim.c`.
const OK: c_int = 0;
const BAD_CODE: c_int = 1;
const MARKER_TOO_EARLY: c_int = 2;
const FILE_TOO_SHORT: c_int = 3;
const WRONG_RESTART: c_int = 4;
const UNFIT: c_int = 5;

/// How much of a block's coefficients is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needed {
    Nothing,
    Dc,
    All,
}

/// One block of an MCU.
#[derive(Clone, Copy)]
struct BlockPlace {
    component: usize,
    needed: Needed,
    dc: usize,
    ac: usize,
}

/// The decoder of one scan after the other. Tables are kept, because most files of a set share theirs.
pub(in crate::image) struct Entropy {
    window: ScanWindow,
    bits: Bits,
    dc: [Option<Box<Dc>>; 4],
    ac: [Option<Box<Ac>>; 4],
    places: Vec<BlockPlace>,
    last_dc: [i32; 4],
    column: u32,
    columns: u32,
    wanted: std::ops::RangeInclusive<u32>,
    restart_interval: u32,
    until_restart: u32,
    next_restart: u8,
    quick: bool,
}

impl Default for Entropy {
    fn default() -> Self {
        Self {
            window: ScanWindow::default(),
            bits: Bits::default(),
            dc: [const { None }; 4],
            ac: [const { None }; 4],
            places: Vec::new(),
            last_dc: [0; 4],
            column: 0,
            columns: 1,
            wanted: 0..=0,
            restart_interval: 0,
            until_restart: 0,
            next_restart: 0,
            quick: quick_shifts(),
        }
    }
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entropy").finish_non_exhaustive()
    }
}

/// Whether the processor can shift by any register, which the inner loops do all the time.
fn quick_shifts() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("bmi1") && std::arch::is_x86_feature_detected!("bmi2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

impl Entropy {
    /// Prepares for a scan. Says no to what it does not know, which libjpeg then decodes itself.
    ///
    /// # Safety
    ///
    /// The scan's tables are readable during the call; its data is until the last call of [`Entropy::mcu`].
    unsafe fn begin(&mut self, scan: &Scan) -> Option<()> {
        let blocks = usize::try_from(scan.blocks).ok().filter(|&n| (1..=10).contains(&n))?;
        self.places.clear();
        for at in 0..blocks {
            let (dc, ac) = (usize::from(scan.dc[at]), usize::from(scan.ac[at]));
            let component = usize::from(scan.component[at]);
            if dc >= 4 || ac >= 4 || component >= 4 {
                return None;
            }
            // SAFETY: the caller's promise; null is asked for.
            let (dc_table, ac_table) =
                unsafe { (scan.dc_tables[dc].as_ref()?, scan.ac_tables[ac].as_ref()?) };
            let spec = Spec::new(&dc_table.bits, &dc_table.values)?;
            if self.dc[dc].as_ref().is_none_or(|known| !known.is_for(&spec)) {
                self.dc[dc] = Some(Dc::new(&spec));
            }
            let spec = Spec::new(&ac_table.bits, &ac_table.values)?;
            if self.ac[ac].as_ref().is_none_or(|known| !known.is_for(&spec)) {
                self.ac[ac] = Some(Ac::new(&spec));
            }
            let needed = match scan.needed[at] {
                0 => Needed::Nothing,
                1 => Needed::Dc,
                _ => Needed::All,
            };
            self.places.push(BlockPlace { component, needed, dc, ac });
        }
        // SAFETY: the caller's promise about the data, for as long as the window is asked to fill.
        unsafe { self.window.begin(scan.data, scan.length) };
        self.bits = Bits::default();
        self.last_dc = [0; 4];
        (self.column, self.columns) = (0, scan.mcus_per_row.max(1));
        self.wanted = scan.first_column..=scan.last_column;
        self.restart_interval = scan.restart_interval;
        (self.until_restart, self.next_restart) = (scan.restart_interval, 0);
        Some(())
    }

    /// Decodes the next MCU into the blocks, which are all zero, or passes over it without blocks.
    ///
    /// # Safety
    ///
    /// `blocks` is null or points to as many pointers as an MCU has blocks, each to 64 coefficients.
    unsafe fn mcu(&mut self, blocks: *const *mut [i16; 64]) -> c_int {
        if self.restart_interval > 0 {
            if self.until_restart == 0 {
                let code = self.restart();
                if code != OK {
                    return code;
                }
            }
            self.until_restart -= 1;
        }
        self.window.fill(&mut self.bits.at);
        let wanted = !blocks.is_null() && self.wanted.contains(&self.column);
        self.column += 1;
        if self.column == self.columns {
            self.column = 0;
        }
        let blocks = if wanted { blocks } else { std::ptr::null() };
        #[cfg(target_arch = "x86_64")]
        if self.quick {
            // SAFETY: `quick` says that the processor has these instructions; the caller's promise.
            return unsafe { self.mcu_quick(blocks) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.mcu_plain(blocks) }
    }

    /// # Safety
    ///
    /// As [`Entropy::mcu`], on a processor with BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2")]
    unsafe fn mcu_quick(&mut self, blocks: *const *mut [i16; 64]) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { self.mcu_plain(blocks) }
    }

    /// # Safety
    ///
    /// As [`Entropy::mcu`].
    #[inline(always)]
    unsafe fn mcu_plain(&mut self, blocks: *const *mut [i16; 64]) -> c_int {
        let mut bits = self.bits;
        let data = self.window.data();
        for (number, place) in self.places.iter().enumerate() {
            let (Some(dc), Some(ac)) = (&self.dc[place.dc], &self.ac[place.ac]) else {
                return BAD_CODE;
            };
            let Some(difference) = bits.dc(data, dc) else {
                return self.reason(BAD_CODE, bits);
            };
            let last = &mut self.last_dc[place.component];
            *last = last.wrapping_add(difference);
            let needed = if blocks.is_null() { Needed::Nothing } else { place.needed };
            let done = if needed == Needed::Nothing {
                bits.pass(data, ac)
            } else {
                // SAFETY: not null, so the caller promises a pointer to 64 coefficients at every block's number.
                let block = unsafe { &mut **blocks.add(number) };
                block[0] = *last as i16;
                if needed == Needed::All {
                    bits.block(data, ac, block)
                } else {
                    bits.pass(data, ac)
                }
            };
            if done.is_none() {
                return self.reason(BAD_CODE, bits);
            }
        }
        self.bits = bits;
        if bits.consumed() > self.window.bits() { self.reason(OK, bits) } else { OK }
    }

    /// What to say when bits ran out, or `otherwise` if they did not.
    #[cold]
    fn reason(&self, otherwise: c_int, bits: Bits) -> c_int {
        if bits.consumed() <= self.window.bits() {
            otherwise
        } else if self.window.exhausted() {
            FILE_TOO_SHORT
        } else {
            MARKER_TOO_EARLY
        }
    }

    /// Goes on behind the next restart marker.
    #[cold]
    fn restart(&mut self) -> c_int {
        match self.window.next_segment() {
            Some(marker) if marker == 0xd0 + self.next_restart => {}
            Some(_) => return WRONG_RESTART,
            None => return FILE_TOO_SHORT,
        }
        self.next_restart = (self.next_restart + 1) % 8;
        self.until_restart = self.restart_interval;
        self.bits = Bits::default();
        self.last_dc = [0; 4];
        OK
    }
}

/// Called by `shim.c` before the first MCU.
///
/// # Safety
///
/// `entropy` points to an [`Entropy`] that nothing else uses meanwhile; `scan` is as [`Entropy::begin`] asks.
pub(super) unsafe extern "C" fn begin(entropy: *mut c_void, scan: *const Scan) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { if (*entropy.cast::<Entropy>()).begin(&*scan).is_some() { OK } else { UNFIT } }
}

/// Called by `shim.c` for every MCU.
///
/// # Safety
///
/// `entropy` points to an [`Entropy`] that nothing else uses meanwhile and that has begun; `blocks` are as
/// [`Entropy::mcu`] asks.
pub(super) unsafe extern "C" fn mcu(entropy: *mut c_void, blocks: *const *mut [i16; 64]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*entropy.cast::<Entropy>()).mcu(blocks) }
}
