//! What `build.rs` knows of the commit: in a clone, in a published package, in neither.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The build script, compiled, and a folder to run it in.
struct BuildScript {
    folder: TempDir,
    program: PathBuf,
}

impl BuildScript {
    fn new() -> BuildScript {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("build-script");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", source, "-o"]).arg(&program);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        BuildScript { folder, program }
    }

    /// Where the package lies in a clone.
    fn package(&self) -> PathBuf {
        self.folder.path().join("clone/crates/drnn-cli")
    }

    /// Variables that it sets, and paths that it watches.
    fn run(&self, package: &Path, given: Option<&str>) -> (Vec<String>, Vec<String>) {
        let mut command = Command::new(&self.program);
        command.current_dir(package).env("CARGO_MANIFEST_DIR", package).env_remove("DRNN_COMMIT");
        if let Some(given) = given {
            command.env("DRNN_COMMIT", given);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = |prefix: &str| {
            text.lines().filter_map(|line| line.strip_prefix(prefix)).map(Into::into).collect()
        };
        (lines("cargo:rustc-env="), lines("cargo:rerun-if-changed="))
    }
}

fn git(folder: &Path, arguments: &str) -> String {
    let identity = ["-c", "user.name=drnn", "-c", "user.email=drnn@example.org"];
    let mut command = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    let command = command.current_dir(folder).args(identity).args(arguments.split_whitespace());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

#[test]
fn a_clone_knows_its_commit_and_whether_it_was_modified() {
    let script = BuildScript::new();
    let (package, root) = (script.package(), script.folder.path().join("clone"));
    std::fs::create_dir_all(package.join("src")).unwrap();
    std::fs::write(package.join("src/main.rs"), "fn main() {}\n").unwrap();
    std::fs::write(root.join("README.md"), "a clone\n").unwrap();
    for arguments in ["init --quiet .", "add .", "commit --quiet -m first"] {
        git(&root, arguments);
    }
    let first = format!("DRNN_COMMIT={}", git(&root, "rev-parse HEAD"));
    let (variables, watched) = script.run(&package, None);
    assert_eq!(variables, [first.as_str(), "DRNN_MODIFIED=false"]);
    // A path that does not exist would run the script at every build.
    assert!(watched.iter().all(|path| package.join(path).exists() || path == "build.rs"));
    assert!(watched.iter().any(|path| path.ends_with("HEAD")), "{watched:?}");

    std::fs::write(root.join("README.md"), "not what the program is built from\n").unwrap();
    assert_eq!(script.run(&package, None).0[1], "DRNN_MODIFIED=false");
    std::fs::write(package.join("src/main.rs"), "fn main() { loop {} }\n").unwrap();
    assert_eq!(script.run(&package, None).0, [first.as_str(), "DRNN_MODIFIED=true"]);
    git(&root, "commit --quiet -a -m second");
    let (variables, _) = script.run(&package, None);
    assert_ne!(variables[0], first);
    assert_eq!(variables[1], "DRNN_MODIFIED=false");

    assert_eq!(script.run(&package, Some(" abc ")).0, ["DRNN_COMMIT=abc"]);
    assert_eq!(script.run(&package, Some("")).0, variables);
}

#[test]
fn a_published_package_knows_what_cargo_wrote() {
    let script = BuildScript::new();
    let package = script.folder.path().join("drnn-cli-0.1.0");
    std::fs::create_dir_all(&package).unwrap();
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let write = |dirty: &str| {
        let text = format!(
            "{{\n  \"git\": {{\n    \"sha1\": \"{hash}\"{dirty}\n  }},\n  \"path_in_vcs\": \"crates/drnn-cli\"\n}}"
        );
        std::fs::write(package.join(".cargo_vcs_info.json"), text).unwrap();
    };
    let commit = format!("DRNN_COMMIT={hash}");
    write("");
    assert_eq!(script.run(&package, None).0, [commit.as_str(), "DRNN_MODIFIED=false"]);
    write(",\n    \"dirty\": true");
    assert_eq!(script.run(&package, None).0, [commit.as_str(), "DRNN_MODIFIED=true"]);
    std::fs::write(package.join(".cargo_vcs_info.json"), "{}").unwrap();
    assert!(script.run(&package, None).0.is_empty());
}

#[test]
fn without_git_nothing_is_claimed() {
    let script = BuildScript::new();
    let package = script.package();
    std::fs::create_dir_all(&package).unwrap();
    assert!(script.run(&package, None).0.is_empty());
    // Nor in the repository of another project, which contains an extracted tarball.
    git(script.folder.path(), "init --quiet .");
    std::fs::write(package.join("file"), "").unwrap();
    for arguments in ["add .", "commit --quiet -m other"] {
        git(script.folder.path(), arguments);
    }
    assert!(script.run(&package, None).0.is_empty());
}
