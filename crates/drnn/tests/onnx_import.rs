//! ONNX files of other exporters (`tools/golden_onnx.py`): the outputs are ONNX Runtime's; drnn's own
//! graphs are read back; what cannot be read is refused by name. `onnx_hostile.rs` has damaged and hostile files.

#[path = "common/onnx.rs"]
mod file;

use drnn::io::Format;
use drnn::onnx::GraphKind;
use drnn::{Batch, Cell, Import, Imported, Model, NetSpec, Padding, Part, Rows, Steps};
use file::{
    field, floats, graph, int, int_list, ints, model, node, number, tensor, text, texts, varint,
};
use safetensors::SafeTensors;
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

fn alone() -> Import {
    Import { embedding: Part::None, output: Part::None, ..Import::default() }
}

/// A tensor of the file next to a golden one: its shape and its values.
fn array(bytes: &[u8], name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let view = file.tensor(name).ok()?;
    let values = view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
    Some((view.shape().to_vec(), values.collect()))
}

/// Outputs of the model for a golden file's input.
fn outputs(model: &Model, stored: &[u8]) -> Vec<f32> {
    let (shape, values) = array(stored, "x").or_else(|| array(stored, "tokens")).unwrap();
    let (steps, rows) = (Steps(shape[0]), Rows(shape[1]));
    let tokens: Vec<u32> = values.iter().map(|x| *x as u32).collect();
    let batch = match shape.len() {
        3 => Batch::dense(&values, steps, rows),
        _ => Batch::tokens(&tokens, steps, rows),
    };
    model.run(&batch, None).unwrap().values
}

/// Largest difference between a golden file's outputs and the model's, after `finish`.
fn difference(name: &str, options: &Import, finish: Finish) -> (f32, Imported) {
    let path = golden(name);
    let found = Imported::read(&path, options).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(found.format, Format::Onnx);
    let stored = read(path.with_extension("safetensors")).unwrap();
    let (shape, expected) = array(&stored, "y").unwrap();
    let mut all = outputs(&found.model, &stored);
    let width = *shape.last().unwrap();
    assert_eq!(found.model.spec().output_width(), width, "{name}: {}", found.model.spec());
    all.chunks_mut(width).for_each(finish);
    let last = &all[all.len() - expected.len()..]; // some graphs have outputs for the last step only
    let differences = last.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    (differences.fold(0.0, f32::max), found)
}

/// What a graph applies to its outputs, one step at a time.
type Finish = fn(&mut [f32]);

fn plain(_: &mut [f32]) {}

fn sigmoid(row: &mut [f32]) {
    row.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp()));
}

