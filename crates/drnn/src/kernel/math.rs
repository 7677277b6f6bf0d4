//! `exp`-based gate functions: as good as the exact ones of an argument one unit in the last place
//! away. NaN in, NaN out.
//!
//! ```text
//! e^x = 2^t,  t = x / ln 2
//! 2^t = 2^k (1 + f p(f)),   k = round(t),  f = t - k        p of degree 5, relative error 1.1e-8
//! sigmoid(x) = 1 / (1 + e^-x)
//! tanh(x)    = u / (u + 2),  u = e^2x - 1 computed as such, so that small x lose nothing
//! ```

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait or module"
)]

use super::simd::Simd;
use core::f32::consts::{LN_2, LOG2_E};

/// Coefficients of p, by weighted least squares on `(2^f - 1) / f`.
const P: [f32; 6] =
    [LN_2, 0.240_226_49, 0.055_503_573, 0.009_618_238, 0.001_339_075_9, 0.000_154_035_14];

/// `(2^f - 1, 2^k)`, the two halves of `2^t`, for t within the range of f32's exponent.
#[inline(always)]
unsafe fn exp2_parts<S: Simd>(t: S::V) -> (S::V, S::V) {
    let k = S::round(t);
    let f = S::sub(t, k);
    let mut p = S::splat(P[5]);
    p = S::fma(p, f, S::splat(P[4]));
    p = S::fma(p, f, S::splat(P[3]));
    p = S::fma(p, f, S::splat(P[2]));
    p = S::fma(p, f, S::splat(P[1]));
    p = S::fma(p, f, S::splat(P[0]));
    (S::mul(p, f), S::exp2_whole(k))
}

/// The bound comes first in `min` and `max`: then a NaN in `x` is what they return.
#[inline(always)]
unsafe fn clamp<S: Simd>(x: S::V, bound: f32) -> S::V {
    S::max(S::splat(-bound), S::min(S::splat(bound), x))
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    let (e, scale) = exp2_parts::<S>(clamp::<S>(S::mul(x, S::splat(-LOG2_E)), 126.0));
    let one = S::splat(1.0);
    S::recip(S::add(S::fma(e, scale, scale), one))
}

/// `(e^2x - 1) / (e^2x + 1)`
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // From t = 27 on, where x is 9.4, tanh is 1 in f32.
    let (e, scale) = exp2_parts::<S>(clamp::<S>(S::mul(x, S::splat(2.0 * LOG2_E)), 27.0));
    let u = S::fma(e, scale, S::sub(scale, S::splat(1.0)));
    S::mul(u, S::recip(S::add(u, S::splat(2.0))))
}

#[cfg(test)]
mod tests {
    use super::super::simd::Portable;
    use super::*;

    fn apply(f: impl Fn([f32; 4]) -> [f32; 4], x: f32) -> f64 {
        f64::from(f([x; 4])[0])
    }

    #[test]
    fn close_to_the_exact_functions_everywhere() {
        for i in -40_000..=40_000 {
            let x = i as f32 * 1e-3;
            let exact = f64::from(x);
            let s = apply(|v| unsafe { sigmoid::<Portable>(v) }, x);
            let t = apply(|v| unsafe { tanh::<Portable>(v) }, x);
            let (s0, t0) = (1.0 / (1.0 + (-exact).exp()), exact.tanh());
            // What a unit in the last place of x does to s, and a few roundings.
            let tolerance = 2.5e-7 + exact.abs() * 1e-7 * (1.0 - s0);
            assert!((s - s0).abs() <= tolerance * s0, "sigmoid({x}) = {s}, not {s0}");
            assert!((t - t0).abs() <= 2.5e-7 * t0.abs(), "tanh({x}) = {t}, not {t0}");
        }
    }

    #[test]
    fn ends_and_nan() {
        let sig = |x| apply(|v| unsafe { sigmoid::<Portable>(v) }, x);
        let tan = |x| apply(|v| unsafe { tanh::<Portable>(v) }, x);
        assert_eq!((sig(f32::INFINITY), tan(f32::INFINITY)), (1.0, 1.0));
        assert_eq!(tan(f32::NEG_INFINITY), -1.0);
        assert!(sig(f32::NEG_INFINITY) < 1e-37);
        assert!(sig(f32::NAN).is_nan() && tan(f32::NAN).is_nan());
        assert_eq!(tan(0.0), 0.0);
    }
}
