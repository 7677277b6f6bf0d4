//! Model files: ours come back bit for bit, PyTorch's are understood, bad ones are refused.

use drnn::{Batch, Cell, Error, Import, Model, NetSpec, Padding, Rows, Steps};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::collections::HashMap;
use std::io::Write;

fn model(seed: u64) -> Model {
    let spec = NetSpec::builder(Cell::Lstm).tokens(7, 3).units([5, 4]).outputs(2);
    Model::init(&spec.delay(3, Padding::Symbol(6)).build().unwrap(), seed).unwrap()
}

/// A file of f32 tensors, as any program might write it.
fn file(tensors: &[(&str, &[usize])], metadata: Option<(&str, &str)>) -> Vec<u8> {
    let data: Vec<Vec<u8>> =
        tensors.iter().map(|(_, dims)| vec![0; 4 * dims.iter().product::<usize>()]).collect();
    let views = tensors.iter().zip(&data).map(|((name, dims), data)| {
        (*name, TensorView::new(Dtype::F32, dims.to_vec(), data).unwrap())
    });
    let metadata = metadata.map(|(k, v)| HashMap::from([(k.to_string(), v.to_string())]));
    serialize(views, metadata).unwrap()
}

#[test]
fn a_saved_model_comes_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let first = model(1);
    first.save(&path).unwrap();
    let again = Model::load(&path).unwrap();
    assert_eq!((again.spec(), again.params()), (first.spec(), first.params()));
    assert_eq!(again.to_bytes().unwrap(), std::fs::read(&path).unwrap());
    // Import takes our own files too, and nothing is left next to the file.
    assert_eq!(Model::import(&path, &Import::default()).unwrap().params(), first.params());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    // As readable as any other new file.
    let plain = folder.path().join("plain");
    std::fs::write(&plain, b"").unwrap();
    let permissions = |path| std::fs::metadata(path).unwrap().permissions();
    assert_eq!(permissions(&path), permissions(&plain));
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"old").unwrap();
    let error = drnn::io::write_atomically(&path, |file| {
        file.write_all(b"half")?;
        Err(std::io::Error::other("the disk is full"))
    });
    assert_eq!(error.unwrap_err().to_string(), "the disk is full");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
