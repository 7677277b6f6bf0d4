//! Compiles CUDA C++ to machine code for the device with NVRTC, and caches it on disk.
//!
//! ```text
//! key = hash(compiler version, architecture, options, source)   ~/.cache/drnn/cuda/NAME-KEY.cubin
//! ```
//!
//! A file begins with a hash of the rest; a file whose hash is wrong is compiled again. Files are
//! written under a temporary name and renamed, so that processes starting at the same time never
//! read an incomplete one.

use crate::error::{Error, Result};
use crate::runtime::library;
use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::sys;
use drnn::io::checksum::fnv1a;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A translation unit of kernels.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub name: &'static str,
    /// Texts that are concatenated: headers, declarations of parameter structs, the file itself.
    pub parts: Vec<Cow<'static, str>>,
    /// Preprocessor definitions, `NAME=value`.
    pub defines: Vec<String>,
}

impl Source {
    fn options(&self, arch: &str) -> Vec<String> {
        let fixed = [format!("--gpu-architecture={arch}"), "--std=c++17".into()];
        fixed
            .into_iter()
            .chain(self.defines.iter().map(|d| format!("--define-macro={d}")))
            .collect()
    }

    /// Machine code for `arch`, from the cache, or compiled and cached.
    pub fn machine_code(&self, arch: &str) -> Result<Vec<u8>> {
        match cache_folder() {
            Some(folder) => self.cached_in(&folder, arch),
            None => self.compile(arch),
        }
    }

    fn cached_in(&self, folder: &Path, arch: &str) -> Result<Vec<u8>> {
        library::nvrtc()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for writes.
        let _ = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
        let text = [self.options(arch).join(" "), self.parts.concat()].join("\n");
        let key = fnv1a(format!("{major}.{minor}\n{text}").as_bytes());
        let path = folder.join(format!("{}-{key:016x}.cubin", self.name));
        if let Some(code) = read(&path) {
            return Ok(code);
        }
        let code = self.compile(arch)?;
        // If the cache cannot be written, the next process compiles again.
        let _ = write(&path, &code);
        Ok(code)
    }

    /// Machine code for `arch`, always compiled. The error has the compiler's log.
    pub fn compile(&self, arch: &str) -> Result<Vec<u8>> {
        library::nvrtc()?;
        let error = |log: String| Error::Compile { name: self.name.into(), log };
        let text = CString::new(self.parts.concat()).map_err(|e| error(e.to_string()))?;
        let name = CString::new(format!("{}.cu", self.name)).map_err(|e| error(e.to_string()))?;
        let failed = |e: nvrtc::NvrtcError| error(format!("{:?}", e.0));
        let program = Program(nvrtc::create_program(&text, Some(&name)).map_err(failed)?);
        // SAFETY: the program was just created, and is destroyed when this function returns.
        unsafe {
            if let Err(why) = nvrtc::compile_program(program.0, &self.options(arch)) {
                let log = nvrtc::get_program_log(program.0).map_err(failed)?;
                let log = CStr::from_ptr(log.as_ptr()).to_string_lossy().into_owned();
                return Err(error(if log.is_empty() { format!("{:?}", why.0) } else { log }));
            }
            let mut size = 0;
            sys::nvrtcGetCUBINSize(program.0, &mut size).result().map_err(failed)?;
            let mut code = vec![0u8; size];
            sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast::<c_char>())
                .result()
                .map_err(failed)?;
            Ok(code)
        }
    }
}

struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `create_program`, destroyed once.
        let _ = unsafe { nvrtc::destroy_program(self.0) };
    }
}

fn cache_folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Some(cache.or_else(home)?.join("drnn").join("cuda"))
}

/// The cached machine code, unless the file is missing or damaged.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(path).ok()?;
    let code = bytes.split_off_checked(8)?;
    (bytes == fnv1a(&code).to_le_bytes()).then_some(code)
}

fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&fnv1a(code).to_le_bytes())?;
    file.write_all(code)?;
    file.persist(path)?;
    Ok(())
}

/// `split_off`, or `None` if the vector is shorter than `at`.
trait SplitOff {
    fn split_off_checked(&mut self, at: usize) -> Option<Vec<u8>>;
}

impl SplitOff for Vec<u8> {
    fn split_off_checked(&mut self, at: usize) -> Option<Vec<u8>> {
        (self.len() >= at).then(|| self.split_off(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_returns_what_was_written_unless_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub").join("code");
        assert_eq!(read(&path), None);
        write(&path, b"machine code").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"machine code"[..]));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path), None);
        std::fs::write(&path, b"short").unwrap();
        assert_eq!(read(&path), None);
    }
}
