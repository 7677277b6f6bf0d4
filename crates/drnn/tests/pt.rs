//! Files of `torch.save`: those with weights give the bits that safetensors gives (`tools/golden_pt.py` made
//! both), all others are refused with the reason, and nothing in them is executed or believed.

#[path = "common/pt.rs"]
mod file;

use drnn::{Error, Import, Model};
use file::{pt, zip};
use std::fs::read;
use std::path::PathBuf;

const GOOD: [&str; 7] =
    ["lstm", "gru_bf16", "rnn_prefix", "checkpoint", "parameters", "views", "protocol5"];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/golden/pt_{name}", env!("CARGO_MANIFEST_DIR")))
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

/// The place of an entry's bytes, by its name in the archive.
fn find(bytes: &[u8], name: &str) -> std::ops::Range<usize> {
    let at = |at: usize, n: usize| {
        bytes[at..at + n].iter().rev().fold(0, |all, &b| all << 8 | usize::from(b))
    };
    let line = bytes.windows(4).enumerate().filter(|(_, w)| w == b"PK\x01\x02").map(|(i, _)| i);
    let line = { line }.find(|i| bytes[i + 46..].starts_with(name.as_bytes())).unwrap();
    let (len, start) = (at(line + 20, 4), at(line + 42, 4));
    let start = start + 30 + at(start + 26, 2) + at(start + 28, 2);
    start..start + len
}

#[test]
fn weights_are_those_of_safetensors_to_the_bit() {
    for name in GOOD {
        let options = Import::default();
        let file = golden(name);
        let expected = Model::import(file.with_extension("safetensors"), &options).unwrap();
        let found = Model::import(file.with_extension("pt"), &options).unwrap();
        assert_eq!(found.spec(), expected.spec(), "{name}");
        let bits = |model: &Model| model.params().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&expected), "{name}");
        assert!(found.params().iter().any(|&x| x != 0.0), "{name}");
    }
    let prefix = |prefix: &str| Import { prefix: Some(prefix.into()), ..Import::default() };
    assert!(Model::import(golden("checkpoint.pt"), &prefix("model.")).is_ok());
    let error = Model::import(golden("checkpoint.pt"), &prefix("optimizer.")).unwrap_err();
    assert!(error.to_string().contains("prefixes that have one: `model.`"), "{error}");
}

#[test]
fn other_files_of_pytorch_are_refused_with_what_to_do() {
    let refused = |name: &str| refused(&read(golden(name)).unwrap());
    assert!(refused("refused_script.pt").contains("a TorchScript program without tensors; save"));
    for (name, format) in [
        ("lstm.pt", "a file of PyTorch (.pt) or NumPy (.npz)"),
        ("old.pt", "a .pt file of PyTorch before 1.6"),
    ] {
        let error = Model::load(golden(name)).unwrap_err().to_string();
        let expected = format!("pt_{name}: is {format}, not drnn's own; it can be imported");
        assert!(error.ends_with(&expected), "{error}");
    }
}

#[test]
fn truncated_anywhere_is_refused() {
    for name in GOOD {
        let bytes = read(golden(name).with_extension("pt")).unwrap();
        for len in 0..bytes.len() {
            assert!(matches!(import(&bytes[..len]), Err(Error::File(_))), "{name}: {len}");
        }
        assert!(refused(&[bytes.as_slice(), b"x"].concat()).contains("bytes after its end"));
    }
}

#[test]
fn a_flipped_bit_never_panics_and_never_changes_a_weight() {
    for name in GOOD {
        let bytes = read(golden(name).with_extension("pt")).unwrap();
        let whole = import(&bytes).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // Bits between the entries mean nothing; protocol5 has no checksums.
                match import(&damaged) {
                    Ok(model) if name != "protocol5" => assert_eq!(model.params(), whole.params()),
                    _ => {}
                }
            }
        }
        // The pickle alone, so that no checksum stands before it.
        let pickle = &bytes[find(&bytes, &format!("pt_{name}/data.pkl"))];
        let storages: Vec<&[u8]> = (0..64)
            .map(|i| format!("pt_{name}/data/{i}"))
            .take_while(|n| bytes.windows(n.len()).any(|w| w == n.as_bytes()))
            .map(|n| &bytes[find(&bytes, &n)])
            .collect();
        assert_eq!(import(&pt(pickle, &storages)).unwrap().params(), whole.params());
        for at in 0..pickle.len() {
            for bit in 0..8 {
                let mut damaged = pickle.to_vec();
                damaged[at] ^= 1 << bit;
                let _ = import(&pt(&damaged, &storages));
            }
            assert!(import(&pt(&pickle[..at], &storages)).is_err(), "{name}: {at}");
        }
    }
}