fn softmax(row: &mut [f32]) {
    row.iter_mut().for_each(|x| *x = x.exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

#[test]
fn outputs_are_those_of_onnx_runtime() {
    let cases: [(&str, &str, Finish); 13] = [
        ("torch_lstm", "9 symbols -> 3 -> 4 -> 5;", plain),
        ("torch_bigru", "9 symbols -> 3 -> 8 -> 8 -> 5;", plain),
        ("torch_relu", "9 symbols -> 3 -> 4 -> 5;", plain),
        ("torch_final", "3 -> 4 -> 4 -> 5;", plain),
        ("dynamo_lstm", "9 symbols -> 3 -> 4 -> 5;", plain),
        ("dynamo_bigru", "9 symbols -> 3 -> 8 -> 8 -> 5;", plain),
        ("dynamo_final", "3 -> 4 -> 4 -> 5;", plain),
        ("keras_lstm", "3 -> 4 -> 4 -> 5;", plain),
        ("keras_words", "9 symbols -> 3 -> 4 -> 5;", softmax),
        ("keras_both", "3 -> 8 -> 5;", plain),
        ("keras_last", "3 -> 4 -> 5;", sigmoid),
        ("gru_before", "9 symbols -> 3 -> 4 -> 5;", plain),
        ("both", "3 -> 8;", plain),
    ];
    for (name, widths, finish) in cases {
        let (difference, found) = difference(name, &Import::default(), finish);
        let spec = found.model.spec().to_string();
        assert!(spec.contains(widths), "{name}: {spec}");
        assert!(difference < 1e-5, "{name}: {difference:e}");
        assert!(found.ignored.is_empty(), "{name}: {:?}", found.ignored);
        println!("{name}: {difference:.1e}, {:?}", found.notes);
    }
}

#[test]
fn notes_say_what_the_graph_does_otherwise() {
    let notes =
        |name: &str| Imported::read(golden(name), &Import::default()).unwrap().notes.join("\n");
    let lstm = notes("torch_lstm");
    let expected = "read as one model: `embedding.weight [9, 3]` -> `/rnn/LSTM` -> \
                    `/fc/MatMul [5, 4]`; --embedding-layer none --output-layer none takes";
    assert!(lstm.contains(expected), "{lstm}");
    let stack = notes("torch_bigru");
    assert!(stack.contains("`/rnn/GRU`, `/rnn/GRU_1` are read as the layers of one"), "{stack}");
    for name in ["torch_relu", "torch_final", "dynamo_final", "keras_last"] {
        let notes = notes(name);
        assert!(notes.contains("its output layer to the last step only"), "{name}: {notes}");
    }
    for (name, operator) in [("keras_words", "Softmax"), ("keras_last", "Sigmoid")] {
        let notes = notes(name);
        assert!(notes.contains(&format!("outputs are those before {operator}")), "{name}: {notes}");
    }
    assert_eq!(notes("both"), ""); // the graph itself rounds its weights
    let cells = [("gru_before", Cell::GruResetBefore), ("torch_relu", Cell::RnnRelu)];
    for (name, cell) in cells {
        let found = Model::import(golden(name), &Import::default()).unwrap();
        assert_eq!(found.spec().cell(), cell, "{name}");
    }
}

#[test]
fn several_recurrences_are_listed_and_chosen_by_name() {
    let bytes = read(golden("torch_two")).unwrap();
    let error = import(&bytes, &Import::default()).err().unwrap();
    let listed = "holds 2 recurrent networks: `/encoder/GRU+/encoder/GRU_1` (gru 3 -> 4 -> 4), \
                  `/decoder/GRU` (gru 4 -> 2); choose one by its name, such as --prefix /encoder/GRU+";
    assert!(error.contains(listed), "{error}");
    let spec =
        |name: &str| import(&bytes, &prefix(name)).map(|found| found.model.spec().to_string());
    for (name, widths) in [
        ("/encoder/GRU+/encoder/GRU_1", "3 -> 4 -> 4;"),
        ("encoder", "3 -> 4 -> 4;"),
        ("/encoder/GRU", " 3 -> 4;"),
        ("encoder/GRU_1", " 4 -> 4;"),
        ("/decoder/GRU_output_0", " 4 -> 2;"),
    ] {
        let found = spec(name).unwrap();
        assert!(found.contains(widths), "{name}: {found}");
    }
    assert!(spec("GRU").unwrap_err().contains("or several are; there are: `/encoder"));
    assert!(spec("").unwrap_err().contains("no recurrent node is called ``"));
    // The decoder is read alone: a normalisation comes before it, two layers after it.
    let decoder = import(&bytes, &prefix("decoder")).unwrap();
    let notes = decoder.notes.join("\n");
    assert!(notes.contains("its inputs are computed by "), "{notes}");
    assert!(notes.contains("to use one: --output-layer /head/head.0/MatMul"), "{notes}");
    let output = Import { output: Part::Named("head.0".into()), ..prefix("decoder") };
    let spec = import(&bytes, &output).unwrap().model.spec().to_string();
    assert!(spec.contains(" 4 -> 2 -> 3;"), "{spec}");
    let wrong = Import { output: Part::Named("head.2".into()), ..prefix("decoder") };
    let error = import(&bytes, &wrong).err().unwrap();
    assert!(
        error.contains("that reads the states directly; those that do: --output-layer"),
        "{error}"
    );
    let wrong = Import { embedding: Part::Named("words".into()), ..prefix("encoder") };
    assert!(import(&bytes, &wrong).err().unwrap().contains("no embedding `words` that feeds"));
}

#[test]
fn branches_hold_two_recurrences() {
    let bytes = read(golden("branches")).unwrap();
    let error = import(&bytes, &Import::default()).err().unwrap();
    assert!(error.contains("`/else/RNN` (rnn 3 -> 4), `/then/RNN` (rnn 3 -> 4)"), "{error}");
    let (difference, found) = difference("branches", &prefix("then"), plain);
    assert!(difference < 1e-5, "{difference}");
    assert_eq!(found.ignored.len(), 3, "{:?}", found.ignored);
    assert_ne!(import(&bytes, &prefix("else")).unwrap().model.params(), found.model.params());
}

#[test]
fn names_of_parts_and_activations() {
    let bytes = read(golden("torch_lstm")).unwrap();
    let whole = import(&bytes, &Import::default()).unwrap().model;
    for (embedding, output) in [("embedding", "fc"), ("embedding.weight", "/fc/MatMul")] {
        let (embedding, output) = (Part::Named(embedding.into()), Part::Named(output.into()));
        let named = import(&bytes, &Import { embedding, output, ..Import::default() }).unwrap();
        assert_eq!(named.model.params(), whole.params());
    }
    let found = import(&bytes, &alone()).unwrap();
    assert!(found.model.spec().outputs().is_none() && found.notes.is_empty(), "{:?}", found.notes);
    assert_eq!(found.ignored.len(), 3);
    let relu = Import { relu: true, ..Import::default() };
    assert!(import(&bytes, &relu).err().unwrap().contains("states its activations itself"));
    assert!(Imported::read(golden("torch_relu"), &relu).is_ok());
    assert!(Model::from_bytes(&bytes).unwrap_err().to_string().contains("it can be imported"));
}

#[test]
fn own_graphs_are_read_back() {
    let builders = [
        NetSpec::builder(Cell::Lstm).dense(3).units([4, 5]).outputs(2),
        NetSpec::builder(Cell::Gru).tokens(7, 3).units([4, 4]).outputs(6),
        NetSpec::builder(Cell::GruResetBefore).dense(2).units([3]),
        NetSpec::builder(Cell::RnnRelu).dense(2).units([3]).bidirectional().outputs(2),
        NetSpec::builder(Cell::RnnTanh).tokens(5, 2).units([3, 2]).bidirectional(),
        NetSpec::builder(Cell::Lstm).dense(3).units([4]).outputs(2).delay(2, Padding::Null),
        NetSpec::builder(Cell::Gru).tokens(7, 3).units([4]).outputs(6).delay(3, Padding::Null),
        NetSpec::builder(Cell::Lstm).tokens(7, 3).units([4, 4]).delay(1, Padding::Symbol(4)),
        NetSpec::builder(Cell::RnnTanh).dense(3).units([4]).outputs(2).delay(2, Padding::LookAhead),
    ];
    for builder in builders {
        let model = Model::init(&builder.build().unwrap(), 5).unwrap();
        for kind in [GraphKind::Whole, GraphKind::Step] {
            let Ok(graph) = model.to_onnx(kind) else { continue }; // no steps of both directions
            let found = import(&graph.bytes, &Import::default()).unwrap();
            assert_eq!(found.model.spec(), model.spec(), "{kind:?}");
            assert_eq!(found.model.params(), model.params(), "{kind:?}");
            let notes = found.notes.join("\n");
            assert!(!notes.contains("not part"), "{} {kind:?}: {notes}", model.spec());
            assert!(
                found.ignored.iter().all(|name| name[1..].starts_with('0')),
                "{:?}",
                found.ignored
            );
        }
        let spec = model.spec();
        if spec.delay() > 0 && spec.outputs().is_some() {
            let bytes = model.to_onnx(GraphKind::Whole).unwrap().bytes;
            let part = import(&bytes, &Import { output: Part::None, ..Import::default() }).unwrap();
            assert_eq!(part.model.spec().delay(), 0);
            assert!(part.notes.join("\n").contains("exported with a delay of"), "{:?}", part.notes);
        }
    }
}

/// A file with one recurrent node of 2 inputs and 3 units, with these attributes.
fn one(operator: &str, directions: i64, more: &[Vec<u8>]) -> Vec<u8> {
    let gates = match operator {
        "LSTM" => 4,
        "GRU" => 3,
        _ => 1,
    };
    let nodes = [node(operator, &["x", "W", "R", "B"], &["Y", "Y_h"], more)];
    model(&graph(&nodes, &file::weights(gates, directions, 2, "")))
}

#[test]
fn other_equations_are_refused_by_name() {
    let refused = |operator: &str, more: &[Vec<u8>]| {
        import(&one(operator, 1, more), &Import::default()).err().unwrap()
    };
    assert!(import(&one("LSTM", 1, &[]), &Import::default()).is_ok());
    let clip = [field(1, "clip"), [vec![0x15], 1f32.to_le_bytes().to_vec()].concat()].concat();
    for (operator, more, expected) in [
        ("LSTM", text("direction", "reverse"), "node `Y`: it runs backward only"),
        ("LSTM", clip, "it clips its gates"),
        ("LSTM", int("input_forget", 1), "gates are coupled (input_forget)"),
        ("LSTM", int("hidden_size", 4), "do not fit each other, its direction or hidden_size"),
        ("LSTM", text("direction", "bidirectional"), "do not fit each other"),
        (
            "GRU",
            texts("activations", &["HardSigmoid", "Tanh"]),
            "activations are HardSigmoid, Tanh",
        ),
        ("RNN", texts("activations", &["Affine"]), "its activations are Affine"),
        ("LSTM", texts("activations", &["Sigmoid", "Tanh"]), "its activations are Sigmoid, Tanh"),
    ] {
        let error = refused(operator, &[more]);
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let with = |nodes: &[Vec<u8>], more: &[Vec<u8>]| {
        let tensors = [&file::weights(4, 1, 2, ""), more].concat();
        import(&model(&graph(nodes, &tensors)), &Import::default()).err().unwrap()
    };
    let inputs = ["x", "W", "R", "B", "", "", "", "P"];
    let peepholes = with(&[node("LSTM", &inputs, &["Y"], &[])], &[floats("P", &[1, 9])]);
    assert!(peepholes.contains("peephole connections (its input P)"), "{peepholes}");
    for (operator, expected) in [
        (
            "DequantizeLinear",
            "its weights W are quantised (DequantizeLinear); give the float model",
        ),
        ("Mul", "its weights W are computed by Mul when the graph runs"),
    ] {
        let scaled = node(operator, &["W", "B"], &["V"], &[]);
        let error = with(&[scaled, node("LSTM", &["x", "V", "R"], &["Y"], &[])], &[]);
        assert!(error.contains(expected), "{error}");
    }
    let input = with(&[node("LSTM", &["x", "x", "R"], &["Y"], &[])], &[]);
    assert!(input.contains("its weights W are computed when the graph runs"), "{input}");
    let cyclic = with(&[node("LSTM", &["x", "Y", "R"], &["Y"], &[])], &[]);
    assert!(cyclic.contains("weights W are not defined by any node before it"), "{cyclic}");
    let missing = with(&[node("LSTM", &["x"], &["Y"], &[])], &[]);
    assert!(missing.contains("it has no weights W"), "{missing}");
    let quantised = with(&[node("DynamicQuantizeLSTM", &["x"], &["Y"], &[])], &[]);
    assert!(
        quantised.contains("`Y` is DynamicQuantizeLSTM: its weights are quantised"),
        "{quantised}"
    );
    let unrolled = with(&[node("MatMul", &["x", "W"], &["Y"], &[])], &[]);
    assert!(unrolled.contains("has no LSTM, GRU or RNN node"), "{unrolled}");
    assert!(unrolled.contains("its operators are MatMul"), "{unrolled}");
    let other = [tensor("Q", 3, &[1], &[0]), number(14, 0)].concat();
    let bytes = with(&[node("LSTM", &["x", "Q", "R"], &["Y"], &[])], &[other]);
    assert!(bytes.contains("`Q` is quantised or of another integer type"), "{bytes}");
    let external = [tensor("E", 1, &[1, 12, 2], &[]), number(14, 1)].concat();
    let elsewhere = with(&[node("LSTM", &["x", "E", "R"], &["Y"], &[])], &[external]);
    assert!(elsewhere.contains("`E` is stored in another file (external data)"), "{elsewhere}");
    let function = [field(1, "block"), field(7, node("GRU", &["a"], &["b"], &[]))].concat();
    let called = graph(&[node("block", &["x"], &["y"], &[])], &[]);
    let bytes =
        [model(&called), [varint(25 << 3 | 2), varint(function.len() as u64)].concat(), function];
    let error = import(&bytes.concat(), &Import::default()).err().unwrap();
    assert!(error.contains("recurrent nodes in the function `block`; inline it"), "{error}");
}

#[test]
fn layouts_starts_and_types() {
    let found = import(&one("GRU", 2, &[text("direction", "bidirectional")]), &Import::default());
    let found = found.unwrap().model;
    assert_eq!(found.spec().cell(), Cell::GruResetBefore);
    // The gates z, r, h of the second direction.
    let values = |name: &str, dims: &[i64]| -> Vec<f32> {
        let bytes = floats(name, dims);
        let raw = &bytes[bytes.len() - 4 * dims.iter().product::<i64>() as usize..];
        raw.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let w = values("W", &[2, 9, 2]);
    let reverse = drnn::params::Layout::new(found.spec());
    let reverse = reverse.find("weight_ih_l0_reverse").unwrap().range.clone();
    let expected = [&w[24..30], &w[18..24], &w[30..36]].concat();
    assert_eq!(found.params()[reverse], expected);

    // Batch first, two layers: axes are followed, and a moved batch axis is no stack.
    let stacked = |layout: i64, perm: &[i64]| {
        let weights = [file::weights(4, 1, 2, "1"), file::weights(4, 1, 3, "2")].concat();
        let weights = [weights, vec![ints("axes", &[if layout == 1 { 2 } else { 1 }])]].concat();
        let nodes = [
            node("LSTM", &["x", "W1", "R1", "B1"], &["Y1"], &[int("layout", layout)]),
            node("Squeeze", &["Y1", "axes"], &["y1"], &[]),
            node("Transpose", &["y1"], &["z1"], &[int_list("perm", perm)]),
            node("LSTM", &["z1", "W2", "R2", "B2"], &["Y2"], &[int("layout", layout)]),
        ];
        import(&model(&graph(&nodes, &weights)), &Import::default())
    };
    let first = stacked(0, &[0, 1, 2]).unwrap().model;
    assert_eq!(first.spec().layers(), 2);
    assert_eq!(stacked(1, &[0, 1, 2]).unwrap().model.params(), first.params());
    for (layout, perm) in [(0, [1, 0, 2]), (1, [1, 0, 2]), (0, [0, 1, 1]), (0, [2, 0, 1])] {
        let error = stacked(layout, &perm).err().unwrap();
        assert!(error.contains("holds 2 recurrent networks: `Y1` (lstm 2 -> 3), `Y2`"), "{error}");
    }

    // States to start from.
    let start = |nodes: &[Vec<u8>], more: &[Vec<u8>]| {
        let inputs = ["x", "W", "R", "B", "", "h", "c"];
        let nodes = [nodes, &[node("LSTM", &inputs, &["Y"], &[])]].concat();
        let tensors = [&file::weights(4, 1, 2, ""), more].concat();
        import(&model(&graph(&nodes, &tensors)), &Import::default()).unwrap().notes.join("\n")
    };
    let zeros = tensor("h", 1, &[1, 1, 3], &[0; 12]);
    assert_eq!(start(&[], &[zeros.clone(), tensor("c", 1, &[1, 1, 3], &[0; 12])]), "");
    let own = start(&[], &[zeros, floats("c", &[1, 1, 3])]);
    assert!(own.contains("starts from states of its own"), "{own}");
    let fill = |name: &str, value: f32| {
        let value = field(5, tensor("", 1, &[1], &value.to_le_bytes()));
        let value = [field(1, "value"), value].concat();
        node("ConstantOfShape", &["x"], &[name], &[value])
    };
    assert_eq!(start(&[fill("h", 0.0), fill("c", 0.0)], &[]), "");
    assert!(start(&[fill("h", 0.0), fill("c", 1.0)], &[]).contains("states of its own"));
    assert_eq!(start(&[node("Anything", &["x"], &["h", "c"], &[])], &[]), "");
}

#[test]
fn typed_values_and_half_precision() {
    let expected = import(&one("RNN", 1, &[]), &Import::default()).unwrap().model;
    let values = |name: &str| -> Vec<f32> {
        let range = drnn::params::Layout::new(expected.spec());
        let range = range.find(name).unwrap().range.clone();
        expected.params()[range].to_vec()
    };
    let w = values("weight_ih_l0");
    let header = |kind: i64| {
        [number(1, 1), number(1, 3), number(1, 2), number(2, kind), field(8, "W")].concat()
    };
    let raw = |kind: i64, bytes: Vec<u8>| [header(kind), field(9, bytes)].concat();
    let f32s: Vec<u8> = w.iter().flat_map(|x| x.to_le_bytes()).collect();
    let f64s: Vec<u8> = w.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect();
    let halves: Vec<half::f16> = w.iter().map(|x| half::f16::from_f32(*x)).collect();
    let packed: Vec<u8> = halves.iter().flat_map(|x| varint(x.to_bits().into())).collect();
    let single: Vec<u8> =
        w.iter().flat_map(|x| [vec![0x25], x.to_le_bytes().to_vec()].concat()).collect();
    let brains = |x: &f32| half::bf16::from_f32(*x).to_le_bytes();
    for (w, tolerance) in [
        (raw(1, f32s.clone()), 0.0),
        ([header(1), field(4, f32s)].concat(), 0.0),
        ([header(1), single].concat(), 0.0),
        (raw(11, f64s.clone()), 0.0),
        ([header(11), field(10, f64s)].concat(), 0.0),
        (raw(10, halves.iter().flat_map(|x| x.to_le_bytes()).collect()), 1e-3),
        ([header(10), field(5, packed)].concat(), 1e-3),
        (raw(16, w.iter().flat_map(brains).collect()), 1e-2),
    ] {
        let weights = [vec![w], file::weights(1, 1, 2, "")[1..].to_vec()].concat();
        let nodes = [node("RNN", &["x", "W", "R", "B"], &["Y"], &[])];
        let found = import(&model(&graph(&nodes, &weights)), &Import::default()).unwrap().model;
        let difference = found.params().iter().zip(expected.params()).map(|(a, b)| (a - b).abs());
        assert!(difference.fold(0.0, f32::max) <= tolerance);
    }
}
