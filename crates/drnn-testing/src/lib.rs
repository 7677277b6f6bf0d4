//! Tests that need something which not every machine has: a GPU, a browser, a compiler.
//!
//! A test that cannot run calls [`skip`] (or [`found`]) and returns. The skip is printed, and
//! appended to the file that the environment variable `DRNN_SKIPPED` names, if it is set.
//! `DRNN_REQUIRE` is a comma-separated list of [needs](Need) that this machine must meet: for these
//! a skip is a failure.
//!
//! ```no_run
//! use drnn_testing::{Need, found};
//! # fn find_device() -> Result<u32, String> { Err("no driver".into()) }
//! # fn a_test() {
//! let Some(device) = found(Need::Gpu, find_device()) else { return };
//! # }
//! ```

use std::collections::HashSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::Mutex;

/// What a test may need. Each has a name for `DRNN_REQUIRE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// `gpu`: an NVIDIA GPU with its driver, NVRTC and cuBLAS.
    Gpu,
    /// `hopper`: a GPU of NVIDIA's Hopper generation.
    Hopper,
    /// `no-gpu`: a machine without a GPU, for tests of what is reported there.
    NoGpu,
    /// `nvrtc`: NVIDIA's compiler library (`DRNN_CUDA_LIB` names its folder).
    Nvrtc,
    /// `chromium`: a browser (`DRNN_CHROMIUM` names it).
    Chromium,
    /// `cxx`: a C++ compiler with `_Float16` (`CXX` names it).
    Cxx,
    /// `cc`: compilers for C and C++ with the address and undefined-behaviour sanitizers (`CC` and
    /// `CXX` name them).
    Cc,
    /// `pkg-config`: the program of that name.
    PkgConfig,
    /// `threads`: permission to start some thousand threads.
    Threads,
    /// `python`: Python 3 (`DRNN_PYTHON` names it).
    Python,
    /// `websockets`: the Python module of that name.
    Websockets,
    /// `data`: the folder with data sets that `DRNN_DATA` names.
    Data,
    /// `wasm`: the npm package, which `crates/drnn-wasm/build.sh` builds (`DRNN_WASM` names its folder).
    Wasm,
    /// `node`: Node.js (`DRNN_NODE` names it).
    Node,
}

impl Need {
    /// Every need.
    pub const ALL: [Need; 14] = [
        Need::Gpu,
        Need::Hopper,
        Need::NoGpu,
        Need::Nvrtc,
        Need::Chromium,
        Need::Cxx,
        Need::Cc,
        Need::PkgConfig,
        Need::Threads,
        Need::Python,
        Need::Websockets,
        Need::Data,
        Need::Wasm,
        Need::Node,
    ];

    /// Its name in `DRNN_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Need::Gpu => "gpu",
            Need::Hopper => "hopper",
            Need::NoGpu => "no-gpu",
            Need::Nvrtc => "nvrtc",
            Need::Chromium => "chromium",
            Need::Cxx => "cxx",
            Need::Cc => "cc",
            Need::PkgConfig => "pkg-config",
            Need::Threads => "threads",
            Need::Python => "python",
            Need::Websockets => "websockets",
            Need::Data => "data",
            Need::Wasm => "wasm",
            Need::Node => "node",
        }
    }
}

/// Reports that the calling test is skipped, or part of it. The test must then return.
///
/// # Panics
///
/// If `DRNN_REQUIRE` lists `need`, or a name that is none of [`Need`]'s.
pub fn skip(need: Need, reason: impl Display) {
    let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let list = std::env::var("DRNN_REQUIRE").unwrap_or_default();
    let required = required(&list).unwrap_or_else(|error| panic!("{error}"));
    let name = need.name();
    assert!(!required.contains(&need), "DRNN_REQUIRE lists {name}, but {reason}");
    let line = format!("{name}\t{}\t{reason}\n", test_name());
    if first_time(&line) {
        report(&line);
    }
}