#[test]
fn a_damaged_weight_is_noticed() {
    let mut bytes = read(golden("lstm.pt")).unwrap();
    let at = find(&bytes, "pt_lstm/data/1").start;
    bytes[at] ^= 1;
    assert_eq!(
        refused(&bytes),
        "entry `pt_lstm/data/1` of the archive is damaged: its checksum does not fit"
    );
}

/// A pickle of `{name: tensor}`.
fn tensor(
    name: &str,
    class: &str,
    len: i32,
    offset: i32,
    shape: &[i32],
    strides: &[i32],
) -> Vec<u8> {
    let text = |text: &str| [&[0x8C, text.len() as u8], text.as_bytes()].concat();
    let int = |n: i32| [b"J".as_slice(), &n.to_le_bytes()].concat();
    let tuple = |all: &[i32]| {
        let items: Vec<u8> = all.iter().flat_map(|&n| int(n)).collect();
        [b"(", items.as_slice(), b"t"].concat()
    };
    let global = format!("c{}\n", class.replacen(' ', "\n", 1));
    [
        b"\x80\x02}".as_slice(),
        &text(name),
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        global.as_bytes(),
        &text("0"),
        &text("cpu"),
        &int(len),
        b"tQ",
        &int(offset),
        &tuple(shape),
        &tuple(strides),
        b"N}tRs.",
    ]
    .concat()
}

#[test]
fn hostile_tensors_are_refused_by_name() {
    let data = [0; 96]; // 24 floats
    let case = |class: &str, len, offset, shape: &[i32], strides: &[i32]| {
        let name = if shape.len() == 2 { "weight_ih_l0" } else { "w" };
        refused(&pt(&tensor(name, class, len, offset, shape, strides), &[&data]))
    };
    let float = "torch FloatStorage";
    let outside = "has elements outside its storage `data/0` of 96 bytes";
    for (len, offset, shape, strides, expected) in [
        (24, 0, &[5, 5], &[5, 1], outside),
        (24, 1, &[6, 4], &[4, 1], outside),
        (24, 0, &[i32::MAX, i32::MAX], &[i32::MAX, i32::MAX], outside),
        (24, 0, &[2, 2], &[i32::MAX, 1], outside),
        (24, -1, &[2, 2], &[2, 1], "an offset that is none"),
        (24, 0, &[-2, 2], &[2, 1], "a shape that is none"),
        (24, 0, &[2, 2], &[-2, 1], "strides that do not fit its shape"),
        (25, 0, &[2, 2], &[2, 1], "25 F32 in storage `data/0` of 96 bytes"),
        (-1, 0, &[2, 2], &[2, 1], "a storage of no length"),
    ] {
        let found = case(float, len, offset, shape, strides);
        assert!(found.starts_with("tensor `weight_ih_l0` has"), "{found}");
        assert!(found.contains(expected), "{found}, expected {expected}");
    }
    assert!(case(float, 24, 0, &[2, 2], &[1]).contains("strides that do not fit"));
    let many = [1; 17];
    assert!(case(float, 24, 0, &many, &many).contains("a shape that is none"));
    assert!(case("os system", 24, 0, &[2], &[1]).contains("Python object of class `os.system`"));
    assert!(case("torch Size", 24, 0, &[2], &[1]).contains("a reference to what is no storage"));
    // Tensors that are only odd may lie next to weights: these are simply not there.
    let found = case("torch LongStorage", 12, 0, &[12], &[1]);
    assert!(found.contains("tensor `weight_ih_l0` is missing: not the state dict"), "{found}");
    let pickle = tensor("weight_ih_l0", float, 24, 0, &[2, 2], &[2, 1]);
    assert!(refused(&pt(&pickle, &[])).contains("has storage `data/0`, which is missing"));
}

/// Pickles of several tensors of a storage of `len` floats.
fn dict(len: i32, tensors: &[(&str, &[i32], &[i32])]) -> Vec<u8> {
    let mut pickle = b"\x80\x02}".to_vec();
    for (name, shape, strides) in tensors {
        let one = tensor(name, "torch FloatStorage", len, 0, shape, strides);
        pickle.extend(&one[3..one.len() - 1]);
    }
    [pickle.as_slice(), b"."].concat()
}

