//! C and C++ programs, compiled as users compile them, linked to the installed library both ways, and
//! run under the address and undefined-behaviour sanitizers. Their numbers are Rust's, to the bit.
#![cfg(unix)]

mod common;

use common::repository;
use drnn::{Batch, BatchFirst, Cell, Model, NetSpec, Padding, Rows, Steps, Stream};
use drnn_tasks::live::{LiveModel, LiveStream, Predicted, Prediction};
use drnn_testing::{Need, skip};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"];
const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Language, its standard, and the compiler for it.
const C: (&str, &str, &str) = ("CC", "-std=c99", "cc");
const CPP: (&str, &str, &str) = ("CXX", "-std=c++17", "c++");

fn compiler((variable, standard, name): (&str, &str, &str)) -> Command {
    let mut command = Command::new(std::env::var_os(variable).unwrap_or(name.into()));
    command.arg(standard).args(WARNINGS);
    command
}

/// The options for sanitizers that work here; an error if there are no compilers.
static OPTIONS: LazyLock<Result<&[&str], String>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let works = |options: &[&str]| {
        let program = folder.path().join("empty");
        [C, CPP].into_iter().all(|language| {
            let mut command = compiler(language);
            command.args(options).args(["-x", if language == C { "c" } else { "c++" }]);
            command.arg(&source).arg("-o").arg(&program);
            let compiled = command.output().is_ok_and(|output| output.status.success());
            compiled && Command::new(&program).status().is_ok_and(|status| status.success())
        })
    };
    match (works(&SANITIZERS), works(&[])) {
        (true, _) => Ok(&SANITIZERS),
        (_, true) => Ok(&[]),
        _ => Err("there are no compilers for C and C++".into()),
    }
});

/// The library, installed to a folder of its own.
struct Installed(tempfile::TempDir);

