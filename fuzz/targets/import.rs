//! Files of other programs (safetensors, `.pt`, ONNX), raw: a network is finite, has the size that its
//! spec requires, and is no larger than the file.
#![no_main]

use drnn::{Import, Model};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for prefix in [None, Some(String::new()), Some("net.".to_string())] {
        for relu in [false, true] {
            let options = Import { prefix: prefix.clone(), relu, ..Import::default() };
            let Ok(model) = Model::import_bytes(bytes, &options) else { continue };
            assert_eq!(model.params().len(), model.spec().parameters());
            assert!(model.params().len() <= bytes.len());
            assert!(model.params().iter().all(|x| x.is_finite()));
        }
    }
});
