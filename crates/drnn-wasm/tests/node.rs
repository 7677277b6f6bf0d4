//! The WebAssembly module under Node.js: `node.mjs` compares it with what is computed here. Without
//! Node.js or the built package (`crates/drnn-wasm/build.sh`), the tests are skipped.

use drnn::random::Rng;
use drnn::{
    Batch, Cell, Cpu, InputSpec, InstructionSet, Model, NetSpec, NetSpecBuilder, Padding, Rows,
    Steps, WeightFormat,
};
use drnn_testing::{Need, found, wasm_package};
use drnn_wasm::session::Session;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn-cli/models");
const STEPS: usize = 23;
const ROWS: usize = 5;
const LENGTHS: [usize; ROWS] = [23, 1, 17, 8, 22];

/// Runs a part of `node.mjs` with a folder of files. False where the test is skipped.
fn node(part: &str, folder: &Path) -> bool {
    let Some(package) = found(Need::Wasm, wasm_package()) else { return false };
    let node = std::env::var_os("DRNN_NODE").unwrap_or_else(|| "node".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node.mjs");
    let command = Command::new(&node).arg(script).arg(part).args([&package, folder]).output();
    let no_node = |e| format!("{} does not start: {e}", node.display());
    let Some(output) = found(Need::Node, command.map_err(no_node)) else { return false };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stdout));
    true
}

/// Networks of every cell, input, direction and padding, and of every format of weights.
fn networks() -> Vec<(String, Model)> {
    let mut all = Vec::new();
    let cells = [Cell::Lstm, Cell::Gru, Cell::GruResetBefore, Cell::RnnTanh, Cell::RnnRelu];
    for (seed, cell) in (1..).zip(cells) {
        let net = || NetSpec::builder(cell);
        let shapes: [(&str, NetSpecBuilder); 5] = [
            ("delayed", net().dense(3).units([37]).delay(4, Padding::Null).outputs(5)),
            ("tokens", net().tokens(11, 6).units([24]).delay(2, Padding::Symbol(3)).outputs(11)),
            ("stack", net().dense(1).units([19, 33]).outputs(2)),
            ("both", net().dense(9).units([16, 8]).bidirectional().outputs(3)),
            ("ahead", net().dense(130).units([65]).delay(3, Padding::LookAhead)),
        ];
        for (shape, builder) in shapes {
            let model = Model::init(&builder.build().unwrap(), seed).unwrap();
            all.push((format!("{cell:?} {shape}"), model));
        }
    }
    let spec = NetSpec::builder(Cell::Lstm).dense(40).units([72]).delay(2, Padding::Null);
    let model = Model::init(&spec.outputs(12).build().unwrap(), 9).unwrap();
    for format in [WeightFormat::F16, WeightFormat::Bf16, WeightFormat::Int8] {
        all.push((format!("Lstm {format}"), model.clone().quantize(format).unwrap()));
    }
    all
}

/// Input, and outputs on an instruction set; as many as there are, row after row.
fn case(folder: &Path, number: usize, name: &str, model: &Model) -> Value {
    let file = format!("{number}.safetensors");
    std::fs::write(folder.join(&file), model.to_bytes().unwrap()).unwrap();
    let mut rng = Rng::new(number as u64);
    let (mut x, mut tokens) = (Vec::new(), Vec::new());
    match model.spec().input() {
        InputSpec::Dense(q) => {
            x.extend((0..STEPS * ROWS * q).map(|_| 2.0 * rng.uniform() - 1.0));
        }
        InputSpec::Tokens { symbols, .. } => {
            tokens.extend((0..STEPS * ROWS).map(|_| rng.below(symbols) as u32));
        }
    }
    let batch = match tokens.is_empty() {
        true => Batch::dense(&x, Steps(STEPS), Rows(ROWS)),
        false => Batch::tokens(&tokens, Steps(STEPS), Rows(ROWS)),
    };
    let outputs = |set| {
        let cpu = Cpu::with_instruction_set(set, 1).unwrap();
        let model = model.clone().on(&cpu);
        model.run(&batch.lengths(&LENGTHS), None).unwrap().values
    };
    json!({
        "name": name, "file": file, "rows": ROWS, "lengths": LENGTHS,
        "elements": if tokens.is_empty() { json!(x) } else { json!(tokens) },
        "portable": outputs(InstructionSet::Portable),
        // A rounded activation can fall to the other side of a tie there: compared with one only.
        "fastest": (!name.contains("int8")).then(|| outputs(InstructionSet::available()[0])),
    })
}