impl Installed {
    /// None if there are no compilers, which is reported.
    fn new() -> Option<Installed> {
        match &*OPTIONS {
            Err(missing) => {
                skip(Need::Cc, missing);
                return None;
            }
            Ok([]) => skip(Need::Cc, "the compilers have no sanitizers"),
            Ok(_) => {}
        }
        let folder = tempfile::tempdir().unwrap();
        // Cargo has built them next to this test.
        let built = std::env::current_exe().unwrap();
        let output = Command::new(repository("crates/drnn-c/install.sh"))
            .args([folder.path(), built.parent().unwrap()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Installed(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Options for programs that use the library.
    fn flags(&self, shared: bool) -> Vec<String> {
        let lib = self.path("lib");
        let options = match shared {
            true => &["--cflags", "--libs"][..],
            false => &["--cflags", "--libs", "--static"],
        };
        let found = Command::new("pkg-config")
            .args(options)
            .arg("drnn")
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
            .output();
        let flags = match found {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            }
            Err(error) => {
                skip(Need::PkgConfig, format!("pkg-config: {error}"));
                let (include, lib) = (self.path("include"), lib.display());
                format!("-I{} -L{lib} -ldrnn -lpthread -lm -ldl", include.display())
            }
        };
        // Where there are both libraries, linkers take the shared one.
        let name = |flag: &str| match (shared, flag) {
            (false, "-ldrnn") => self.path("lib/libdrnn.a").display().to_string(),
            _ => flag.to_string(),
        };
        flags.split_whitespace().map(name).collect()
    }

    /// Compiles a program, linked to the shared or to the static library.
    fn compile(&self, language: (&str, &str, &str), source: &Path, shared: bool) -> PathBuf {
        let name = source.file_stem().unwrap().to_string_lossy();
        let program = self.path(&format!("{name}-{shared}"));
        let mut command = compiler(language);
        command.args(OPTIONS.as_ref().unwrap().iter()).arg(source).arg("-o").arg(&program);
        let output = command.args(self.flags(shared)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    fn example(&self, language: (&str, &str, &str), name: &str, shared: bool) -> PathBuf {
        let source = repository("crates/drnn-c/examples").join(name);
        self.compile(language, &source, shared)
    }

    fn run<A: AsRef<OsStr>>(&self, program: &Path, args: &[A], input: &str) -> Output {
        let mut child = Command::new(program)
            .args(args)
            .current_dir(self.0.path())
            .env("LD_LIBRARY_PATH", self.path("lib"))
            .env("DYLD_LIBRARY_PATH", self.path("lib"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that fails does not read it all.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    /// The lines that a program prints.
    fn lines<A: AsRef<OsStr>>(&self, program: &Path, args: &[A], input: &str) -> Vec<String> {
        let output = self.run(program, args, input);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", program.display());
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(Into::into).collect()
    }

    fn save(&self, model: &Model, name: &str) -> String {
        let path = self.path(name);
        model.save(&path).unwrap();
        path.to_str().unwrap().into()
    }
}

fn network(q: usize, m: usize) -> Model {
    let spec = NetSpec::builder(Cell::Lstm).dense(q).units([12]).outputs(m);
    Model::init(&spec.delay(3, Padding::Null).build().unwrap(), 5).unwrap()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 0.37).sin()).collect()
}

/// Nine digits say which float it is.
fn text(numbers: &[f32]) -> String {
    numbers.iter().map(|x| format!("{x} ")).collect()
}

fn floats(lines: &[String]) -> Vec<f32> {
    lines.iter().flat_map(|line| line.split(' ')).map(|word| word.parse().unwrap()).collect()
}

#[test]
fn the_example_in_c_streams_and_goes_on_from_a_snapshot() {
    let Some(installed) = Installed::new() else { return };
    let (model, x) = (network(2, 3), numbers(2 * 20));
    let path = installed.save(&model, "m.safetensors");
    let expected = model.run(&Batch::dense(&x, Steps(20), Rows(1)), None).unwrap().values;
    for shared in [true, false] {
        let program = installed.example(C, "stream.c", shared);
        let whole = installed.lines(&program, &[&path], &text(&x));
        assert_eq!(floats(&whole), expected);

        // In two pieces: the second process has the state of the first.
        let state = installed.path(&format!("state-{shared}")).to_str().unwrap().to_string();
        let first = installed.lines(&program, &[&path, &state], &text(&x[..16]));
        let second = installed.lines(&program, &[&path, &state], &text(&x[16..]));
        let known = 17 * 3; // of 20, with a delay of 3
        assert_eq!(floats(&[first, second].concat()), expected[..known]);
        let mut rust = Stream::new(&model).unwrap();
        for x in x.chunks(2) {
            rust.push(x).unwrap();
        }
        assert_eq!(std::fs::read(&state).unwrap(), rust.snapshot());

        std::fs::write(&state, "no snapshot").unwrap();
        let output = installed.run(&program, &[&path, &state], "");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("not a snapshot of a stream"), "{said}");
    }
}

#[test]
fn the_example_in_cpp_runs_whole_sequences() {
    let Some(installed) = Installed::new() else { return };
    let (model, x) = (network(2, 3), numbers(2 * 5 * 4));
    let path = installed.save(&model, "m.safetensors");
    let batch = BatchFirst::dense(&x, Rows(4), Steps(5)).unwrap();
    let expected = model.run(&batch.batch(), None).unwrap().to_batch_first();
    for shared in [true, false] {
        let program = installed.example(CPP, "run.cpp", shared);
        let lines = installed.lines(&program, &[&path, "5", "4"], &text(&x));
        assert_eq!((lines.len(), floats(&lines)), (20, expected.clone()));
        let output = installed.run(&program, &[&path, "6", "4"], &text(&x));
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("`x` has 40 values, expected shape"), "{said}");
    }
}

fn line(element: &str, prediction: &Prediction) -> String {
    match &prediction.value {
        Predicted::Tag { tag, probability, .. } => format!("{element}\t{tag}\t{probability}"),
        Predicted::Character { character, alternatives, .. } => {
            let probability = alternatives.first().map_or(1.0, |best| best.probability);
            format!("{element}\t{character}\t{probability}")
        }
        other => panic!("{other:?}"),
    }
}

/// Text with numbers that say which f64 they are, however they are written.
fn fields(line: &str) -> (Vec<String>, f64) {
    let mut fields: Vec<String> = line.split('\t').map(Into::into).collect();
    let probability = fields.pop().unwrap().parse().unwrap();
    (fields, probability)
}

#[test]
fn the_example_with_tasks_tags_words_and_fills_masks() {
    let Some(installed) = Installed::new() else { return };
    let words: &[&str] = &["The", "ants", "run", "."];
    let masked: &[&str] = &["t", "_", "e", " ", "a", "_", "t", "s"];
    for (name, elements) in [("tagger-en", words), ("chars-en", masked)] {
        let path = repository("crates/drnn-cli/models").join(format!("{name}.safetensors"));
        let model = LiveModel::load(&path).unwrap();
        let mut stream = LiveStream::new(&model).unwrap();
        let mut expected = Vec::new();
        for element in elements {
            expected.extend(stream.push(&model.line(element).unwrap()).unwrap());
        }
        expected.extend(stream.flush().unwrap());
        let expected: Vec<_> =
            elements.iter().zip(&expected).map(|(e, p)| fields(&line(e, p))).collect();
        for shared in [true, false] {
            let program = installed.example(C, "tag.c", shared);
            let mut args = vec![path.to_str().unwrap()];
            args.extend(elements);
            let lines = installed.lines(&program, &args, "");
            let found: Vec<_> = lines.iter().map(|line| fields(line)).collect();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn the_readme_opens_with_a_program_that_works() {
    let Some(installed) = Installed::new() else { return };
    let readme = std::fs::read_to_string(repository("crates/drnn-c/README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let source = installed.path("readme.c");
    std::fs::write(&source, program).unwrap();
    let (model, x) = (network(1, 1), numbers(9));
    installed.save(&model, "model.safetensors");
    let program = installed.compile(C, &source, true);
    let lines = installed.lines::<&str>(&program, &[], &text(&x));
    let mut stream = Stream::new(&model).unwrap();
    let known = x.iter().filter_map(|x| Some(stream.push(&[*x]).unwrap()?[0]));
    let found = floats(&lines);
    assert_eq!(found.len(), 6);
    for (found, expected) in found.into_iter().zip(known) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}"); // six digits
    }
    let output = Command::new(&program)
        .current_dir(installed.0.path())
        .env("LD_LIBRARY_PATH", installed.path("lib"))
        .env("DRNN_THREADS", "many")
        .stdin(Stdio::null())
        .output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains("environment variable DRNN_THREADS is `many`"), "{said}");
    std::fs::remove_file(installed.path("model.safetensors")).unwrap();
    let output = installed.run::<&str>(&program, &[], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("model.safetensors"));
}
