//! `include/drnn.h` is what cbindgen makes of the sources.

use cbindgen::{Builder, Config};
use std::path::Path;

/// In the order of the header.
const SOURCES: [&str; 6] = ["status", "model", "run", "stream", "batch", "task"];
/// What the header may have.
const MAX_FUNCTIONS: usize = 30;

fn generate() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let sources = SOURCES.map(|name| folder.join(format!("src/{name}.rs")));
    let builder = sources.iter().fold(Builder::new().with_config(config), Builder::with_src);
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    // What Rust's linter wants to read about functions that C calls.
    String::from_utf8(header).unwrap().replace(" *\n * # Safety\n * See `drnn.h`.\n", "")
}

#[test]
fn the_header_fits_the_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/drnn.h");
    let header = generate();
    if std::env::var_os("DRNN_RENEW_HEADER").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == header,
        "include/drnn.h is not what the sources make: DRNN_RENEW_HEADER=1 cargo test -p drnn-c \
         --test header, and check the difference against the ABI rules in its first comment"
    );
}

#[test]
fn every_exported_function_is_in_the_header_and_they_are_few() {
    let header = generate();
    let mut functions = 0;
    for name in SOURCES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{name}.rs"));
        let source = std::fs::read_to_string(path).unwrap();
        for line in source.lines().filter(|line| line.contains("extern \"C\" fn ")) {
            let name = line.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            assert!(header.contains(&format!("{name}(")), "{name}");
            functions += 1;
        }
    }
    assert!((20..=MAX_FUNCTIONS).contains(&functions), "{functions} functions");
}

#[test]
fn the_header_has_the_version_of_the_crate() {
    let header = generate();
    for (name, value) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        assert!(header.contains(&format!("#define DRNN_VERSION_{name} {value}\n")), "{name}");
    }
}
