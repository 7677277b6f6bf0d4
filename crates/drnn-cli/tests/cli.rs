//! The program as its user meets it: text, JSON and exit codes.

use std::process::{Command, Output};

fn drnn(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drnn")).args(arguments.split_whitespace()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it says, where it is to end with exit code 2.
fn refused(arguments: &str) -> String {
    let output = drnn(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

const PAPER: &str = "inspect --net dlstm --units 512 --delay 8 --padding look-ahead \
                     --symbols 28 --embedding 10 --outputs 27";

#[test]
fn inspect_shows_size_latency_and_tensors() {
    let output = drnn(PAPER);
    assert!(output.status.success());
    let expected = "\
dlstm(512 units, delay 8): outputs 8 steps late; 28 symbols -> 10 -> 512 -> 27; 1,087,283 parameters

embedding.weight  [28, 10]                 280
weight_ih_l0      [2048, 10]            20,480
weight_hh_l0      [2048, 512]        1,048,576
bias_ih_l0        [2048]                 2,048
bias_hh_l0        [2048]                 2,048
output.weight     [27, 512]             13,824
output.bias       [27]                      27
total                                1,087,283
";
    let text = stdout(&output);
    let (tensors, memory) = text.split_once("\nmemory, ").unwrap();
    assert_eq!(tensors, expected);
    assert!(
        memory.starts_with("model        8.7 MB  weights, and a copy in the kernels' layout"),
        "{memory}"
    );
    assert!(memory.contains("\nmemory, training"), "{memory}");
}

#[test]
fn inspect_json_can_be_read_back() {
    let output = drnn(&format!("{PAPER} --json"));
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&value["parameters"], &value["delay"]), (&1_087_283.into(), &8.into()));
    let spec: drnn::NetSpec = serde_json::from_value(value["spec"].clone()).unwrap();
    assert_eq!(spec.parameters(), 1_087_283);
    assert_eq!(value["tensors"][2]["shape"], serde_json::json!([2048, 512]));
}

#[test]
fn inspect_reads_model_files_and_refuses_others() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn/tests/golden");
    let text = stdout(&drnn(&format!("inspect {golden}/lstm_2x5_both_ways.safetensors")));
    assert!(text.starts_with("bilstm(2 x 5 units per direction)"), "{text}");
    let text = stdout(&drnn(&format!("inspect {golden}/rnn_relu.safetensors --nonlinearity relu")));
    assert!(text.starts_with("rnn(5 units, relu)"), "{text}");

    let text = stdout(&drnn(&format!("inspect {golden}/pt_checkpoint.pt --prefix model.")));
    assert!(text.starts_with("lstm(3 units)"), "{text}");
    let found = refused(&format!("inspect {golden}/pt_refused_script.pt"));
    assert!(found.contains("pt_refused_script.pt: is a TorchScript program"), "{found}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let spec = drnn::NetSpec::builder(drnn::Cell::Gru).dense(2).units([3]).build().unwrap();
    drnn::Model::init(&spec, 1).unwrap().save(&path).unwrap();
    let path = path.display().to_string();
    assert!(stdout(&drnn(&format!("inspect {path}"))).starts_with("gru(3 units)"));

    assert!(refused("inspect nowhere.safetensors").contains("nowhere.safetensors: cannot be read"));
    let found = refused(&format!("inspect {golden}/torch.json"));
    assert!(found.contains("torch.json: is JSON text; drnn reads weights"), "{found}");
    assert!(refused(&format!("inspect {path} --net lstm")).contains("cannot be used with"));
    let found = refused(&format!("inspect {golden}/lstm_f16.safetensors --prefix encoder."));
    assert!(found.contains("prefixes that have one: `net.` ("), "{found}");
}

#[test]
fn networks_of_every_kind_can_be_named() {
    for net in ["rnn", "birnn", "lstm", "bilstm", "gru", "bigru"] {
        let text = stdout(&drnn(&format!("inspect --net {net} --layers 2 --units 8 --inputs 3")));
        assert!(text.starts_with(&format!("{net}(2 x 8 units")), "{text}");
    }
    for net in ["drnn", "dlstm", "dgru"] {
        let text = stdout(&drnn(&format!("inspect --net {net} --units 8,4 --delay 2")));
        assert!(text.starts_with(&format!("{net}(8 + 4 units, delay 2)")), "{text}");
    }
    let text = stdout(&drnn("inspect --net rnn --nonlinearity relu"));
    assert!(text.starts_with("rnn(100 units, relu)"), "{text}");
}

#[test]
fn bad_usage_is_refused_with_the_remedy() {
    let default = drnn("inspect --net dlstm");
    assert!(String::from_utf8_lossy(&default.stderr).contains("note: --delay 5, the default here"));
    assert!(stdout(&default).starts_with("dlstm(100 units, delay 5)"));
    assert!(
        refused("inspect --net lstm --delay 3").contains("use drnn, dlstm or dgru for a delay")
    );
    assert!(refused("inspect --net lstm --units 0").contains("layer 0 has no units"));
    assert!(
        refused("inspect --net lstm --layers 3 --units 5,6").contains("--units names 2 layers")
    );
    assert!(
        refused("inspect --net lstm --layers 1 --units 5,6").contains("--units names 2 layers")
    );
    assert!(refused("inspect --net lstm --nonlinearity relu").contains("only a plain RNN"));
    assert!(refused("inspect --net lstm --padding look-ahead").contains("only a delayed network"));
    assert!(refused("inspect --net lstm --units 99999999999999").contains("too large"));
    assert!(refused("inspect --net lstm --units x").contains("--units"));
    assert!(refused("inspect --net transformer").contains("possible values: rnn, birnn"));
    assert!(refused("inspect --net lstm --symbols 5").contains("--embedding"));
    assert!(refused("inspect --net dlstm --delay 2 --padding 3").contains("needs token input"));
    assert!(refused("inspect --net dlstm --delay 2 --padding x").contains("look-ahead"));
    assert!(refused("bench --case nonsense").contains("train-n100"));
    assert!(refused("bench --isa sse9").contains("this processor runs"));
    assert!(refused("bench --rounds 0").contains("--rounds"));
    assert!(refused("bench --threads 0").contains("--threads"));
    assert!(refused("bench --units 5").contains("--net"));
    assert!(refused("bench --net lstm --case train-n100").contains("--case"));
    assert!(refused("bench --net dlstm --steps 9").contains("--net lstm, --steps T + d"));
    assert!(refused("bench --net lstm --units 0").contains("--units"));
    let huge = "bench --net lstm --units 65536 --batch 1000000 --steps 1000000";
    assert!(refused(huge).contains("--force"), "{}", refused(huge));
    let on_gpu = "bench --device cuda --net lstm";
    assert!(refused(&format!("{on_gpu} --pass stream")).contains("live sequences run on the CPU"));
    let weights = format!("{on_gpu} --pass infer --weights f16");
    assert!(refused(&weights).contains("--precision"));
    assert!(refused("bench --net lstm --loss cross-entropy").contains("--device cuda"));
    assert!(refused("bench --net lstm --symbols 5 --embedding 2").contains("--device cuda"));
    assert!(refused("bench --net lstm --symbols 5").contains("--embedding"));
    assert!(refused("bench --net lstm --wait").contains("--shapes"));
    assert!(refused("").contains("Usage"));
    assert!(refused("dance").contains("unrecognized subcommand"));
}

#[test]
fn the_environment_is_checked_too() {
    for (name, value) in [("DRNN_ISA", "sse9"), ("DRNN_THREADS", "0"), ("DRNN_THREADS", "many")] {
        for arguments in ["bench", "inspect --net lstm"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
            command.args(arguments.split(' ')).env(name, value);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{name}={value} {arguments}");
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(text.contains(&format!("environment variable {name} is `{value}`")), "{text}");
            assert!(output.stdout.is_empty(), "{name}={value} {arguments}");
        }
    }
}

#[test]
fn bench_measures_a_case() {
    let output = drnn("bench --case stream-n256 --rounds 2 --threads 1 --json");
    assert!(output.status.success());
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let case = &value["cases"][0];
    assert_eq!((&case["name"], &value["threads"]), (&"stream-n256".into(), &1.into()));
    assert_eq!(case["seconds"].as_array().unwrap().len(), 2);
    assert!(case["gflops"].as_f64().unwrap() > 0.0);
    assert!(case["share_of_peak"].as_f64().unwrap() > 0.0);

    let text = stdout(&drnn("bench --case stream-n256 --rounds 1 --isa portable"));
    assert!(text.contains("portable; limit"), "{text}");
    assert!(text.lines().any(|l| l.starts_with("stream-n256")), "{text}");
}

#[test]
fn bench_measures_any_shape() {
    for (net, width) in [("lstm", 4), ("bigru", 6), ("rnn", 1)] {
        let options = "--layers 2 --units 7 --batch 3 --steps 5 --inputs 2 --rounds 1 --seconds 0";
        let output = drnn(&format!("bench --net {net} {options} --threads 2 --no-peak --json"));
        let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let [infer, train] = value["cases"].as_array().unwrap().as_slice() else {
            panic!("{value}")
        };
        assert_eq!(infer["name"], format!("infer-{net}"));
        assert_eq!(train["what"], format!("forward+backward, {net}, k=2 n=7 q=2 B=3 T=5"));
        let work = |case: &serde_json::Value| {
            case["gflops"].as_f64().unwrap() * case["median_s"].as_f64().unwrap() * 1e9
        };
        // Forward: h and x of both layers, where a bidirectional one's second reads both directions.
        let below = if net == "bigru" { 14 } else { 7 };
        let forward = (2 * 3 * 5 * width * 7 * (7 + 2 + 7 + below)) as f64;
        assert!((work(infer) / forward - 1.0).abs() < 1e-6, "{net}: {}", work(infer));
        assert!(work(train) > 2.0 * forward);
    }
    let text =
        stdout(&drnn("bench --net gru --units 5 --steps 3 --pass train --rounds 1 --seconds 0"));
    assert!(text.contains("train-gru") && !text.contains("infer-gru"), "{text}");
}

#[test]
fn bench_measures_the_shapes_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shapes.json");
    let bench = |shapes: &str, options: &str| {
        std::fs::write(&path, shapes).unwrap();
        format!("bench --shapes {} {options}", path.display())
    };
    let small = r#"{"net": "lstm", "units": 7, "batch": 3, "steps": 5, "inputs": 2}"#;
    let other = r#"{"net": "bigru", "units": 5, "layers": 2, "steps": 4}"#;
    let options = "--rounds 1 --seconds 0 --no-peak --json";
    let output = drnn(&bench(&format!("[{small}, {other}]"), options));
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<_> = value["cases"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["infer-lstm", "train-lstm", "infer-bigru", "train-bigru"]);
    assert_eq!(value["cases"][3]["what"], "forward+backward, bigru, k=2 n=5 q=64 B=16 T=4");

    for (shapes, part) in [
        ("[]", "an empty list"),
        ("{", "expected a list such as"),
        (r#"[{"units": 5}]"#, "net"),
        (r#"[{"net": "transformer"}]"#, "rnn"),
        (r#"[{"net": "lstm", "width": 5}]"#, "units"),
        (r#"[{"net": "lstm"}, {"net": "gru", "units": 0}]"#, "shape 1: units is 0"),
        (r#"[{"net": "dlstm"}]"#, "--net lstm, --steps T + d"),
        (r#"[{"net": "lstm", "symbols": 5}]"#, "symbols and embedding"),
        (r#"[{"net": "lstm", "loss": "squared-error"}]"#, "--device cuda"),
    ] {
        let said = refused(&bench(shapes, ""));
        assert!(said.contains(part), "{shapes}: {said}");
    }
    for option in ["--net lstm", "--units 5", "--symbols 5 --embedding 2", "--case train-n100"] {
        let said = refused(&bench(&format!("[{small}]"), option));
        assert!(said.contains("cannot be used with"), "{option}: {said}");
    }
    assert!(refused(&bench(&format!("[{small}]"), "--wait")).contains("--device cuda"));
    assert!(refused("bench --shapes nowhere.json").contains("--shapes nowhere.json"));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    let output = command.args(["inspect", "--net", "lstm"]).stdout(writer).output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_network_with_random_weights_is_the_librarys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let net = "--net dgru --units 4,3 --blocks lower --delay 1 --inputs 2 --seed 5";
    let output = drnn(&format!("init {net} -o {}", path.display()));
    assert!(output.status.success(), "{output:?}");
    let blocks = drnn::Blocks::new([4, 3]).connections(drnn::Connections::Lower);
    let spec = drnn::NetSpec::builder(drnn::Cell::Gru).dense(2).blocks(blocks);
    let expected =
        drnn::Model::init(&spec.delay(1, drnn::Padding::Null).build().unwrap(), 5).unwrap();
    let found = drnn::Model::load(&path).unwrap();
    assert_eq!((found.spec(), found.params()), (expected.spec(), expected.params()));
    assert_eq!(stdout(&output), format!("{expected}\n"));
    let said = refused("init --net lstm --units 4,3 --blocks all -o x");
    assert!(said.contains("only a delayed network"), "{said}");
}

#[test]
fn the_reset_gate_of_a_gru_may_stand_before_the_product() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors").display().to_string();
    let output = drnn(&format!("init --net dgru --reset before --units 4 --delay 1 -o {path}"));
    assert!(output.status.success(), "{output:?}");
    let found = drnn::Model::load(&path).unwrap();
    assert_eq!(found.spec().cell(), drnn::Cell::GruResetBefore);
    let shown = stdout(&drnn(&format!("inspect {path}")));
    assert!(shown.contains("dgru(4 units, reset before, delay 1)"), "{shown}");
    let after = drnn("inspect --net gru --reset after --units 4");
    assert!(stdout(&after).contains("gru(4 units):"), "{after:?}");
    let said = refused("init --net lstm --reset before -o x");
    assert!(said.contains("--reset: only a GRU"), "{said}");
}

#[test]
fn an_lstm_may_have_a_projection() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let net = "--net dlstm --units 6,5 --projection 3 --delay 1 --inputs 2";
    assert!(drnn(&format!("init {net} -o {}", at("net.safetensors"))).status.success());
    let shown = stdout(&drnn(&format!("inspect {}", at("net.safetensors"))));
    assert!(shown.contains("dlstm(6 + 5 units, projected to 3, delay 1)"), "{shown}");
    let model = drnn::Model::load(at("net.safetensors")).unwrap();
    assert_eq!(model.tensor("weight_hr_l1").map(<[f32]>::len), Some(15));
    let said = refused("init --net gru --projection 3 -o x");
    assert!(said.contains("only an LSTM has one"), "{said}");
    let said = refused("init --net lstm --units 3 --projection 3 -o x");
    assert!(said.contains("fewer than the units"), "{said}");
}

#[test]
fn the_program_is_called_drnn() {
    assert_eq!(stdout(&drnn("-V")), format!("drnn {}\n", env!("CARGO_PKG_VERSION")));
    // With the commit that the program was built from, where that is known.
    let long = stdout(&drnn("--version"));
    assert!(long.starts_with(concat!("drnn ", env!("CARGO_PKG_VERSION"))), "{long}");
    assert!(stdout(&drnn("--help")).contains("Usage: drnn "));
}

/// All commands, as `drnn --help` lists them.
fn commands() -> Vec<String> {
    let help = stdout(&drnn("--help"));
    let list = help.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(String::from).collect()
}

#[test]
fn completions_for_every_shell_name_every_command() {
    let commands = commands();
    assert!(commands.len() >= 18 && commands.contains(&"completions".into()), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&drnn(&format!("completions {shell}")));
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("--quiet") || script.contains("-l quiet"), "{shell}");
    }
    assert!(refused("completions tcsh").contains("possible values: bash"));
}

#[test]
fn manual_pages_of_every_command() {
    let page = stdout(&drnn("man"));
    assert!(page.contains(".TH drnn 1") && page.contains("drnn\\-train(1)"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/man1");
    assert!(drnn(&format!("man --out {}", folder.display())).status.success());
    for command in commands() {
        let page = std::fs::read_to_string(folder.join(format!("drnn-{command}.1"))).unwrap();
        assert!(page.contains(&format!("drnn\\-{command}")), "{command}: {page}");
    }
    assert!(folder.join("drnn-train-series.1").exists());
}

#[test]
fn quiet_leaves_results_and_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let arguments = format!("init --net gru --units 3 -o {}", path.display());
    let loud = drnn(&arguments);
    assert!(String::from_utf8_lossy(&loud.stderr).contains("wrote "), "{loud:?}");
    for arguments in [format!("{arguments} -q"), format!("--quiet {arguments}")] {
        let quiet = drnn(&arguments);
        assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
        assert_eq!(quiet.stdout, loud.stdout);
    }
    assert!(refused("inspect nowhere.safetensors --quiet").contains("cannot be read"));
    let out = folder.path().join("out");
    let train = "reproduce reversal --delays 3 --epochs 1 --sequences 100 --rate 3e38 --quiet";
    let output = drnn(&format!("{train} --out {}", out.display()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().all(|l| l.starts_with("warning: ") || l.starts_with("check failed: ")));
    let results = std::fs::read_to_string(out.join("reversal.json")).unwrap();
    assert!(!results.contains("--quiet"), "the command without --quiet makes the same results");
}
