//! Loops compiled twice: as they are, and for processors with wider registers.
//!
//! What is built for everybody may only use what every processor of the kind has, which on x86-64 are registers of
//! four floats. With AVX2 they have eight. Nothing else is different: each number is computed by the same steps in
//! the same order, so results are the same on every machine.

/// A function whose body is compiled for AVX2 as well, and run that way where the processor has it. What it calls
/// must be inlined (`#[inline(always)]`) to be compiled so.
macro_rules! wide {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$($kind:ident: $bound:path),+>)? (
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name $(<$($kind: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn plain $(<$($kind: $bound),+>)? ($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2 $(<$($kind: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
                    plain($($argument),*)
                }

                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has these instructions.
                    return unsafe { avx2($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}
pub(super) use wide;
