//! Plain Rust.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Int8;
use crate::kernel::simd::Portable;

/// Four columns at a time.
#[derive(Clone, Copy)]
pub struct PortableInt8;

// SAFETY: safe arithmetic on arrays; pointers are as the trait demands of the caller.
unsafe impl Int8 for PortableInt8 {
    type Float = Portable;
    type Sums = [i32; 4];
    type Quad = [i16; 4];
    type Weights = [[i8; 4]; 4];
    const ROWS: usize = 3;
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> [i32; 4] {
        [0; 4]
    }
    #[inline(always)]
    unsafe fn load_sums(p: *const i32) -> [i32; 4] {
        p.cast::<[i32; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn load_weights(p: *const i8) -> [[i8; 4]; 4] {
        p.cast::<[[i8; 4]; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> [i16; 4] {
        x.map(|x| i16::from(x.cast_signed()))
    }
    #[inline(always)]
    unsafe fn dot(sums: [i32; 4], x: [i16; 4], w: [[i8; 4]; 4]) -> [i32; 4] {
        core::array::from_fn(|j| {
            // Products of two numbers below 128 fit in 16 bits.
            let p: [i32; 4] = core::array::from_fn(|i| i32::from(x[i] * i16::from(w[j][i])));
            sums[j].wrapping_add((p[0] + p[1]) + (p[2] + p[3]))
        })
    }
    #[inline(always)]
    unsafe fn to_float(sums: [i32; 4]) -> [f32; 4] {
        sums.map(|x| x as f32)
    }
}