#[test]
fn tensors_may_not_multiply_what_is_stored() {
    // An expanded view: a million weights from one stored number.
    let data = [0; 4];
    let huge: [(&str, &[i32], &[i32]); 2] =
        [("weight_ih_l0", &[1000, 1], &[0, 0]), ("weight_hh_l0", &[1000, 1000], &[0, 0])];
    let found = refused(&pt(&dict(1, &huge), &[&data]));
    assert!(found.contains("claims 1003000 weights, but the whole file has"), "{found}");
    let small: [(&str, &[i32], &[i32]); 2] =
        [("weight_ih_l0", &[2, 1], &[0, 0]), ("weight_hh_l0", &[2, 2], &[0, 0])];
    assert_eq!(
        refused(&pt(&dict(1, &small), &[&data])),
        "tensor `weight_ih_l0` of shape [2, 1] repeats 1 stored values; save `weight_ih_l0.contiguous()`"
    );
    // A thousand layers that all are the same memory.
    let data = [0; 4 * 64 * 64];
    let names: Vec<[String; 2]> =
        (0..200).map(|l| [format!("weight_ih_l{l}"), format!("weight_hh_l{l}")]).collect();
    let tensors: Vec<(&str, &[i32], &[i32])> = names
        .iter()
        .flatten()
        .map(|name| (name.as_str(), [64, 64].as_slice(), [64, 1].as_slice()))
        .collect();
    let found = refused(&pt(&dict(64 * 64, &tensors), &[&data]));
    assert!(found.contains("claims 1664000 weights"), "{found}");
    // Two directions that share theirs are fine.
    let names = ["weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"];
    let tied = names.map(|name| (name, [64, 64].as_slice(), [1, 64].as_slice()));
    assert!(import(&pt(&dict(64 * 64, &tied), &[&data])).is_ok());
}

#[test]
fn hostile_pickles_are_refused() {
    let nested = [b"]".repeat(10_000), b"a".repeat(9_999), b".".to_vec()].concat();
    // {0: previous, 1: previous}, thirty times over: a billion entries.
    let mut laughs = b"}q\x00".to_vec();
    for _ in 0..30 {
        laughs.extend(b"0}K\x00h\x00sK\x01h\x00sq\x00");
    }
    laughs.extend(b".");
    // A long dictionary without a name in it, in many places.
    let nameless = [b"}q\x00(".as_slice(), &b"NN".repeat(1000), b"u0]"].concat();
    let nameless = [nameless, b"h\x00a".repeat(1000), b".".to_vec()].concat();
    // A dictionary in itself.
    let circle = b"}q\x00K\x00h\x00s.";
    // One long key, used again and again.
    let long = [b"\x80\x02]X\x90\x01\0\0".as_slice(), &b"k".repeat(400), b"q\x000"].concat();
    let long = [long, b"}h\x00}h\x00Nssa".repeat(200), b".".to_vec()].concat();
    for (pickle, expected) in [
        (
            b"cos\nsystem\nX\x02\0\0\0id\x85R.".as_slice(),
            "Python object of class `os.system`; save",
        ),
        (b"\x8C\x08builtins\x8C\x04eval\x93.", "Python object of class `builtins.eval`"),
        (b"c__builtin__\neval\n(X\x01\0\0\0xtR.", "Python object of class `__builtin__.eval`"),
        (b"cfoo\x1b[2J\nBar\n.", r"Python object of class `foo\u{1b}[2J.Bar`"),
        (b"ios\nsystem\n.", "instruction 0x69, which plain data does not need"),
        (b"K\x01)\x81.", "calls what is no class"),
        (b"cos\nsystem\n)\x81}b.", "Python object of class `os.system`; save"),
        (b"cos\nsystem\n)\x81K\x01\x85R.", "calls what is no class"),
        (b"}X\x01\0\0\0acos\nsystem\n)\x81s.", "Python object of class `os.system`; save"),
        (b"}X\x01\0\0\0acos\nsystem\nX\x01\0\0\0x\x85Rs.", "Python object of class `os.system`"),
        (
            b"ctorch.storage\n_load_from_bytes\nC\x01x\x85R.",
            "class `torch.storage._load_from_bytes`",
        ),
        (b"K\x01)R.", "calls what is no class"),
        (b"ccollections\nOrderedDict\n]R.", "calls what is no class"),
        (b"ccollections\nOrderedDict\nK\x01\x85R.", "OrderedDict with 1 arguments"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n)R.", "Tensor with 0 arguments"),
        (b"j\xFF\xFF\xFF\xFF.", "number 4294967295 was never stored"),
        (b"q\x00.", "byte 1: takes more from the stack than there is"),
        (b"\x86.", "takes more from the stack than there is"),
        (b"K\x01(0.", "takes more from the stack than there is"),
        (b"K\x01t.", "no mark on the stack"),
        (b".", "takes more from the stack than there is"),
        (b"", "data.pkl, byte 0: ends too early"),
        (b"\x8B\xFF\xFF\xFF\x7F.", "instruction 0x8b"),
        (b"\x8A\xFF.", "ends too early"),
        (b"X\xFF\xFF\xFF\xFFa.", "ends too early"),
        (b"\x8D\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFa.", "ends too early"),
        (b"X\x01\0\0\0\xFF.", "text that is not UTF-8"),
        (b"cos", "ends too early"),
        (b"\x80\x09N.", "protocol 9, expected 2 to 5"),
        (b"K\x01K\x02a.", "appends to what is no list"),
        (b"K\x01K\x02K\x03s.", "sets an item of what is no dictionary"),
        (b"}(K\x02u.", "sets an item of what is no dictionary"),
        (b"K\x01}b.", "attributes of what is no dictionary"),
        (b"K\x01Q.", "a reference to what is no storage"),
        (b"K\x01.", "tensor `weight_ih_l0` is missing: not the state dict"),
        (&nested, "nested more than 32 deep"),
        (&laughs, "holds the same things over and over"),
        (circle, "holds the same things over and over"),
        (
            &[b"(".repeat(50), b"\x94".repeat(50)].concat(),
            "takes more from the stack than there is",
        ),
        (&nameless, "holds the same things over and over"),
        (&long, "holds the same things over and over"),
    ] {
        let found = refused(&pt(pickle, &[]));
        let shown = pickle[..pickle.len().min(40)].escape_ascii();
        assert!(found.contains(expected), "{shown}: {found}, expected {expected}");
    }
    let many = [b"N".repeat((1 << 22) + 1), b".".to_vec()].concat();
    assert!(refused(&pt(&many, &[])).contains("more than 4194304 values"));
    let memo = [b"N".as_slice(), &b"\x94".repeat((1 << 22) + 1), b"."].concat();
    assert!(refused(&pt(&memo, &[])).contains("more than 4194304 values remembered"));
    let longest = vec![b'N'; (1 << 26) + 1];
    assert!(refused(&pt(&longest, &[])).contains("67108865 bytes (at most 67108864)"));
}

