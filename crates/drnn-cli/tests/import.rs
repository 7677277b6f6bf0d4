//! Other programs' models and built-in ones, with every command that takes a model.

mod common;

use ::drnn::params::Layout;
use ::drnn::{Batch, Cell, Model, NetSpec, Rows, Steps};
use common::{done, drnn, read, refused, text, write};
use safetensors::tensor::{Dtype, TensorView};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a model's tensors under other names, and more tensors of these shapes.
fn write_foreign(
    path: &Path,
    model: &Model,
    name: impl Fn(&str) -> String,
    more: &[(&str, &[usize])],
) {
    let layout = Layout::new(model.spec());
    let own = layout.tensors().iter().map(|t| {
        let values = &model.params()[t.range.clone()];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        (name(&t.name), t.dims.clone(), bytes)
    });
    let more = more.iter().map(|(name, dims)| {
        (name.to_string(), dims.to_vec(), vec![0; 4 * dims.iter().product::<usize>()])
    });
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = own.chain(more).collect();
    let views = tensors
        .iter()
        .map(|(name, dims, data)| (name, TensorView::new(Dtype::F32, dims.clone(), data).unwrap()));
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Runs the program with text on its standard input; stdout and stderr.
fn piped(folder: &Path, arguments: &str, input: &str) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {stderr}");
    (text(&output.stdout), stderr)
}

fn tokens_model() -> Model {
    let spec = NetSpec::builder(Cell::Gru).tokens(9, 3).units([4, 4]).outputs(2).build().unwrap();
    Model::init(&spec, 7).unwrap()
}

#[test]
fn embedding_recurrence_and_output_layer_run_as_one_model_and_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let model = tokens_model();
    let name = |name: &str| match name.contains('.') {
        true => name.replace("output", "fc"),
        false => format!("rnn.{name}"),
    };
    write_foreign(&at("net.safetensors"), &model, name, &[]);
    write(&at("x.npy"), &[3, 1], &[1i64, 8, 0]);
    let expected = model.run(&Batch::tokens(&[1, 8, 0], Steps(3), Rows(1)), None).unwrap();
    let output = drnn(folder.path(), "run net.safetensors x.npy -o y.npy");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(read(&at("y.npy")), (vec![3, 1, 2], expected.values.clone()));
    let recognised = "read as one model: `embedding.weight [9, 3]` -> `rnn.` -> `fc.weight [2, 4]`; \
         --embedding-layer none --output-layer none takes the recurrence alone";
    assert!(said.contains(recognised), "{said}");

    // The same live, with elements as text.
    let (streamed, said) = piped(folder.path(), "stream net.safetensors", "1\n8\n0\n");
    let streamed: Vec<f32> = streamed.split_whitespace().map(|x| x.parse().unwrap()).collect();
    assert_eq!(streamed, expected.values);
    assert!(said.contains(recognised), "{said}");

    // The recurrence alone, and the rest by name.
    write(&at("v.npy"), &[2, 1, 3], &[0.5f32, 0.25, -1.0, 0.0, 1.0, 2.0]);
    let alone = "run net.safetensors v.npy -o h.npy --embedding-layer none --output-layer none";
    let output = drnn(folder.path(), alone);
    let said = text(&output.stderr);
    let ignored = "not part of the model: embedding.weight [9, 3], fc.bias [2], fc.weight [2, 4];";
    assert!(output.status.success() && said.contains(ignored), "{said}");
    assert_eq!(read(&at("h.npy")).0, [2, 1, 4]);
    let inspected =
        done(folder.path(), "inspect net.safetensors --embedding-layer none --output-layer none");
    let listed = "not part of the model (3):\n  embedding.weight [9, 3]\n  fc.bias [2]\n";
    assert!(inspected.contains(listed), "{inspected}");
    let json = done(folder.path(), "inspect net.safetensors --json --output-layer none");
    assert!(json.contains(r#""ignored":["fc.bias [2]","fc.weight [2, 4]"]"#), "{json}");
}

#[test]
fn every_command_takes_the_prefix_with_or_without_its_dot() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let spec = NetSpec::builder(Cell::RnnRelu).dense(2).units([3, 3]).build().unwrap();
    let model = Model::init(&spec, 5).unwrap();
    let other: [(&str, &[usize]); 2] = [("b.weight_ih_l0", &[4, 1]), ("b.weight_hh_l0", &[4, 1])];
    write_foreign(&at("two.safetensors"), &model, |name| format!("a.rnn.{name}"), &other);
    let x = [0.5f32, 1.0, -0.25, 2.0];
    write(&at("x.npy"), &[2, 1, 2], &x);
    let expected = model.run(&Batch::dense(&x, Steps(2), Rows(1)), None).unwrap().values;
    let error = refused(folder.path(), "stream two.safetensors");
    assert!(error.contains("`a.rnn.` (rnn 2 -> 3 -> 3), `b.` (lstm 1 -> 1)"), "{error}");
    for prefix in ["a.rnn", "a.rnn.", "a"] {
        let options = format!("--prefix {prefix} --nonlinearity relu");
        done(folder.path(), &format!("run two.safetensors x.npy -o y.npy {options}"));
        assert_eq!(read(&at("y.npy")).1, expected);
        let stream = format!("stream two.safetensors {options}");
        let (streamed, _) = piped(folder.path(), &stream, "0.5 1\n-0.25 2\n");
        let streamed: Vec<f32> = streamed.split_whitespace().map(|x| x.parse().unwrap()).collect();
        assert_eq!(streamed, expected);
        let inspected = done(folder.path(), &format!("inspect two.safetensors {options}"));
        assert!(inspected.starts_with("rnn(2 x 3 units, relu)"), "{inspected}");
        assert!(inspected.contains("  b.weight_hh_l0 [4, 1]\n"), "{inspected}");
        done(folder.path(), &format!("export two.safetensors --onnx two.onnx {options}"));
        done(folder.path(), &format!("flatten two.safetensors -o flat.safetensors {options}"));
    }
}

