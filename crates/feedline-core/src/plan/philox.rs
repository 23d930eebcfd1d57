//! Philox4x64-10, the counter-based generator every random decision of a plan comes from.
//!
//! J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3",
//! SC 2011. A block is a pure function of key and counter, so there is no state to carry between
//! workers, and `(seed, epoch, sample)` goes into it as it is, without a hash that could collide.

const MULTIPLIER: [u64; 2] = [0xD2E7_470E_E14C_6C93, 0xCA5A_8263_9512_1157];
const WEYL: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B];
const ROUNDS: usize = 10;

/// The 256 random bits at `counter` under `key`.
#[inline]
pub(crate) fn block(mut key: [u64; 2], mut counter: [u64; 4]) -> [u64; 4] {
    for _ in 0..ROUNDS {
        let (hi0, lo0) = wide(MULTIPLIER[0], counter[0]);
        let (hi1, lo1) = wide(MULTIPLIER[1], counter[2]);
        counter = [hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[inline]
fn wide(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    ((product >> 64) as u64, product as u64)
}

#[cfg(test)]
mod tests {
    use super::block;

    /// The known-answer vectors published with the authors' Random123 library.
    #[test]
    fn agrees_with_the_published_vectors() {
        assert_eq!(
            block([0; 2], [0; 4]),
            [0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b]
        );
        assert_eq!(
            block([u64::MAX; 2], [u64::MAX; 4]),
            [0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0]
        );
        assert_eq!(
            block(
                [0x452821e638d01377, 0xbe5466cf34e90c6c],
                [0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89]
            ),
            [0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6]
        );
    }
}