/// The folder of the npm package for WebAssembly, or why there is none.
pub fn wasm_package() -> Result<std::path::PathBuf, String> {
    let build = "crates/drnn-wasm/build.sh builds the package, and DRNN_WASM names its folder";
    let folder = std::env::var_os("DRNN_WASM").ok_or_else(|| format!("no DRNN_WASM: {build}"))?;
    let folder = std::path::PathBuf::from(folder);
    match folder.join("drnn.wasm").is_file() {
        true => Ok(folder),
        false => Err(format!("{} has no drnn.wasm: {build}", folder.display())),
    }
}

/// What a test needs, or None once the skip is reported with the error as its reason.
pub fn found<T, E: Display>(need: Need, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|reason| skip(need, reason)).ok()
}

/// The needs that a comma-separated list names.
fn required(list: &str) -> Result<Vec<Need>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let need = |name| {
        Need::ALL.into_iter().find(|need| need.name() == name).ok_or_else(|| {
            let known = Need::ALL.map(Need::name).join(", ");
            format!("DRNN_REQUIRE lists `{name}`, which is none of {known}")
        })
    };
    names.map(need).collect()
}

/// `package binary::test`. libtest runs each test in a thread of its name.
fn test_name() -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "?".into());
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Cargo appends a hash to the name of a test's binary.
    let binary = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    let thread = std::thread::current();
    format!("{package} {binary}::{}", thread.name().unwrap_or("?"))
}

/// False for a line that this process has reported before: a test may skip in a loop.
fn first_time(line: &str) -> bool {
    static REPORTED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let mut reported = REPORTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    reported.get_or_insert_default().insert(line.into())
}

fn report(line: &str) {
    // Not by eprintln: libtest would hide it, because the test passes.
    let _ = write!(std::io::stderr(), "skipped: {line}");
    if let Some(path) = std::env::var_os("DRNN_SKIPPED") {
        // One write in append mode, so that lines of tests that run at once stay whole.
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("DRNN_SKIPPED={}: {error}", path.display()));
    }
}

/// The examples of the repository's README, compiled and run with the other examples. They are here
/// because published packages do not contain that file.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_needs() {
        assert_eq!(required(""), Ok(vec![]));
        assert_eq!(required("gpu, cxx,"), Ok(vec![Need::Gpu, Need::Cxx]));
        let error = required("gpu,browser").unwrap_err();
        assert!(error.contains("`browser`") && error.contains("chromium"), "{error}");
        for need in Need::ALL {
            assert_eq!(required(need.name()), Ok(vec![need]));
        }
    }

    /// So that a misspelt name fails even where no test is skipped.
    #[test]
    fn the_environment_lists_known_needs() {
        required(&std::env::var("DRNN_REQUIRE").unwrap_or_default()).unwrap();
    }

    #[test]
    fn the_name_of_a_test() {
        assert_eq!(test_name(), "drnn-testing drnn_testing::tests::the_name_of_a_test");
    }

    /// [`skip`] in a process of its own, with its environment: whether it succeeded, and the file.
    fn skip_alone(require: &str) -> (bool, String) {
        let program = std::env::current_exe().unwrap();
        let name = format!("drnn-skipped-{}-{}", std::process::id(), require.replace(',', "-"));
        let file = std::env::temp_dir().join(name);
        let output = std::process::Command::new(program)
            .args(["--exact", "tests::skips_twice", "--ignored"])
            .env("DRNN_REQUIRE", require)
            .env("DRNN_SKIPPED", &file)
            .output()
            .unwrap();
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        (output.status.success(), text)
    }

    #[test]
    #[ignore = "a part of the test below"]
    fn skips_twice() {
        assert_eq!(found(Need::Gpu, Err::<(), _>("there is\nnone")), None);
        skip(Need::Gpu, "there is none");
    }

    #[test]
    fn a_skip_is_recorded_once_and_fails_where_it_is_required() {
        let line = "gpu\tdrnn-testing drnn_testing::tests::skips_twice\tthere is none\n";
        assert_eq!(skip_alone(""), (true, line.into()));
        assert_eq!(skip_alone("nvrtc,cxx"), (true, line.into()));
        assert_eq!(skip_alone("nvrtc,gpu"), (false, String::new()));
        assert_eq!(skip_alone("nonsense"), (false, String::new()));
    }
}
