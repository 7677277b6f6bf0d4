//! NumPy arrays: as many values as the shape says, and no more than there are bytes.
#![no_main]

use drnn_train::read::{Source, Values, array};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(array) = Source::from_bytes("f", bytes.to_vec()).and_then(array) else { return };
    let len = match &array.values {
        Values::Floats(values) => values.len(),
        Values::Integers(values) => values.len(),
    };
    assert_eq!(len, array.shape.iter().product::<usize>());
    let is_packed = !bytes.starts_with(b"\x93NUMPY");
    assert!(is_packed || len <= bytes.len());
});
