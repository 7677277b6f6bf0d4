//! Files that once broke a reader, or nearly did: `regressions/` holds what fuzzers (`fuzz/`) found. Each goes to every
//! reader of this crate; none may panic or hang.

#[path = "common/pt.rs"]
#[allow(dead_code)]
mod file;

use drnn::{Cell, Import, Model, NetSpec, Stream};

#[test]
fn what_fuzzers_found_is_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regressions");
    let spec = NetSpec::builder(Cell::Gru).dense(1).units([2]).build().unwrap();
    let model = Model::init(&spec, 1).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for prefix in [None, Some(String::new()), Some("net.".into())] {
            for relu in [false, true] {
                let options = Import { prefix: prefix.clone(), relu, ..Import::default() };
                let _ = Model::import_bytes(&bytes, &options);
                let _ = Model::import_bytes(&file::pt(&bytes, &[&[0; 64]]), &options);
            }
        }
        if let Ok(model) = Model::from_bytes(&bytes) {
            assert_eq!(
                Model::from_bytes(&model.to_bytes().unwrap()).unwrap().params(),
                model.params()
            );
        }
        assert!(Stream::new(&model).unwrap().restore(&bytes).is_err());
        let _ = serde_json::from_slice::<NetSpec>(&bytes).map(|spec| spec.to_string());
    }
}