#[test]
fn a_tensor_alone_and_two_of_one_name_are_refused() {
    let data = [0; 4];
    let one = tensor("w", "torch FloatStorage", 1, 0, &[1], &[1]);
    let alone = [&one[6..one.len() - 2], b"."].concat();
    assert!(refused(&pt(&alone, &[&data])).contains("holds one tensor, not a state dict"));
    let twice = dict(1, &[("w", &[1], &[1]), ("w", &[1], &[1])]);
    assert!(refused(&pt(&twice, &[&data])).contains("there are two tensors `w`"));
}

#[test]
fn one_tensor_in_many_places_does_not_multiply() {
    // A list of a list of a hundred times the same tensor, a hundred times.
    let one = tensor("w", "torch FloatStorage", 1, 0, &[1], &[1]);
    let one = &one[6..one.len() - 2];
    let inner = [b"]q\x01(".as_slice(), &b"h\x00".repeat(100), b"e0"].concat();
    let outer = [b"](".as_slice(), &b"h\x01".repeat(100), b"e."].concat();
    let pickle = [b"\x80\x02", one, b"q\x000", &inner, &outer].concat();
    assert!(refused(&pt(&pickle, &[&[0; 4]])).contains("holds the same things over and over"));
}

#[test]
fn names_come_from_dictionaries_lists_and_numbers() {
    // {5: [{"weight_ih_l0": ..}]}, which lacks the other tensors.
    let one = tensor("weight_ih_l0", "torch FloatStorage", 1, 0, &[1, 1], &[1, 1]);
    let pickle = [b"\x80\x02}K\x05]", &one[2..one.len() - 1], b"as."].concat();
    let found = refused(&pt(&pickle, &[&[0; 4]]));
    assert_eq!(found, "tensor `5.0.weight_hh_l0` is missing");
}

