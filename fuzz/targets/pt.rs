//! The pickle of a `.pt` file, without the archive around it.
//!
//! ```text
//! number of storages u8    elements of each, u8 ..    the pickle
//! ```
//!
//! The archive is made here, with storages of four bytes an element; a fuzzer would seldom get it right.
#![no_main]

use drnn::{Import, Model};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/drnn/tests/common/pt.rs"]
#[allow(dead_code)]
mod file;

fuzz_target!(|input: &[u8]| {
    let Some((&count, rest)) = input.split_first() else { return };
    let Some((lens, pickle)) = rest.split_at_checked(count.into()) else { return };
    let data = [0x3D; 4 * 255];
    let storages: Vec<&[u8]> = lens.iter().map(|&len| &data[..4 * usize::from(len)]).collect();
    let bytes = file::pt(pickle, &storages);
    if let Ok(model) = Model::import_bytes(&bytes, &Import::default()) {
        assert_eq!(model.params().len(), model.spec().parameters());
        assert!(model.params().len() <= bytes.len());
    }
});
