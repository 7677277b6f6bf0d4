//! The program, run in a folder, and NumPy arrays to feed it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use npyz::WriterBuilder;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program; arguments are parted by spaces.
pub fn drnn(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it says on stdout, where it is to succeed.
pub fn done(folder: &Path, arguments: &str) -> String {
    let output = drnn(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What it says on stderr, where it is to end with exit code 2.
pub fn refused(folder: &Path, arguments: &str) -> String {
    let output = drnn(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    text(&output.stderr)
}

/// Writes an array.
pub fn write<T: npyz::AutoSerialize + Copy>(path: &Path, shape: &[u64], values: &[T]) {
    let options = npyz::WriteOptions::new().default_dtype().shape(shape);
    let mut writer = options.writer(std::fs::File::create(path).unwrap()).begin_nd().unwrap();
    writer.extend(values.iter().copied()).unwrap();
    writer.finish().unwrap();
}

/// Reads an array: shape, values.
pub fn read(path: &Path) -> (Vec<u64>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let file = npyz::NpyFile::new(&bytes[..]).unwrap();
    (file.shape().to_vec(), file.into_vec().unwrap())
}
