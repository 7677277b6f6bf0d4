//! ONNX files that are damaged or hostile: they are read or refused, in little time and memory.

#[path = "common/onnx.rs"]
#[allow(dead_code)]
mod file;

use drnn::{Import, Imported};
use file::{field, floats, graph, int, int_list, ints, model, node, number, tensor};
use std::fs::read;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/golden/onnx_{name}.onnx", env!("CARGO_MANIFEST_DIR")))
}

fn import(bytes: &[u8], options: &Import) -> Result<Imported, String> {
    Imported::from_bytes(bytes, options).map_err(|e| e.to_string())
}

fn prefix(name: &str) -> Import {
    Import { prefix: Some(name.into()), ..Import::default() }
}

/// Notes about a file with these nodes and the weights of an LSTM.
fn with(nodes: &[Vec<u8>], more: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let tensors = [&file::weights(4, 1, 2, ""), more].concat();
    import(&model(&graph(nodes, &tensors)), &Import::default()).map(|found| found.notes)
}

fn lstm(w: &str) -> Vec<u8> {
    node("LSTM", &["x", w, "R", "B"], &["Y"], &[])
}

#[test]
fn damaged_files_never_panic() {
    for name in ["torch_lstm", "torch_final", "keras_both", "both", "branches"] {
        let bytes = read(golden(name)).unwrap();
        for len in 0..bytes.len() {
            let _ = import(&bytes[..len], &Import::default());
        }
        for at in 0..bytes.len() {
            for bit in [0, 3, 7] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = import(&damaged, &Import::default());
            }
        }
    }
    // Several bytes at once, and pieces that are repeated or missing.
    let mut random = drnn::random::Rng::new(7);
    let mut below = |n: usize| random.below(n);
    for name in ["torch_bigru", "dynamo_final", "keras_both", "both", "branches"] {
        let bytes = read(golden(name)).unwrap();
        for _ in 0..4_000 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + below(6) {
                let (at, len) = (below(damaged.len()), below(12));
                let end = (at + len).min(damaged.len());
                match below(3) {
                    0 => damaged[at] = below(256) as u8,
                    1 => drop(damaged.drain(at..end)),
                    _ => {
                        let piece = damaged[at..end].to_vec();
                        let to = below(damaged.len());
                        damaged.splice(to..to, piece);
                    }
                }
            }
            if let Ok(found) = import(&damaged, &prefix("LSTM")) {
                let params = found.model.params();
                assert!(params.len() <= damaged.len() && params.iter().all(|x| x.is_finite()));
            }
            let _ = import(&damaged, &Import::default());
        }
    }
    let error = import(&read(golden("torch_lstm")).unwrap()[..1000], &Import::default());
    assert!(error.err().unwrap().contains("is not a whole ONNX file: a field has"));
    let empty = import(&[number(1, 8), field(2, "x")].concat(), &Import::default());
    assert!(empty.err().unwrap().contains("it has no graph"));
}

#[test]
fn constants_that_lie_or_grow_are_refused_in_little_time_and_memory() {
    let began = std::time::Instant::now();
    // Shapes beyond all memory, and other than their bytes.
    for dims in
        [&[i64::MAX, i64::MAX, 2][..], &[1 << 40, 1, 1], &[-1, 12, 2], &[1, 12, 3], &[1; 17]]
    {
        let error = with(&[lstm("V")], &[tensor("V", 1, dims, &[0; 96])]).unwrap_err();
        assert!(error.contains("`V` has shape"), "{error}");
    }
    let zeros = with(&[lstm("V")], &[tensor("V", 1, &[1, 0, 2], &[])]).unwrap_err();
    assert!(zeros.contains("do not fit each other"), "{zeros}");
    // A constant joined with itself until it would fill the memory.
    let mut nodes = vec![node("Concat", &["W", "W"], &["c0"], &[int("axis", 0)])];
    for i in 0..60 {
        let (from, to) = (format!("c{i}"), format!("c{}", i + 1));
        nodes.push(node("Concat", &[&from, &from], &[&to], &[int("axis", 0)]));
    }
    let error = with(&[nodes, vec![lstm("c60")]].concat(), &[]).unwrap_err();
    assert!(error.contains("its weights W are computed by Concat"), "{error}");
    // Sizes that are multiplied and joined again and again.
    let mut nodes =
        vec![node("Shape", &["x"], &["s0"], &[]), node("ReduceProd", &["s0"], &["p0"], &[])];
    for i in 0..80 {
        let name = |letter: &str, i: usize| format!("{letter}{i}");
        nodes.push(node("Mul", &[&name("p", i), &name("p", i)], &[&name("p", i + 1)], &[]));
        nodes.push(node("Concat", &[&name("s", i), &name("s", i)], &[&name("s", i + 1)], &[]));
    }
    assert!(with(&[nodes, vec![lstm("W")]].concat(), &[]).is_ok());
    assert!(began.elapsed().as_secs() < 60);
}

#[test]
fn graphs_without_end_are_refused_in_little_time() {
    let began = std::time::Instant::now();
    // Graphs in graphs, many nodes, many recurrences of the same weights.
    let mut inner = graph(&[lstm("W")], &[]);
    for _ in 0..200 {
        let body = [field(1, "body"), field(6, &inner)].concat();
        inner = graph(&[node("Loop", &["x"], &["y"], &[body])], &[]);
    }
    let error = import(&model(&inner), &Import::default()).err().unwrap();
    assert!(error.contains("more than 16 graphs inside each other"), "{error}");
    let error = with(&vec![vec![]; 200_001], &[]).unwrap_err();
    assert!(error.contains("has more than 200000 nodes"), "{error}");
    let error = with(&vec![lstm("W"); 10_001], &[]).unwrap_err();
    assert!(error.contains("has more than 10000 recurrent nodes"), "{error}");
    let error = with(&vec![lstm("W"); 9_000], &[]).unwrap_err();
    assert!(error.contains("holds 9000 recurrent networks"), "{error}");
    // A long stack that shares its weights is no larger than the file.
    for (layers, expected) in [(900, "weights, but the whole file has"), (5_000, "layers (at most")]
    {
        let mut nodes = vec![node("LSTM", &["x", "W2", "R", "B"], &["Y0"], &[])];
        for i in 0..layers {
            let (below, x, y) = (format!("Y{i}"), format!("x{i}"), format!("Y{}", i + 1));
            nodes.push(node("Squeeze", &[&below, "one"], &[&x], &[]));
            nodes.push(node("LSTM", &[&x, "W2", "R", "B"], &[&y], &[]));
        }
        let error = with(&nodes, &[floats("W2", &[1, 12, 3]), ints("one", &[1])]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    // Sizes of nothing that grow, and axes that are there twice.
    let mut nodes = vec![node("Unsqueeze", &["Z"], &["c0"], &[int_list("axes", &[3, 3])])];
    for i in 0..60 {
        let (from, to) = (if i == 0 { "Z".into() } else { format!("c{i}") }, format!("c{}", i + 1));
        nodes.push(node("Concat", &[&from, &from], &[&to], &[int("axis", 1)]));
    }
    let nothing = tensor("Z", 1, &[0, 1 << 20], &[]);
    assert!(with(&[nodes, vec![lstm("c60")]].concat(), &[nothing]).is_err());
    assert!(began.elapsed().as_secs() < 60);
}
