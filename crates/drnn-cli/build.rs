//! Gives the program the commit that it is built from, and whether the sources differ from it, for
//! the provenance of results.
//!
//! ```text
//! DRNN_COMMIT in the environment     that, and whether the sources differ is unknown
//! .cargo_vcs_info.json               a published package: what `cargo package` wrote there
//! git                                a clone: HEAD, and `git diff HEAD` of the program's sources
//! otherwise                          a tarball, or no git: unknown
//! ```
//!
//! Cargo runs this again when HEAD moves or a source of the program changes, which rebuilds the
//! program anyway, and not when other files of the clone change.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where this package lies in a clone; a repository that has it elsewhere is not drnn's.
const PREFIX: &str = "crates/drnn-cli/";

/// What the program is compiled from, relative to the root of the clone.
const SOURCES: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "crates/drnn/src",
    "crates/drnn-cli/build.rs",
    "crates/drnn-cli/src",
    "crates/drnn-cuda/src",
    "crates/drnn-serve/src",
    "crates/drnn-tasks/src",
    "crates/drnn-train/src",
];

fn main() {
    println!("cargo:rerun-if-env-changed=DRNN_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let given = std::env::var("DRNN_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let found = match given {
        Some(commit) => Some((commit.trim().to_string(), None)),
        None => published(&package).or_else(|| cloned(&package)),
    };
    if let Some((commit, modified)) = found {
        println!("cargo:rustc-env=DRNN_COMMIT={}", commit.replace(char::is_whitespace, " "));
        if let Some(modified) = modified {
            println!("cargo:rustc-env=DRNN_MODIFIED={modified}");
        }
    }
}

/// What `cargo package` wrote: `{"git": {"sha1": "..", "dirty": true}, ..}`. Not parsed as JSON, to
/// have no build dependency: its only strings are the hash and a path.
fn published(package: &Path) -> Option<(String, Option<bool>)> {
    let text = std::fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let hash = text.split("\"sha1\"").nth(1)?.split('"').nth(1)?;
    let is_hash = hash.len() >= 40 && hash.chars().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| (hash.to_string(), Some(text.contains("\"dirty\""))))
}

/// HEAD of the clone, and whether the program's sources differ from it.
fn cloned(package: &Path) -> Option<(String, Option<bool>)> {
    if git(package, &["rev-parse", "--show-prefix"])? != PREFIX {
        return None;
    }
    let root = PathBuf::from(git(package, &["rev-parse", "--show-toplevel"])?);
    let commit = git(&root, &["rev-parse", "HEAD"])?;
    // A commit changes one of these. A path that does not exist would run this at every build.
    let mut watched = vec!["HEAD".to_string(), "logs/HEAD".into(), "packed-refs".into()];
    watched.extend(git(&root, &["symbolic-ref", "--quiet", "HEAD"]));
    for name in watched {
        let path = git(&root, &["rev-parse", "--git-path", &name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let sources = SOURCES.iter().filter(|source| root.join(source).exists());
    sources.for_each(|source| println!("cargo:rerun-if-changed={}", root.join(source).display()));
    let mut difference = vec!["diff", "--quiet", "HEAD", "--"];
    difference.extend(SOURCES);
    let modified = match run(&root, &difference)?.status.code() {
        Some(0) => Some(false),
        Some(1) => Some(true),
        _ => None,
    };
    Some((commit, modified))
}

/// The output of a git command that succeeds, without the line end.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = run(folder, arguments)?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_string())
}

/// Runs git in a folder, whatever repository the caller's environment names.
fn run(folder: &Path, arguments: &[&str]) -> Option<std::process::Output> {
    let mut command = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command.arg("--no-optional-locks").args(arguments).current_dir(folder).output().ok()
}
