//! Finds and opens the CUDA libraries before anything calls into them.
//!
//! cudarc loads a library by name at the first call into it, and panics if there is none. Each is
//! therefore opened here first: in the folder DRNN_CUDA_LIB, in those that the program knows
//! ([`add_library_folders`]), by name through the dynamic loader, then where CUDA is usually installed.
//! The loader resolves later requests for the same name to the library that is already open, so cudarc
//! gets the same one, which may be one that the process had open before.

use crate::error::{Error, Result};
use libloading::Library;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// A CUDA library and where to find it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CudaLibrary {
    what: &'static str,
    names: &'static [&'static str],
    advice: &'static str,
}

const DRIVER: CudaLibrary = CudaLibrary {
    what: "NVIDIA driver",
    names: &["libcuda.so.1", "libcuda.so", "nvcuda.dll"],
    advice: "Install NVIDIA's driver, or use --device cpu.",
};

const NVRTC: CudaLibrary = CudaLibrary {
    what: "CUDA compiler library",
    names: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    advice: "Install the CUDA toolkit (12 or 13) or its NVRTC and cuBLAS libraries, and name their \
             folder in LD_LIBRARY_PATH or DRNN_CUDA_LIB.",
};

const CUBLAS: CudaLibrary = CudaLibrary {
    what: "cuBLAS library",
    names: &["libcublas.so.13", "libcublas.so.12", "libcublas.so"],
    advice: NVRTC.advice,
};

/// Folders that are searched before those of the dynamic loader.
static OWN_FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Has the CUDA libraries searched for in these folders first. For programs that know which ones they
/// come with, such as a Python environment with NVIDIA's packages; to be called before the first
/// [`Device`](crate::Device) is searched for, because what was found stays.
pub fn add_library_folders(folders: impl IntoIterator<Item = PathBuf>) {
    let mut own = OWN_FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for folder in folders {
        if !own.contains(&folder) {
            own.push(folder);
        }
    }
}

/// Folders that the dynamic loader does not search by default, in order of preference.
fn usual_folders() -> Vec<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let homes = homes.map(|home| PathBuf::from(home).join("lib64"));
    homes.chain([PathBuf::from("/usr/local/cuda/lib64")]).collect()
}

impl CudaLibrary {
    /// Opens the first library found and returns its path.
    fn open(&self) -> Result<PathBuf> {
        let own = OWN_FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let named = std::env::var_os("DRNN_CUDA_LIB").map(PathBuf::from);
        let first = named.into_iter().chain(own).collect();
        let inside = |folders: Vec<PathBuf>| {
            let join = |folder: PathBuf| self.names.iter().map(move |name| folder.join(name));
            folders.into_iter().flat_map(join)
        };
        let by_name = self.names.iter().map(PathBuf::from);
        for path in inside(first).chain(by_name).chain(inside(usual_folders())) {
            if open(&path) {
                return Ok(path);
            }
        }
        let looked = self.names.join(", ");
        Err(Error::Missing { what: self.what, looked, advice: self.advice })
    }
}

/// Opens a library for the rest of the process's life; whether that succeeded.
fn open(path: &Path) -> bool {
    // SAFETY: the initialisers of NVIDIA's libraries have no preconditions.
    unsafe { Library::new(path) }.map(std::mem::forget).is_ok()
}

/// Opens the `libnvrtc-builtins` in NVRTC's folder. NVRTC opens it by name at its first
/// compilation, and some versions do not search their own folder.
fn open_nvrtc_builtins(path: &Path) {
    let Some(files) = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return;
    };
    let is_one = |name: &OsStr| name.to_string_lossy().starts_with("libnvrtc-builtins.so");
    for file in files.flatten().filter(|file| is_one(&file.file_name())) {
        open(&file.path());
    }
}

/// Opens the driver; cudarc may call it after `Ok`.
pub(crate) fn driver() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| DRIVER.open().map(drop)).clone()
}

/// Opens NVRTC; cudarc may call it after `Ok`.
pub(crate) fn nvrtc() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| NVRTC.open().map(|path| open_nvrtc_builtins(&path))).clone()
}

/// Opens cuBLAS; cudarc may call it after `Ok`.
pub(crate) fn cublas() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| CUBLAS.open().map(drop)).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_program_come_first() {
        let folder = std::env::temp_dir().join(format!("drnn-libraries-{}", std::process::id()));
        let name = "libdrnn-of-the-program.so";
        let ours = CudaLibrary { names: &["libdrnn-of-the-program.so"], ..NVRTC };
        assert!(ours.open().is_err());
        // Any library will do, such as this one that the process has open.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let known = maps.lines().filter_map(|line| line.split_whitespace().last());
        let Some(library) = known.into_iter().find(|path| path.contains("/libgcc_s.so")) else {
            return;
        };
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(library, folder.join(name)).expect("a copy");
        add_library_folders([folder.clone(), folder.clone()]);
        let own = OWN_FOLDERS.lock().expect("a lock").clone();
        assert_eq!(own.iter().filter(|known| **known == folder).count(), 1);
        let found = ours.open();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(found.expect("found"), folder.join(name));
    }

    #[test]
    fn a_missing_library_is_reported_with_advice() {
        let none = CudaLibrary { names: &["libnothing-of-this-name.so"], ..NVRTC };
        let error = none.open().unwrap_err().to_string();
        assert!(
            error.starts_with("no CUDA compiler library: libnothing-of-this-name.so not found")
        );
        assert!(error.contains("DRNN_CUDA_LIB"), "{error}");
    }
}
