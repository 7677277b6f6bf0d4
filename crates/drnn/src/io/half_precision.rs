//! Numbers of 16 bits in files, which are f32 in memory. By hand, because the crate `half` and what
//! it needs take a third of the time of building this one.

#[cfg(not(feature = "std"))]
#[allow(unused_imports, reason = "std's are found if a dependency has std")]
use crate::cpu::float::Float;

/// An IEEE 754 binary16 as f32, exactly.
pub(crate) fn f16_to_f32(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, exponent, fraction) = ((bits >> 15) << 31, (bits >> 10) & 31, bits & 1023);
    let magnitude = match (exponent, fraction) {
        (0, _) => (fraction as f32 / (1 << 24) as f32).to_bits(), // zero or subnormal
        (31, 0) => f32::INFINITY.to_bits(),
        (31, _) => f32::NAN.to_bits(),
        _ => ((exponent + 127 - 15) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | magnitude)
}

/// A bfloat16, the upper half of an f32, as f32.
pub(crate) fn bf16_to_f32([low, high]: [u8; 2]) -> f32 {
    f32::from_le_bytes([0, 0, low, high])
}

/// The nearest bfloat16, ties to even; infinity beyond the largest.
pub(crate) fn f32_to_bf16(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let rounded = match x.is_nan() {
        true => 0x7FC0,
        false => ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16,
    };
    rounded.to_le_bytes()
}

/// The nearest IEEE 754 binary16, ties to even; infinity beyond the largest.
pub(crate) fn f32_to_f16(x: f32) -> [u8; 2] {
    // The smallest normal number, 2^-14, and 2^16, as bits of an f32.
    const NORMAL: u32 = (127 - 14) << 23;
    const OVERFLOW: u32 = (127 + 16) << 23;
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.abs().to_bits();
    let rounded = match magnitude {
        _ if x.is_nan() => 0x7E00,
        OVERFLOW.. => 0x7C00,
        NORMAL.. => {
            // The same exponent with a bias of 15, then 13 bits of the fraction rounded away. A carry
            // goes into the exponent, up to infinity.
            let bits = magnitude - ((127 - 15) << 23);
            ((bits + 0x0FFF + ((bits >> 13) & 1)) >> 13) as u16
        }
        // Subnormal: a multiple of 2^-24.
        _ => (x.abs() * (1 << 24) as f32).round_ties_even() as u16,
    };
    (sign | rounded).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use half::{bf16, f16};

    #[test]
    fn all_numbers_of_16_bits_are_read_as_the_crate_half_does() {
        for bits in 0..=u16::MAX {
            let bytes = bits.to_le_bytes();
            for (found, expected) in [
                (f16_to_f32(bytes), f16::from_bits(bits).to_f32()),
                (bf16_to_f32(bytes), bf16::from_bits(bits).to_f32()),
            ] {
                let same = found.to_bits() == expected.to_bits();
                assert!(same || found.is_nan() && expected.is_nan(), "{bits:x}: {found}");
            }
        }
    }

    #[test]
    fn numbers_are_rounded_as_the_crate_half_does() {
        let check = |x: f32| {
            let (found, expected) = (f32_to_f16(x), f16::from_f32(x));
            let nan = x.is_nan() && f16::from_le_bytes(found).is_nan();
            assert!(nan || found == expected.to_le_bytes(), "{x:e}");
            let (found, expected) = (f32_to_bf16(x), bf16::from_f32(x));
            let nan = x.is_nan() && bf16::from_le_bytes(found).is_nan();
            assert!(nan || found == expected.to_le_bytes(), "{x:e}");
        };
        // Every number of 16 bits, the one half-way to the next, and their neighbours.
        for bits in 0..=0x7BFF_u16 {
            let [a, b] = [bits, bits + 1].map(|bits| f64::from(f16_to_f32(bits.to_le_bytes())));
            let half_way = if b.is_finite() { (a + b) / 2.0 } else { 65520.0 };
            for x in [a, half_way] {
                let bits = (x as f32).to_bits();
                for bits in [bits.saturating_sub(1), bits, bits + 1] {
                    check(f32::from_bits(bits));
                    check(-f32::from_bits(bits));
                }
            }
        }
        let mut rng = Rng::new(1);
        (0..1_000_000).for_each(|_| check(f32::from_bits(rng.bits() as u32)));
        [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 65519.996]
            .into_iter()
            .for_each(check);
    }
}
