//! Work for a core: a chain of multiplications, measured in steps and not in time, so that every
//! side does exactly the same.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Does `steps` steps. Each waits for the one before it, so neither the compiler nor the core can
/// do several at once.
pub(crate) fn chain(steps: u64, seed: u64) -> u64 {
    // SplitMix64's constants; any odd multiplier would do.
    let mut state = seed ^ 0x9E37_79B9_7F4A_7C15;
    for _ in 0..steps {
        state = (state ^ (state >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB);
    }
    state
}

/// How many steps take `time` on this machine while nobody disturbs it.
pub(crate) fn steps_in(time: Duration) -> u64 {
    const STEPS: u64 = 2_000_000;
    // The shortest of several: whatever disturbs only makes it longer.
    let measure = |round| {
        let started = Instant::now();
        black_box(chain(STEPS, black_box(round)));
        started.elapsed().as_secs_f64()
    };
    let shortest = (0..25).map(measure).fold(f64::INFINITY, f64::min);
    (STEPS as f64 * time.as_secs_f64() / shortest) as u64
}
