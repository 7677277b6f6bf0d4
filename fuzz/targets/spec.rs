//! Specs as JSON, as the header of a model file holds them: they describe themselves, their tensors add up,
//! and they are written as they were read.
#![no_main]

use drnn::NetSpec;
use drnn::params::Layout;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(spec) = serde_json::from_slice::<NetSpec>(bytes) else { return };
    assert!(spec.free_parameters() <= spec.parameters());
    assert!(spec.to_string().contains(" parameters"));
    assert_eq!(Layout::new(&spec).len(), spec.parameters());
    let written = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<NetSpec>(&written).unwrap(), spec);
});
