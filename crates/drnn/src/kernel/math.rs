//! `exp`-based gate functions, accurate to a few units in the last place, NaN in NaN out.
//!
//! ```text
//! e^x = 2^k e^r,   k = round(x / ln 2),   |r| <= ln 2 / 2
//! e^r = 1 + r + r^2 p(r)                  p of degree 4, error 3.2e-9 (weighted least squares)
//! sigmoid(x) = 1 / (1 + e^-x)
//! tanh(x)    = u / (u + 2),  u = e^2x - 1 computed as such, so that small x lose nothing
//! ```

use super::simd::Simd;

const P: [f32; 5] = [0.5, 0.166_665_18, 0.041_666_206, 0.008_368_918, 0.001_395_054];
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// `(e^r - 1, 2^k)`, the two halves of `e^x`, for x within the range of f32's exponent.
#[inline(always)]
unsafe fn exp_parts<S: Simd>(x: S::V) -> (S::V, S::V) {
    unsafe {
        let k = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fma(k, S::splat(-LN2_HIGH), x);
        let r = S::fma(k, S::splat(-LN2_LOW), r);
        let mut p = S::splat(P[4]);
        p = S::fma(p, r, S::splat(P[3]));
        p = S::fma(p, r, S::splat(P[2]));
        p = S::fma(p, r, S::splat(P[1]));
        p = S::fma(p, r, S::splat(P[0]));
        (S::fma(p, S::mul(r, r), r), S::exp2_whole(k))
    }
}

/// The bound comes first in `min` and `max`: then a NaN in `x` is what they return.
#[inline(always)]
unsafe fn clamp<S: Simd>(x: S::V, bound: f32) -> S::V {
    unsafe { S::max(S::splat(-bound), S::min(S::splat(bound), x)) }
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let minus_x = clamp::<S>(S::sub(S::splat(0.0), x), 87.0);
        let (e, scale) = exp_parts::<S>(minus_x);
        let one = S::splat(1.0);
        S::div(one, S::add(S::fma(e, scale, scale), one))
    }
}

/// `(e^2x - 1) / (e^2x + 1)`
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    unsafe {
        // From 9.4 on tanh is 1 in f32.
        let (e, scale) = exp_parts::<S>(clamp::<S>(S::add(x, x), 18.8));
        let u = S::fma(e, scale, S::sub(scale, S::splat(1.0)));
        S::div(u, S::add(u, S::splat(2.0)))
    }
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
            assert!((s - s0).abs() <= 3e-7 * s0, "sigmoid({x}) = {s}, not {s0}");
            assert!((t - t0).abs() <= 3e-7 * t0.abs(), "tanh({x}) = {t}, not {t0}");
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
