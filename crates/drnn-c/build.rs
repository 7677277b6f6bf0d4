//! The name by which programs find the shared library at run time: `libdrnn`, under which install.sh
//! installs it, with the version of its ABI.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    // Before version 1, a change of the minor version may change the ABI, as in Rust.
    let abi = if major == "0" { format!("0.{minor}") } else { major.to_string() };
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos" | "ios") => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libdrnn.{abi}.dylib");
        }
        Ok("linux" | "android" | "freebsd" | "netbsd" | "openbsd") => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdrnn.so.{abi}")
        }
        _ => {}
    }
}
