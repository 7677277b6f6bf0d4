//! f16 on the CPU.

/// f32 from the bits of an f16.
pub fn float_from_half(bits: u16) -> f32 {
    let (sign, exponent) = (if bits >> 15 == 1 { -1.0 } else { 1.0 }, i32::from(bits >> 10 & 31));
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    sign * match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    }
}

/// The bits of the nearest f16, ties to even.
pub fn half_from_float(x: f32) -> u16 {
    let sign = ((x.to_bits() >> 16) & 0x8000) as u16;
    let x = x.abs();
    if x.is_nan() {
        return 0x7fff;
    }
    // The last bit of an f16 of this size.
    let exponent = ((x.to_bits() >> 23) as i32 - 127).max(-14);
    let units = (f64::from(x) / 2f64.powi(exponent - 10)).round_ties_even();
    if units * 2f64.powi(exponent - 10) > 65504.0 {
        return sign | 0x7c00;
    }
    // 1024 units and more are the normal numbers of that exponent.
    let bits = (exponent + 14) * 1024 + units as i32;
    sign | bits as u16
}

#[test]
fn f16_rounds_to_nearest() {
    for bits in (0..0x7c00).chain(0x8000..0xfc00) {
        assert_eq!(half_from_float(float_from_half(bits)), bits);
    }
    let expected = [(1.0 + 2f32.powi(-11), 0x3c00), (1.0 + 3.0 * 2f32.powi(-11), 0x3c02)];
    for (x, bits) in expected.into_iter().chain([(65519.0, 0x7bff), (65520.0, 0x7c00)]) {
        assert_eq!(half_from_float(x), bits, "{x}");
    }
    assert_eq!(
        [
            half_from_float(2f32.powi(-25)),
            half_from_float(2.1 * 2f32.powi(-25)),
            half_from_float(f32::NAN)
        ],
        [0, 1, 0x7fff]
    );
}
