//! `drnn page`: what it writes, and what it says where something is missing. The page itself is tested
//! in a browser, in crates/drnn-serve.

use drnn::{Cell, Model, NetSpec};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs `drnn page` in a folder: what it says, or why it refuses.
fn page(folder: &Path, arguments: &str) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.arg("page").args(arguments.split_whitespace()).current_dir(folder);
    let output = command.env_remove("DRNN_WASM").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => Ok(text),
        Some(2) => Err(text),
        other => panic!("exit code {other:?}: {text}"),
    }
}

#[test]
fn files_of_the_page_its_models_and_the_module() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let error = page(folder.path(), "--out site --wasm package").unwrap_err();
    assert!(error.contains("drnn.wasm") && error.contains("build.sh"), "{error}");
    assert!(!at("site").exists());
    std::fs::create_dir(at("package")).unwrap();
    std::fs::write(at("package/drnn.js"), "js").unwrap();
    std::fs::write(at("package/drnn.wasm"), "module").unwrap();
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).build().unwrap();
    Model::init(&spec, 1).unwrap().save(at("small.safetensors")).unwrap();

    let said =
        page(folder.path(), "--out site --wasm package chars=chars-en small.safetensors").unwrap();
    assert!(said.contains("chars, small") && said.contains("http.server"), "{said}");
    for name in ["index.html", "page/main.js", "page/worker.js", "page/server.js", "drnn/drnn.js"] {
        assert!(at("site").join(name).is_file(), "{name}");
    }
    assert_eq!(std::fs::read(at("site/drnn/drnn.wasm")).unwrap(), b"module");
    let models: Value =
        serde_json::from_slice(&std::fs::read(at("site/models.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        models.as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chars", "small"]);
    assert_eq!(models[0]["delay"], 5);
    let bytes = |name: &str| std::fs::read(at(name)).unwrap();
    assert_eq!(bytes("site/models/small.safetensors"), bytes("small.safetensors"));
    assert!(bytes("site/models/chars.safetensors").len() > 1_000_000);

    for (models, why) in [
        ("absent.safetensors", "absent.safetensors"),
        ("a/b=chars-en", "a/b"),
        ("x=chars-en x=tagger-en", "x"),
        ("package/drnn.js", "drnn.js"),
    ] {
        let error =
            page(folder.path(), &format!("--out other --wasm package {models}")).unwrap_err();
        assert!(error.contains(why), "{error}");
        assert!(!at("other").exists(), "{models}");
    }
}
