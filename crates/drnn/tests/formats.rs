//! Weights in the formats of other programs: those with weights give the bits that safetensors gives
//! (`tools/golden_formats.py` made both), damaged and hostile ones are refused, and nothing in them is
//! executed or believed.

#[path = "common/pt.rs"]
#[allow(dead_code)]
mod file;

use drnn::{Error, Import, Model};
use std::fs::read;
use std::path::PathBuf;

const GOOD: [&str; 8] = [
    "old_lstm.pt",
    "old_checkpoint.pt",
    "old_views.pt",
    "old_module.pt",
    "old_parameters.pt",
    "script.pt",
    "gru.npz",
    "compressed.npz",
];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/golden/formats_{name}", env!("CARGO_MANIFEST_DIR")))
}

fn import(bytes: &[u8]) -> drnn::Result<Model> {
    Model::import_bytes(bytes, &Import::default())
}

/// Why a file is refused.
fn refused(bytes: &[u8]) -> String {
    match import(bytes) {
        Err(Error::File(error)) => error.reason().to_string(),
        other => panic!("{:?}", other.map(|model| model.spec().to_string())),
    }
}

#[test]
fn weights_are_those_of_safetensors_to_the_bit() {
    for name in GOOD {
        let file = golden(name);
        let options = Import::default();
        let expected = Model::import(file.with_extension("safetensors"), &options).unwrap();
        let found = Model::import(&file, &options).unwrap();
        assert_eq!(found.spec(), expected.spec(), "{name}");
        let bits = |model: &Model| model.params().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&expected), "{name}");
        assert!(found.params().iter().any(|&x| x != 0.0), "{name}");
    }
    let pt = |name: &str| format!("{}/tests/golden/pt_{name}.pt", env!("CARGO_MANIFEST_DIR"));
    // The same module, whole and as the old format's state dict.
    let module = Model::import(pt("module"), &Import::default()).unwrap();
    let old = Model::import(pt("old"), &Import::default()).unwrap();
    assert_eq!(module.params(), old.params());
}

#[test]
fn truncated_anywhere_is_refused() {
    for name in GOOD {
        let bytes = read(golden(name)).unwrap();
        for len in 0..bytes.len() {
            assert!(matches!(import(&bytes[..len]), Err(Error::File(_))), "{name}: {len}");
        }
        let longer = refused(&[bytes.as_slice(), b"x"].concat());
        assert!(longer.contains("bytes after its end"), "{name}: {longer}");
    }
}

