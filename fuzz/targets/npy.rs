//! NumPy arrays: as many values as the shape says, and no more than there are bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npy::Values;

#[path = "../../crates/drnn-cli/src/npy.rs"]
#[allow(dead_code)]
mod npy;

/// What the reader's file-level functions answer with; the program has its own.
#[allow(dead_code)]
pub enum Failure {
    Input(String),
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(array) = npy::parse(bytes) else { return };
    let len = match &array.values {
        Values::Floats(values) => values.len(),
        Values::Integers(values) => values.len(),
    };
    assert_eq!(len, array.shape.iter().product::<usize>());
    assert!(len <= bytes.len());
});
