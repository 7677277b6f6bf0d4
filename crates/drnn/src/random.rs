//! Random numbers that are the same everywhere: on every machine, in every version, on a GPU.
//!
//! ```text
//! bits(seed, i) = mix(seed + (i + 1) * 0x9E3779B97F4A7C15)        (SplitMix64)
//! ```
//!
//! The i-th number depends on the seed and on i alone, so any part of a stream can be made anywhere.

#[cfg(not(feature = "std"))]
#[allow(unused_imports, reason = "std's are found if a dependency has std")]
use crate::cpu::float::Float;

/// A position in the stream of numbers of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Rng {
    /// The beginning of the stream of `seed`.
    pub fn new(seed: u64) -> Rng {
        // Mixed once, so that the streams of neighbouring seeds are not shifts of each other.
        Rng { state: mix(seed) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Uniform in [0, 1), a multiple of 2^-24.
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// Uniform in [-bound, bound).
    pub fn symmetric(&mut self, bound: f32) -> f32 {
        (2.0 * self.uniform() - 1.0) * bound
    }

    /// Normal with mean 0 and variance 1 (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - f64::from(self.uniform())).ln()).sqrt();
        let angle = core::f64::consts::TAU * f64::from(self.uniform());
        (radius * angle.cos()) as f32
    }

    /// Uniform among 0..n.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "nothing to choose from");
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_pinned_values() {
        let mut rng = Rng::new(7);
        let n = 100_000;
        let (mut mean, mut var, mut uni) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let z = f64::from(rng.normal());
            mean += z;
            var += z * z;
            uni += f64::from(rng.uniform());
        }
        let n = f64::from(n);
        assert!((mean / n).abs() < 0.02 && (var / n - 1.0).abs() < 0.02);
        assert!((uni / n - 0.5).abs() < 0.01);

        // Files of results name their seed: these values must never change.
        let mut rng = Rng::new(0);
        assert_eq!(rng.bits(), 0xE220_A839_7B1D_CDAF);
    }
}
