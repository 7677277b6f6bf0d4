//! Checkpoints of trainings: raw, and with a valid checksum, which a fuzzer cannot guess.
//! A checkpoint that was read is finite and no larger than its bytes, and can be written and read
//! again unchanged.
//!
//! ```text
//! length of header u16    header, JSON    values
//! ```
#![no_main]

use drnn_train::checkpoint::Checkpoint;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fn checksum(bytes: &[u8]) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0xCBF2_9CE4_8422_2325, |h, w| mix(h, u64::from_le_bytes(*w)));
    rest.iter().fold(mix(hash, bytes.len() as u64), |h, b| mix(h, u64::from(*b)))
}

fn check(bytes: &[u8]) {
    let path = Path::new("last");
    let found = match Checkpoint::from_bytes(path, bytes) {
        Ok(found) => found,
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("last: is ") && message.len() < 500, "{message}");
            return;
        }
    };
    let values = [&found.state.params, &found.state.adam.mean, &found.state.adam.square];
    assert!(values.iter().all(|part| part.len() == values[0].len()));
    assert!(12 * values[0].len() < bytes.len());
    assert!(values[0].iter().all(|x| x.is_finite()));
    let written = found.to_bytes().unwrap();
    let again = Checkpoint::from_bytes(path, &written).unwrap();
    assert_eq!(again, found);
    assert_eq!(again.to_bytes().unwrap(), written);
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    // Lengths that are too large by a little, and by very much.
    let len = match u16::from_le_bytes(*len) {
        u16::MAX => u64::MAX,
        len => u64::from(len),
    };
    let mut whole = [b"DRNNCKP1", &len.to_le_bytes(), rest].concat();
    whole.extend_from_slice(&checksum(&whole).to_le_bytes());
    check(&whole);
});
