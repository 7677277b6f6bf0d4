//! CUDA's libraries, looked for before anything calls into them.
//!
//! cudarc loads a library at the first call into it, by name, and panics where there is none. So each is opened
//! here first: by name as the loader finds it, then in the folders where CUDA is usually installed. What was
//! opened once the loader finds again by its name, from wherever it came, so cudarc then gets the same one.

use crate::error::{Error, Result};
use libloading::Library;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library of CUDA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    what: &'static str,
    names: &'static [&'static str],
    advice: &'static str,
}

const DRIVER: Wanted = Wanted {
    what: "NVIDIA driver",
    names: &["libcuda.so.1", "libcuda.so", "nvcuda.dll"],
    advice: "Install NVIDIA's driver, or train with --device cpu.",
};

const NVRTC: Wanted = Wanted {
    what: "CUDA compiler library",
    names: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    advice: "Install the CUDA toolkit (12 or 13) or its NVRTC and cuBLAS libraries, and name their folder in LD_LIBRARY_PATH \
             or DRNN_CUDA_LIB.",
};

const CUBLAS: Wanted = Wanted {
    what: "CUDA library of products",
    names: &["libcublas.so.13", "libcublas.so.12", "libcublas.so"],
    advice: NVRTC.advice,
};

/// Folders that the loader does not know of by itself.
fn folders() -> Vec<PathBuf> {
    let named = std::env::var_os("DRNN_CUDA_LIB").map(PathBuf::from);
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let homes = homes.map(|home| PathBuf::from(home).join("lib64"));
    named.into_iter().chain(homes).chain([PathBuf::from("/usr/local/cuda/lib64")]).collect()
}

impl Wanted {
    /// Where it was found.
    fn open(&self) -> Result<PathBuf> {
        let plain = self.names.iter().map(PathBuf::from);
        let folders = folders();
        let inside = folders.iter().flat_map(|f| self.names.iter().map(move |name| f.join(name)));
        for path in plain.chain(inside) {
            if open(&path) {
                return Ok(path);
            }
        }
        let looked = self.names.join(", ");
        Err(Error::Missing { what: self.what, looked, advice: self.advice })
    }
}

/// Opens a library that stays for as long as the program runs.
fn open(path: &Path) -> bool {
    // SAFETY: NVIDIA's libraries do nothing at loading that could go wrong for us.
    unsafe { Library::new(path) }.map(std::mem::forget).is_ok()
}

/// NVRTC opens a library of its own by name when it first compiles, and in some versions does not look beside itself.
fn builtins_beside(path: &Path) {
    let Some(files) = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return;
    };
    let is_one = |name: &OsStr| name.to_string_lossy().starts_with("libnvrtc-builtins.so");
    for file in files.flatten().filter(|file| is_one(&file.file_name())) {
        open(&file.path());
    }
}

/// Whether the driver can be called.
pub(crate) fn driver() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| DRIVER.open().map(drop)).clone()
}

/// Whether the compiler can be called.
pub(crate) fn nvrtc() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| NVRTC.open().map(|path| builtins_beside(&path))).clone()
}

/// Whether cuBLAS can be called.
pub(crate) fn cublas() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| CUBLAS.open().map(drop)).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let none = Wanted { names: &["libnothing-of-this-name.so"], ..NVRTC };
        let error = none.open().unwrap_err().to_string();
        assert!(
            error.starts_with("no CUDA compiler library: libnothing-of-this-name.so not found")
        );
        assert!(error.contains("DRNN_CUDA_LIB"), "{error}");
    }
}
