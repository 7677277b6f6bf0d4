//! drnn's own model files: a model that was read can be written and read again unchanged; one that
//! can be flattened is restored by unflattening.
#![no_main]

use drnn::onnx::GraphKind;
use drnn::{BlockMap, Model, StartState};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes) else { return };
    let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(again.spec(), model.spec());
    let bits = |model: &Model| model.params().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&again), bits(&model));
    if model.params().len() > 2000 {
        return;
    }
    if let Ok(flat) = model.flatten(StartState::Held) {
        assert_eq!(bits(&flat.unflatten(None).unwrap()), bits(&model));
    }
    let _ = (model.unflatten(None), BlockMap::of(&model), model.to_onnx(GraphKind::Whole));
});
