//! NumPy array files.

use crate::Failure;
use crate::args::reading::Reading;
pub use drnn_train::read::{Array, Values};
use npyz::WriterBuilder;
use std::io::Write;
use std::path::Path;

/// Reads `path`.
pub fn read(path: &Path, reading: Reading) -> Result<Array, Failure> {
    Ok(drnn_train::read::array(reading.open(path)?)?)
}

/// Writes floats of `shape` to `path`, atomically.
pub fn write(path: &Path, shape: &[usize], values: &[f32]) -> Result<(), Failure> {
    let make = || -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let dims: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let options = npyz::WriteOptions::new().default_dtype().shape(&dims);
        let mut writer = options.writer(&mut bytes).begin_nd()?;
        writer.extend(values.iter().copied())?;
        writer.finish()?;
        drnn::io::write_atomically(path, |file| file.write_all(&bytes))
    };
    make().map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", path.display())))
}