#[test]
fn a_flipped_bit_never_panics() {
    for name in GOOD {
        let bytes = read(golden(name)).unwrap();
        let whole = import(&bytes).unwrap();
        for at in 0..bytes.len() {
            for bit in [0, 3, 7] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                match import(&damaged) {
                    // The old format has no checksums.
                    Ok(model) if !name.starts_with("old") => {
                        assert_eq!(model.params(), whole.params());
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A file of PyTorch before 1.6 with this object, these keys, and these storages.
fn old(object: &[u8], keys: &[&str], storages: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec();
    bytes.extend(b"\x80\x02M\xE9\x03.\x80\x02}."); // 1001, and nothing about the machine
    bytes.extend(object);
    bytes.extend(b"\x80\x02](");
    for key in keys {
        bytes.extend([b"X".as_slice(), &(key.len() as u32).to_le_bytes(), key.as_bytes()].concat());
    }
    bytes.extend(b"e.");
    for (count, data) in storages {
        bytes.extend([&count.to_le_bytes(), *data].concat());
    }
    bytes
}

/// `{name: tensor, ..}` of ten floats in storage `k`, as Python 2 wrote it: text without an encoding,
/// a tensor without flags, a dictionary of a list of lists.
fn python2(tensors: &[(&str, u8, u8)], view: &[u8]) -> Vec<u8> {
    let mut pickle = b"\x80\x02ccollections\nOrderedDict\n](".to_vec();
    for (name, rows, columns) in tensors {
        pickle.extend([b"](U".as_slice(), &[name.len() as u8], name.as_bytes()].concat());
        pickle.extend(b"ctorch._utils\n_rebuild_tensor\n((U\x07storagectorch\nFloatStorage\n");
        pickle.extend(b"U\x01kU\x03cpuK\x0A");
        pickle.extend([view, b"tQK\x00K", &[*rows], b"K", &[*columns]].concat());
        pickle.extend([b"\x86K".as_slice(), &[*columns], b"K\x01\x86tRe"].concat());
    }
    pickle.extend(b"e\x85R.");
    pickle
}

const RNN: [(&str, u8, u8); 2] = [("weight_ih_l0", 2, 3), ("weight_hh_l0", 2, 2)];

#[test]
fn python_2_and_views_of_storages_are_read() {
    let data: Vec<u8> = (0..10).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let whole = old(&python2(&RNN, b"N"), &["k"], &[(10, &data)]);
    let model = import(&whole).unwrap();
    assert_eq!(model.params()[..10], [0., 1., 2., 3., 4., 5., 0., 1., 2., 3.]);
    // Elements 2 to 9 of the storage, under another key.
    let view = b"U\x01vK\x02K\x08\x87";
    let part = old(&python2(&RNN, view), &["k"], &[(10, &data)]);
    assert_eq!(import(&part).unwrap().params()[..10], [2., 3., 4., 5., 6., 7., 2., 3., 4., 5.]);
    for (view, expected) in [
        (b"U\x01vK\x05K\x08\x87".as_slice(), "has a view beyond its storage `k`"),
        (b"U\x01vK\x00K\x01\x87", "has elements outside its storage `k` of 4 bytes"),
        (b"U\x01vK\x00N\x87", "has a view of its storage that is none"),
        (b"K\x01", "a reference to what is no storage"),
        (b"U\x01vK\x00\x86", "a reference to what is no storage"),
    ] {
        let found = refused(&old(&python2(&RNN, view), &["k"], &[(10, &data)]));
        assert!(found.contains(expected), "{found}, expected {expected}");
    }
}

#[test]
fn modules_of_pytorch_before_1_1_are_read() {
    // {"m": weights, "_backend": what every module has there}
    let weights = python2(&RNN, b"N");
    let with = |function: &[u8]| {
        let weights = &weights[2..weights.len() - 1];
        let backend = [b"U\x08_backendctorch.nn.backends.thnn\n", function, b"\n)R"].concat();
        let object = [b"\x80\x02}U\x01m", weights, b"s", &backend, b"s."].concat();
        old(&object, &["k"], &[(10, &[0; 40])])
    };
    assert_eq!(import(&with(b"_get_thnn_function_backend")).unwrap().params().len(), 14);
    assert!(refused(&with(b"_get")).contains("class `torch.nn.backends.thnn._get`"));
}

#[test]
fn storages_that_lie_are_refused() {
    let data = [0; 40];
    let object = python2(&RNN, b"N");
    let huge = "has 1152921504606846976 elements of 4 bytes, but 40 bytes are left";
    let more = "has 11 elements of 4 bytes, but 40 bytes are left";
    for (keys, storages, expected) in [
        (&["k"][..], &[(11, &data[..])][..], more),
        (&["k"], &[(1 << 60, &data)], huge),
        (&["k"], &[(u64::MAX, &data)], "elements of 4 bytes, but 40 bytes are left"),
        (&["k"], &[(9, &data[..36])], "10 F32 in storage `k` of 36 bytes"),
        (&["k"], &[(10, &data), (1, &data[..4])], "has 12 bytes after its end"),
        (&["k", "k"], &[(10, &data), (10, &data)], "storage `k` is there twice"),
        (&["k", "l"], &[(10, &data), (10, &data)], "storage `l` is listed, but no tensor is in it"),
        (&["k"], &[], "storage `k` is missing: the file ends"),
        (&[], &[], "has storage `k`, which is missing"),
    ] {
        let found = refused(&old(&object, keys, storages));
        assert!(found.contains(expected), "{found}, expected {expected}");
    }
    // One storage under many names is not many times as much.
    let names: Vec<String> = (0..400).map(|i| format!("weight_ih_l{i}")).collect();
    let names = names.iter().flat_map(|name| [name.clone(), name.replace("ih", "hh")]);
    let names: Vec<String> = names.collect();
    let tensors: Vec<(&str, u8, u8)> = names.iter().map(|name| (name.as_str(), 3, 3)).collect();
    let object = python2(&tensors, b"N");
    assert!(import(&old(&object, &["k"], &[(10, &data)])).is_ok());
}

#[test]
fn hostile_old_files_are_refused() {
    let with = |object: &[u8]| refused(&old(object, &[], &[]));
    assert!(with(b"\x80\x02cos\nsystem\nU\x02id\x85R.").contains("object of class `os.system`"));
    assert!(with(b"\x80\x02N.").contains("tensor `weight_ih_l0` is missing"));
    assert!(with(b"\x80\x02K\x01Q.").contains("old .pt file, byte 29: a reference to what"));
    assert!(with(b"\x80\x02N").contains("ends too early")); // its end is that of the list of keys
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let version = |pickle: &[u8]| refused(&[magic.as_slice(), pickle].concat());
    assert!(version(b"\x80\x02M\xE8\x03.").contains("has version 1000 of the old .pt format"));
    assert!(version(b"\x80\x02N.").contains("it has no version"));
    assert!(version(b"").contains("old .pt file, byte 14: ends too early"));
    // A list of many pairs that becomes a dictionary again and again.
    let pairs = [b"\x80\x02](".as_slice(), &b"NN\x86".repeat(10_000), b"eq\x000"].concat();
    let again = b"ccollections\nOrderedDict\nh\x00\x85R0".repeat(1_000);
    assert!(with(&[pairs, again, b"N.".to_vec()].concat()).contains("items copied"));
    let tensors: Vec<(&str, u8, u8)> = vec![("w", 1, 1); 2];
    let twice = old(&python2(&tensors, b"N"), &["k"], &[(10, &[0; 40])]);
    assert_eq!(refused(&twice), "there are two tensors `w`");
}

/// A NumPy array: its header and its bytes.
fn npy(header: &str, values: &[u8]) -> Vec<u8> {
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0".as_slice(), &len, header.as_bytes(), values].concat()
}

#[test]
fn hostile_arrays_are_refused_by_name() {
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }";
    let import = |array: &[u8]| refused(&file::zip(&[("w.npy", array)]));
    assert!(import(&npy(good, &[0; 4])).contains("tensor `weight_ih_l0` is missing"));
    let header = |descr: &str, shape: &str| {
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}")
    };
    let huge = "18446744073709551615, 18446744073709551615, 2";
    for (array, expected) in [
        (npy(good, &[0; 5]), "array `w` has shape [1, 1], but 5 bytes of F32"),
        (npy(good, &[]), "but 0 bytes of F32"),
        (npy(&header("<f4", huge), &[0; 4]), "has a shape beyond all memory"),
        (npy(&header("<f4", "4611686018427387904, 4"), &[]), "but 0 bytes of F32"),
        (npy(&header("<f4", "-1,"), &[0; 4]), "has a header that is none"),
        (npy(&header("<f4", &"1,".repeat(17)), &[0; 4]), "has a header that is none"),
        (npy("{'descr': '<f4'", &[0; 4]), "has a header that is none"),
        (npy("", &[]), "has a header that is none"),
        (b"\x93NUMPY\x01\0\xFF\xFF".to_vec(), "has a header of 65535 bytes (at most 10000)"),
        (b"\x93NUMPY\x01\0\x10\0".to_vec(), "ends within its header"),
        (b"\x93NUMPY\x09\0\x10\0".to_vec(), "is not a whole .npy file"),
        (b"\x93NUMP".to_vec(), "is not a whole .npy file"),
    ] {
        let found = import(&array);
        assert!(found.contains(expected), "{found}, expected {expected}");
    }
    let one = refused(&npy(good, &[0; 4]));
    assert!(one.contains("one NumPy array (.npy), not a model; save all"), "{one}");
    let keras = refused(&file::zip(&[("config.json", b"{}"), ("model.weights.h5", b"x")]));
    assert!(keras.contains("a Keras model (.keras); convert it to ONNX"), "{keras}");
}

#[test]
fn an_archive_does_not_unpack_without_bounds() {
    let bytes = read(golden("compressed.npz")).unwrap();
    // The sizes of all entries in the directory, made a gigabyte.
    let mut bomb = bytes.clone();
    let lines: Vec<usize> =
        (0..bomb.len() - 4).filter(|&at| bomb[at..].starts_with(b"PK\x01\x02")).collect();
    assert_eq!(lines.len(), 8);
    for at in lines {
        bomb[at + 24..at + 28].copy_from_slice(&(1u32 << 30).to_le_bytes());
    }
    let found = refused(&bomb);
    assert!(found.contains("is compressed too far"), "{found}");
    // A size that is off by one is noticed, too.
    let line = (0..bytes.len()).find(|&at| bytes[at..].starts_with(b"PK\x01\x02")).unwrap();
    for wrong in [-1i8, 1] {
        let mut off = bytes.clone();
        off[line + 24] = off[line + 24].wrapping_add_signed(wrong);
        assert!(refused(&off).contains("does not unpack to what was saved"));
    }
}