#[test]
fn outputs_are_those_of_this_machine_and_streams_equal_runs() {
    let folder = tempfile::tempdir().unwrap();
    let all = networks();
    let cases =
        all.iter().enumerate().map(|(i, (name, model))| case(folder.path(), i, name, model));
    let cases: Vec<Value> = cases.collect();
    std::fs::write(folder.path().join("cases.json"), json!(cases).to_string()).unwrap();
    node("networks", folder.path());
}

#[test]
fn predictions_and_errors_are_those_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::default();
    let mut load = |name: &str| {
        let bytes = std::fs::read(format!("{MODELS}/{name}.safetensors")).unwrap();
        std::fs::write(folder.path().join(format!("{name}.safetensors")), &bytes).unwrap();
        session.load(name, &bytes).unwrap()
    };
    let [chars, both, tagger] = ["chars-en", "chars-en-bilstm", "tagger-en"].map(&mut load);
    let text = "Th_ old man the b[MASK]at, and wond_red wh_re he w_s.";
    let sentence = "The old man's boat isn't well-made.";
    let parse = |json: String| serde_json::from_str::<Value>(&json).unwrap();
    let run = json!({"texts": [text.replace("[MASK]", "_"), "a"]}).to_string();
    let elements = json!({"sequences": [["a", null, "b"]]}).to_string();
    let mut error =
        |act: &dyn Fn(&mut Session) -> Result<(), String>| act(&mut session).unwrap_err();
    let stream = |session: &mut Session| session.stream(chars).unwrap();
    let errors = [
        error(&|s| s.load("x", b"not a model").map(|_| ())),
        error(&|s| s.stream(both).map(|_| ())),
        error(&|s| s.tag(chars, "a", false).map(|_| ())),
        error(&|s| s.fill(tagger, "a").map(|_| ())),
        error(&|s| {
            let stream = stream(s);
            s.push(stream, "\"ab\"").map(|_| ())
        }),
        error(&|s| s.run(tagger, r#"{"sequences": [["a", 5]]}"#).map(|_| ())),
        error(&|s| {
            let stream = stream(s);
            s.restore(stream, b"nothing")
        }),
        error(&|s| s.run_network(chars, &[0; 12], (2, 1), false).map(|_| ())),
    ];
    let expected = json!({
        "text": text, "sentence": sentence,
        "info": [parse(session.info(chars).unwrap()), parse(session.info(tagger).unwrap())],
        "fill": [session.fill(chars, text).unwrap(), session.fill(both, text).unwrap()],
        "runs": [parse(session.run(chars, &run).unwrap()), parse(session.run(both, &run).unwrap())],
        "elements": parse(session.run(chars, &elements).unwrap()),
        "tags": parse(session.tag(tagger, sentence, false).unwrap()),
        "words": parse(session.tag(tagger, r#"["Ants", "run"]"#, true).unwrap()),
        "errors": errors,
    });
    std::fs::write(folder.path().join("expected.json"), expected.to_string()).unwrap();
    node("tasks", folder.path());
}

#[test]
fn hostile_files_are_refused_and_the_module_stays_usable() {
    let folder = tempfile::tempdir().unwrap();
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn/tests");
    let mut count = 0;
    // The fuzzers' findings, files of other programs, files of version 0.1.0 and snapshots, built-in models.
    for from in ["regressions", "golden", "fixtures"].map(|name| format!("{tests}/{name}")) {
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            count += 1;
            std::fs::copy(&path, folder.path().join(format!("{count}.bin"))).unwrap();
        }
    }
    assert!(count > 50, "{count}");
    std::fs::copy(format!("{MODELS}/tagger-en.safetensors"), folder.path().join("tagger.bin"))
        .unwrap();
    let (_, int8) = networks().pop().unwrap();
    std::fs::write(folder.path().join("int8.bin"), int8.to_bytes().unwrap()).unwrap();
    node("hostile", folder.path());
}