#[test]
fn onnx_graphs_are_models_in_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    tokens_model().save(at("own.safetensors")).unwrap();
    done(folder.path(), "export own.safetensors --onnx graph.bin");
    write(&at("x.npy"), &[4, 1], &[1i64, 2, 3, 1]);
    done(folder.path(), "run own.safetensors x.npy -o own.npy");
    done(folder.path(), "run graph.bin x.npy -o graph.npy");
    assert_eq!(std::fs::read(at("own.npy")).unwrap(), std::fs::read(at("graph.npy")).unwrap());
    let inspected = done(folder.path(), "inspect graph.bin");
    assert!(inspected.starts_with("gru(2 x 4 units)"), "{inspected}");
    done(folder.path(), "flatten graph.bin -o flat.safetensors");
    done(folder.path(), "export graph.bin --onnx again.onnx");
    let elements = "1\n2\n3\n";
    let streamed = piped(folder.path(), "stream graph.bin", elements).0;
    assert_eq!(piped(folder.path(), "stream own.safetensors", elements).0, streamed);
    let error = refused(folder.path(), "run graph.bin x.npy -o y.npy --prefix decoder");
    let expected = "graph.bin: no recurrent node is called `decoder`, or several are; there are: ";
    assert!(error.contains(expected), "{error}");
    let notes = text(&drnn(folder.path(), "run graph.bin x.npy -o y.npy").stderr).to_string();
    assert!(notes.contains("are read as the layers of one stack"), "{notes}");
    std::fs::write(at("cut.onnx"), &std::fs::read(at("graph.bin")).unwrap()[..500]).unwrap();
    let error = refused(folder.path(), "inspect cut.onnx");
    assert!(error.contains("cut.onnx: is not a whole ONNX file"), "{error}");
}

#[test]
fn built_in_models_have_names_in_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["chars-en", "chars-en-lstm", "chars-en-bilstm"] {
        let inspected = done(folder.path(), &format!("inspect {name}"));
        assert!(inspected.contains("task: chars"), "{inspected}");
    }
    assert!(done(folder.path(), "inspect tagger-en").contains("task: tagger"));
    write(&at("x.npy"), &[4, 1], &[1i64, 2, 3, 4]);
    done(folder.path(), "run chars-en-lstm x.npy -o y.npy");
    done(folder.path(), "export chars-en --onnx chars.onnx");
    std::fs::write(at("text.txt"), "the quick brown fox jumps over the lazy dog ".repeat(20))
        .unwrap();
    assert!(done(folder.path(), "eval chars-en text.txt").contains("chars:"));
    let (streamed, _) = piped(folder.path(), "stream chars-en", "the quick br_wn fox");
    assert_eq!(streamed.trim_end().len(), "the quick br_wn fox".len(), "{streamed}");
    let (filled, _) = piped(folder.path(), "fill chars-en", "the quick br_wn fox");
    assert_eq!(filled, streamed.trim_end());
    assert_eq!(piped(folder.path(), "fill", "the quick br_wn fox").0, filled);
    let words = "The dog barks .\n";
    let tagged = piped(folder.path(), "tag", words).0;
    assert_eq!(piped(folder.path(), "tag tagger-en", words).0, tagged);

    let error = refused(folder.path(), "inspect chars-fr");
    let expected = "built-in models are chars-en, chars-en-lstm, chars-en-bilstm, tagger-en";
    assert!(error.contains("chars-fr: cannot be read") && error.contains(expected), "{error}");
    // A file of that name wins, and is announced.
    tokens_model().save(at("chars-en")).unwrap();
    let output = drnn(folder.path(), "inspect chars-en");
    assert!(text(&output.stdout).starts_with("gru(2 x 4 units)"), "{}", text(&output.stdout));
    let note = "note: chars-en: the file of that name is used, not the built-in model";
    assert!(text(&output.stderr).contains(note), "{}", text(&output.stderr));
}
