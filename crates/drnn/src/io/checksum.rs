//! Checksums and fingerprints of files: quick hashes against damage and mix-ups, not against forgery.
//!
//! ```text
//! state <- rotate_left((state xor word) * PRIME, R)        from BASIS, 64 bits
//! ```
//!
//! PRIME and BASIS are those of FNV-1a, which this is for bytes and R = 0. The others read larger
//! words, which is quicker, and rotate, because a multiplication carries no bit downwards. They are
//! part of file formats, so none of these functions may ever change.

const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

fn step<const ROTATE: u32>(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(PRIME).rotate_left(ROTATE)
}

fn hash<const ROTATE: u32>(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(BASIS, step::<ROTATE>)
}

/// 64-bit FNV-1a: the key and the checksum of compiled kernels in the cache.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    hash::<0>(bytes.iter().map(|&byte| byte.into()))
}

/// FNV-1a's step over words of 64 bits: the fingerprint of a series, named in its checkpoints.
pub fn of_words(words: impl Iterator<Item = u64>) -> u64 {
    hash::<0>(words)
}

/// Over words of 32 bits, rotated by 17: the fingerprint of a model, and, byte by byte, the checksum
/// of a stream's snapshot.
pub fn rotated_17(words: impl Iterator<Item = u32>) -> u64 {
    hash::<17>(words.map(u64::from))
}

/// Over eight bytes at a time, little-endian, then the length, then the bytes that are left, rotated
/// by 23: the checksum of a checkpoint.
pub fn rotated_23(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let state = hash::<23>(words.iter().map(|word| u64::from_le_bytes(*word)));
    let state = step::<23>(state, bytes.len() as u64);
    rest.iter().fold(state, |state, &byte| step::<23>(state, byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test vectors of FNV-1a, and what files written before hold.
    #[test]
    fn known_values() {
        assert_eq!(fnv1a(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_F739_67E8);
        assert_eq!(of_words(b"foobar".iter().map(|&b| b.into())), fnv1a(b"foobar"));
    }

    /// Two damaged files may have the same checksum, but none has that of the undamaged one.
    #[test]
    fn every_bit_counts() {
        let bytes: Vec<u8> = (0..21).collect();
        let hashes: [fn(&[u8]) -> u64; 3] =
            [fnv1a, |bytes| rotated_17(bytes.iter().map(|&b| b.into())), rotated_23];
        for hash in hashes {
            let whole = hash(&bytes);
            for bit in 0..8 * bytes.len() {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(hash(&changed), whole, "bit {bit}");
            }
            assert!((0..bytes.len()).all(|len| hash(&bytes[..len]) != whole));
        }
    }
}