#[test]
fn numbers_of_64_bits_are_read() {
    // As in a file of more than 4 GB: sizes and places that stand in the extra field of a directory's line.
    let whole = read(golden("lstm.pt")).unwrap();
    let pickle = &whole[find(&whole, "pt_lstm/data.pkl")];
    let mut bytes = zip(&[("m/data.pkl", pickle)]);
    let (line, end) = (bytes.len() - 22 - 56, bytes.len() - 22);
    let len = pickle.len() as u64;
    bytes[line + 20..line + 28].fill(0xFF); // both sizes
    bytes[line + 42..line + 46].fill(0xFF); // the place
    bytes[line + 30] = 28; // length of the extra field
    bytes[end + 12] += 28; // length of the directory
    let extra = [&[1, 0, 24, 0], [len, len, 0].map(u64::to_le_bytes).as_flattened()].concat();
    bytes.splice(end..end, extra);
    // The pickle was found: what it needs is not.
    assert!(refused(&bytes).contains("storage `data/0`, which is missing"));
    bytes[end + 4 + 16] = 1;
    assert!(refused(&bytes).contains("entry `m/data.pkl` of the archive is cut short"));
}

#[test]
fn odd_archives_are_refused() {
    let pickle: (&str, &[u8]) = ("m/data.pkl", b"}.");
    let changed = |at: usize, to: &[u8]| {
        // Two entries; the directory begins after them.
        let mut bytes = zip(&[pickle, ("m/data/0", b"1234")]);
        let start = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        bytes[start + at..start + at + to.len()].copy_from_slice(to);
        refused(&bytes)
    };
    let second = 46 + "m/data.pkl".len();
    for (at, to) in [(8, b"\x01"), (10, b"\x08"), (20, b"\x01")] {
        let found = changed(at, to);
        assert!(
            found.contains("`m/data.pkl` of the archive is compressed or encrypted"),
            "{found}"
        );
    }
    assert!(changed(20, b"\xF0\0\0\0\xF0").contains("cut short"));
    assert!(changed(16, b"\x01").contains("checksum does not fit"));
    assert!(
        changed(second + 42, b"\0\0\0\0").contains("entry `m/data/0` of the archive is cut short")
    );
    // Entries may not lie in each other: their sizes would add up to more than the file.
    assert!(changed(20, b"\x2C\0\0\0\x2C").contains("in the same place as `m/data/0`"));
    let twice = zip(&[pickle, pickle]);
    assert!(refused(&twice).contains("entry `m/data.pkl` of the archive is there twice"));
    let mut more = zip(&[pickle]);
    let at = more.len() - 12;
    more[at] = 0xFF; // the number of entries
    assert!(refused(&more).contains("not a whole zip archive"));
    let other = zip(&[("a.txt", b"x")]);
    assert!(refused(&other).contains("a zip archive, but not of torch.save: it has no `data.pkl`"));
    let numpy = zip(&[("arr_0.npy", b"x")]);
    assert!(refused(&numpy).contains("array `arr_0` is not a whole .npy file"));
    assert!(refused(&zip(&[pickle, ("n/data.pkl", b"}.")])).contains("several `data.pkl`"));
    assert!(refused(&zip(&[pickle, ("m/byteorder", b"big")])).contains("big-endian"));
    assert!(refused(&zip(&[])).contains("not a whole safetensors file")); // no entry, no magic
}

#[test]
fn tensors_names_and_entries_have_limits() {
    let names: Vec<String> = (0..10_001).map(|i| format!("t{i}")).collect();
    let all: Vec<(&str, &[i32], &[i32])> =
        names.iter().map(|name| (name.as_str(), &[1][..], &[1][..])).collect();
    assert!(
        refused(&pt(&dict(1, &all[..10_000]), &[&[0; 4]])).contains("`weight_ih_l0` is missing")
    );
    let found = refused(&pt(&dict(1, &all), &[&[0; 4]]));
    assert_eq!(found, "holds more than 10000 tensors");
    let long = "n".repeat(100_000);
    let text = [b"X".as_slice(), &100_000u32.to_le_bytes(), long.as_bytes()].concat();
    let one = dict(1, &[("w", &[1], &[1])]);
    let at = one.windows(3).position(|w| w == b"\x8C\x01w").unwrap();
    let one = [&one[..at], &text, &one[at + 3..]].concat();
    let found = refused(&pt(&one, &[&[0; 4]]));
    assert!(found.starts_with("a tensor's name has 100000 bytes (at most 1000): `nnn"), "{found}");
    assert!(found.len() < 200, "{found}");
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let found = refused(&zip(&[&entries[..], &entries[..]].concat()));
    assert_eq!(found, "is an archive of 20002 entries (at most 20000)");
}