#[cfg(unix)]
fn links_and_permissions_survive_a_write() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, b"old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&file, &link).unwrap();
    drnn::io::write_atomically(&link, |f| f.write_all(b"new")).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_save_that_cannot_be_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("model.safetensors");
    let error = model(1).save(&path).unwrap_err().to_string();
    assert!(error.contains("missing") && error.contains("cannot be written"), "{error}");
    // A folder stands where the file should go.
    let error = model(1).save(folder.path()).unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_pytorch_saved_answers_as_pytorch_did() {
    for (name, cell, relu) in [
        ("lstm_2x5_both_ways", Cell::Lstm, false),
        ("gru_no_bias", Cell::Gru, false),
        ("rnn_relu", Cell::RnnRelu, true),
        ("lstm_f16", Cell::Lstm, false),
        ("gru_bf16", Cell::Gru, false),
    ] {
        let path = format!("{}/tests/golden/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
        let model = Model::import(&path, &Import { relu, ..Import::default() }).unwrap();
        assert_eq!(model.spec().cell(), cell, "{name}");
        let bytes = std::fs::read(&path).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let floats = |name: &str| -> Vec<f32> {
            let data = tensors.tensor(name).unwrap().data();
            data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
        };
        let (x, y) = (floats("x"), floats("y"));
        let outputs = model.run(&Batch::dense(&x, Steps(4), Rows(2)), None).unwrap();
        assert_eq!(outputs.values.len(), y.len(), "{name}");
        for (found, expected) in outputs.values.iter().zip(&y) {
            assert!((found - expected).abs() < 1e-6, "{name}: {found}, expected {expected}");
        }
    }
}

#[test]
fn truncated_anywhere_is_refused() {
    let bytes = model(1).to_bytes().unwrap();
    for len in 0..bytes.len() {
        let error = Model::from_bytes(&bytes[..len]).unwrap_err();
        assert!(matches!(error, Error::File(_)), "{len}: {error}");
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(Model::from_bytes(&longer).is_err());
}

#[test]
fn damage_in_the_header_never_panics() {
    let bytes = model(1).to_bytes().unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in 0..header {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // Some flips change a name or a number into another that is legal; none may panic.
            let _ = Model::from_bytes(&damaged);
            let _ = Model::import_bytes(&damaged, &Import::default());
        }
    }
}

#[test]
fn refused_with_the_tensor_and_the_reason() {
    let own = |bytes: &[u8]| Model::from_bytes(bytes).unwrap_err().to_string();
    let foreign = |tensors: &[(&str, &[usize])], prefix: Option<&str>| {
        let options = Import { prefix: prefix.map(Into::into), ..Import::default() };
        let error = Model::import_bytes(&file(tensors, None), &options).unwrap_err().to_string();
        error.strip_prefix("model file: ").unwrap().to_string()
    };
    assert!(own(b"PK").contains("not a whole safetensors file"));
    assert!(own(b"PK\x03\x04").contains("not drnn's own; it can be imported"));
    assert!(own(&file(&[("weight_ih_l0", &[4, 1])], None)).contains("not drnn's"));
    assert!(own(&file(&[], Some(("drnn", "{")))).contains("metadata `drnn` is not JSON"));
    assert!(own(&file(&[], Some(("drnn", r#"{"format":9}"#)))).contains("format 9; this version"));
    let spec = r#"{"format":1,"spec":{"cell":"lstm","input":{"dense":1},"units":[0],
        "direction":"forward","delay":0,"padding":"null","outputs":null}}"#;
    assert!(own(&file(&[], Some(("drnn", spec)))).contains("layer 0 has no units"));
    let spec = spec.replace("[0]", "[2]");
    assert!(own(&file(&[], Some(("drnn", &spec)))).ends_with("tensor `weight_ih_l0` is missing"));
    let huge = spec.replace("[2]", "[1000000]");
    assert!(own(&file(&[], Some(("drnn", &huge)))).ends_with("tensor `weight_ih_l0` is missing"));
    let all: [(&str, &[usize]); 4] = [
        ("weight_ih_l0", &[8, 1]),
        ("weight_hh_l0", &[8, 2]),
        ("bias_ih_l0", &[8]),
        ("bias_hh_l0", &[8]),
    ];
    let mut wrong = all;
    wrong[1].1 = &[8, 3];
    let found = own(&file(&wrong, Some(("drnn", &spec))));
    assert!(found.ends_with("tensor `weight_hh_l0` has shape [8, 3], expected [8, 2]"), "{found}");
    let more = [&all[..], &[("head.weight", &[2, 2])]].concat();
    assert!(own(&file(&more, Some(("drnn", &spec)))).contains("unexpected tensor `head.weight`"));

    assert!(
        foreign(&[("fc.weight", &[2, 2])], None).contains("`weight_ih_l0` is missing: not the")
    );
    let escape = [&all[..], &[("\x1b[2J", &[2])]].concat();
    assert!(foreign(&escape, None).contains("unexpected tensor `\\u{1b}[2J` in"));
    let odd_name = [&all[..], &[("bias_l9", &[2])]].concat();
    assert!(foreign(&odd_name, None).contains("unexpected tensor `bias_l9` in lstm(2 units)"));
    let relu = Import { relu: true, ..Import::default() };
    let error = Model::import_bytes(&file(&all, None), &relu).unwrap_err().to_string();
    assert!(error.contains("only a plain RNN"), "{error}");
    // A network at the top level does not mind what has a prefix.
    assert!(Model::import_bytes(&file(&more, None), &Import::default()).is_ok());
    assert!(foreign(&all[..3], None).contains("tensor `bias_hh_l0` is missing"));
    assert!(foreign(&all[..1], None).contains("tensor `weight_hh_l0` is missing"));
    let gates: [(&str, &[usize]); 2] = [("weight_ih_l0", &[4, 1]), ("weight_hh_l0", &[4, 2])];
    assert!(foreign(&gates, None).contains("has 2 rows per unit, expected 1 (RNN), 3 (GRU) or 4"));
    let odd: [(&str, &[usize]); 2] = [("weight_ih_l0", &[9, 1]), ("weight_hh_l0", &[9, 2])];
    assert!(foreign(&odd, None).contains("has shape [9, 2], expected 4 rows per unit"));
    let none: [(&str, &[usize]); 2] = [("weight_ih_l0", &[0, 1]), ("weight_hh_l0", &[0, 0])];
    assert!(foreign(&none, None).contains("tensor `weight_hh_l0` has shape [0, 0]: no units"));
    // Two units, projected to one.
    let projected: [(&str, &[usize]); 5] = [
        ("weight_ih_l0", &[8, 1]),
        ("weight_hh_l0", &[8, 1]),
        ("bias_ih_l0", &[8]),
        ("bias_hh_l0", &[8]),
        ("weight_hr_l0", &[1, 2]),
    ];
    let model = Model::import_bytes(&file(&projected, None), &Import::default()).unwrap();
    assert_eq!((model.spec().units(), model.spec().projection()), (&[2][..], Some(1)));
    let hr = [&all[..], &[("weight_hr_l0", &[1, 2])]].concat();
    assert!(foreign(&hr, None).contains("unexpected tensor `weight_hr_l0` in lstm(2 units)"));
    let gru: [(&str, &[usize]); 3] =
        [("weight_ih_l0", &[6, 1]), ("weight_hh_l0", &[6, 1]), ("weight_hr_l0", &[1, 2])];
    assert!(foreign(&gru, None).contains("`weight_hr_l0`: only an LSTM has a projection"));
    let two: [(&str, &[usize]); 4] = [
        ("a.weight_ih_l0", &[8, 1]),
        ("a.weight_hh_l0", &[8, 2]),
        ("b.weight_ih_l0", &[8, 1]),
        ("b.weight_hh_l0", &[8, 2]),
    ];
    let listed = "`a.` (lstm 1 -> 2), `b.` (lstm 1 -> 2)";
    let several = foreign(&two, None);
    assert!(
        several.contains(&format!("holds 2 recurrent networks: {listed}; choose")),
        "{several}"
    );
    assert!(foreign(&two, Some("c.")).contains(&format!("prefixes that have one: {listed}")));
    let options = Import { prefix: Some("b.".into()), ..Import::default() };
    assert!(Model::import_bytes(&file(&two, None), &options).is_ok());
}

#[test]
fn nan_weights_and_other_types_are_refused() {
    let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([1]).build().unwrap();
    let bytes = Model::from_params(&spec, vec![0.5; 4]).unwrap().to_bytes().unwrap();
    let at = bytes.len() - 4;
    let mut damaged = bytes.clone();
    damaged[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = Model::from_bytes(&damaged).unwrap_err().to_string();
    assert!(error.contains("`bias_hh_l0` holds NaN at position 0"), "{error}");
    let mut integers = bytes.clone();
    for at in 0..bytes.len() - 3 {
        if &bytes[at..at + 3] == b"F32" {
            integers[at] = b'I';
        }
    }
    let error = Model::from_bytes(&integers).unwrap_err().to_string();
    assert!(error.contains("is I32, expected F32, F64, F16 or BF16"), "{error}");
}

#[test]
fn headers_have_limits() {
    let refused = |header: &str| {
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        match Model::import_bytes(&bytes, &Import::default()) {
            Err(Error::File(error)) => error.reason().to_string(),
            other => panic!("{:?}", other.map(|model| model.spec().to_string())),
        }
    };
    let none = r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
    let tensors = |count: usize| {
        let all: Vec<String> = (0..count).map(|i| format!(r#""t{i}":{none}"#)).collect();
        format!("{{{}}}", all.join(","))
    };
    assert!(refused(&tensors(10_000)).contains("`weight_ih_l0` is missing"));
    assert_eq!(refused(&tensors(10_001)), "has more than 10000 tensors in its header");
    // Whatever comes after that is not even looked at, and metadata counts too.
    let damaged = tensors(10_001).replace("\"t10000\":{", "\"t10000\":{{{");
    assert!(refused(&damaged).contains("more than 10000"), "{}", refused(&damaged));
    let metadata = tensors(10_001).replace(none, "\"\"");
    assert!(refused(&format!(r#"{{"__metadata__":{metadata}}}"#)).contains("more than 10000"));
    let found = refused(&format!(r#"{{"{}":{none}}}"#, "n".repeat(1_000_000)));
    assert!(found.starts_with("a tensor's name has 1000000 bytes (at most 1000): `nnn"), "{found}");
    assert!(found.len() < 200, "{found}");
    // What a message quotes of the metadata is bounded too.
    let spec = "s".repeat(100_000);
    let header = format!(r#"{{\"format\":1,\"spec\":{{\"cell\":\"{spec}\"}}}}"#);
    let found = refused(&format!(r#"{{"__metadata__":{{"drnn":"{header}"}}}}"#));
    assert!(found.contains("metadata `drnn`") && found.len() < 1_100, "{found}");
}
