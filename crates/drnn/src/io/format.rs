//! What a file is, by its first bytes, whatever it is called.
//!
//! | | |
//! |---|---|
//! | [`Format`] | what drnn reads models from |
//! | everything else that people call a model | refused by its name, with the way to a file that drnn reads |

use crate::error::{Error, Result};
use crate::io::file::refuse;
use crate::prelude::*;
use core::fmt;

/// What drnn reads models from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Tensors by name after a JSON header; drnn's own files are such.
    Safetensors,
    /// A zip archive by `torch.save`, since PyTorch 1.6.
    Torch,
    /// Pickles one after another by `torch.save`, before PyTorch 1.6.
    OldTorch,
    /// A program with its tensors, by `torch.jit.save`.
    TorchScript,
    /// A zip archive of arrays, by `numpy.savez`.
    Npz,
    /// A graph of operators, by any framework's exporter.
    Onnx,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Format::Safetensors => "a safetensors file",
            Format::Torch => "a .pt file of PyTorch",
            Format::OldTorch => "a .pt file of PyTorch before 1.6",
            Format::TorchScript => "a TorchScript program",
            Format::Npz => "a .npz archive of NumPy arrays",
            Format::Onnx => "an ONNX model",
        })
    }
}

/// What the first bytes show: of a zip archive not yet what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    Safetensors,
    Zip,
    OldTorch,
    Onnx,
}

/// Bytes that are enough to recognise each of these.
#[cfg(feature = "std")]
pub(crate) const START: usize = 512;

/// How a file of PyTorch before 1.6 begins: a pickle of this number.
pub(crate) const OLD_TORCH: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// What a file is that begins with `start`, its first [`START`] bytes or more; all of it if it is
/// shorter.
pub(crate) fn sniff(start: &[u8]) -> Result<Container> {
    if start.starts_with(b"PK\x03\x04") {
        return Ok(Container::Zip);
    }
    if start.starts_with(OLD_TORCH) {
        return Ok(Container::OldTorch);
    }
    // A header's length, of no more than 48 bits, then the header, which is JSON.
    if start.get(6..9) == Some(b"\0\0{") {
        return Ok(Container::Safetensors);
    }
    if is_onnx(start) {
        return Ok(Container::Onnx);
    }
    match (foreign(start), start.len()) {
        (Some(what), _) => Err(refuse(format!("is {what}"))),
        (None, 0) => Err(refuse("is not a whole safetensors file: it is empty")),
        (None, 1..9) => Ok(Container::Safetensors), // too short, as its reader will say
        (None, _) if start.get(8) == Some(&b'{') => Ok(Container::Safetensors),
        (None, _) => Err(unknown()),
    }
}

fn unknown() -> Error {
    refuse("is not a whole safetensors file, nor a .pt, .npz or .onnx file")
}

/// `ModelProto`: field 1, the version of the format, then one of the fields that may follow. A
/// TensorFlow SavedModel begins like version 1, which no exporter has written since 2017.
fn is_onnx(start: &[u8]) -> bool {
    const FIELDS: [u8; 8] = [0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72];
    matches!(*start, [8, version @ 2..=32, field, ..] if version > 2 && FIELDS.contains(&field))
}

const TF2ONNX: &str = "convert it to ONNX with `python -m tf2onnx.convert";

/// What a file is that drnn does not read, and what to do with it.
fn foreign(start: &[u8]) -> Option<String> {
    let begins = |magic: &[u8]| start.starts_with(magic);
    let holds = |at: usize, magic: &[u8]| start.get(at..at + magic.len()) == Some(magic);
    let unpack = |what: &str| format!("compressed ({what}); unpack it first");
    Some(match start {
        _ if begins(b"\x89HDF\r\n\x1a\n") => {
            format!("an HDF5 file (.h5, of Keras); {TF2ONNX} --keras MODEL.h5 --output MODEL.onnx`")
        }
        _ if holds(4, b"TFL3") => {
            format!("a TensorFlow Lite model; {TF2ONNX} --tflite MODEL.tflite --output MODEL.onnx`")
        }
        _ if holds(4, b"ORTM") => "an ONNX Runtime model (.ort); give the .onnx file it is made \
                                   from"
            .into(),
        _ if begins(b"GGUF") => "a GGUF file (of llama.cpp), which has no recurrent network that \
                                 drnn knows"
            .into(),
        _ if begins(b"\x93NUMPY") => "one NumPy array (.npy), not a model; save all tensors by \
                                      name with `numpy.savez(PATH, **tensors)`"
            .into(),
        _ if begins(b"\x1f\x8b") => unpack("gzip"),
        _ if begins(b"\x28\xb5\x2f\xfd") => unpack("zstd"),
        _ if begins(b"\xfd7zXZ\0") => unpack("xz"),
        _ if begins(b"BZh") => unpack("bzip2"),
        _ if begins(b"7z\xbc\xaf\x27\x1c") => unpack("7-Zip"),
        _ if holds(257, b"ustar") => tar(start),
        [0x80, 2..=5, ..] => "a Python pickle (of pickle.dump or joblib), not a file of \
                              torch.save; load it in Python and save its tensors with \
                              `numpy.savez(PATH, **tensors)`"
            .into(),
        _ if begins(b"MATLAB 5.0") => {
            "a MATLAB file; save its matrices with `numpy.savez(PATH, **tensors)`".into()
        }
        [0x08, 0x01, 0x12, ..] => format!(
            "a TensorFlow SavedModel (.pb); {TF2ONNX} --saved-model FOLDER --output MODEL.onnx`"
        ),
        _ if is_graph_def(start) => format!(
            "a TensorFlow graph (.pb); {TF2ONNX} --graphdef MODEL.pb --output MODEL.onnx \
             --inputs .. --outputs ..`"
        ),
        _ if begins(b"version https://git-lfs") => "a Git LFS pointer, not the file itself; fetch \
                                                    it with `git lfs pull`"
            .into(),
        _ if is_markup(start) => "a web page or XML, not a model; was it downloaded from a page \
                                  that shows the file?"
            .into(),
        [b'{' | b'[', ..] => "JSON text; drnn reads weights, from .safetensors, .pt, .npz or \
                              .onnx"
            .into(),
        _ => return None,
    })
}

/// A tar archive; PyTorch's first releases wrote such.
fn tar(start: &[u8]) -> String {
    let name = start.split(|&byte| byte == 0).next().unwrap_or(&[]);
    match name {
        b"sys_info" | b"pickle" | b"storages" | b"tensors" => {
            "a file of PyTorch before 0.2 (a tar archive); load it there and `torch.save` it again"
                .into()
        }
        _ => "a tar archive; unpack it first".into(),
    }
}

/// `GraphDef`: nodes, each of which begins with its name.
fn is_graph_def(start: &[u8]) -> bool {
    let Some((&0x0A, rest)) = start.split_first() else { return false };
    let len = rest.iter().take_while(|&&byte| byte >= 0x80).count() + 1;
    len <= 4
        && rest.get(len) == Some(&0x0A)
        && rest.get(len + 2).is_some_and(u8::is_ascii_alphanumeric)
}

fn is_markup(start: &[u8]) -> bool {
    let text = start.trim_ascii_start();
    let is = |word: &[u8]| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    is(b"<!doctype") || is(b"<html") || is(b"<?xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(start: &[u8]) -> String {
        sniff(start).unwrap_err().to_string()
    }

    #[test]
    fn files_are_called_what_they_are() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        tar[..5].copy_from_slice(b"a.pth");
        let mut torch_tar = tar.clone();
        torch_tar[..9].copy_from_slice(b"sys_info\0");
        for (start, expected) in [
            (b"\x89HDF\r\n\x1a\n\0\0\0\0".as_slice(), "an HDF5 file (.h5, of Keras); convert"),
            (b"\x1c\0\0\0TFL3\x14\0\0\0", "tf2onnx.convert --tflite"),
            (b"\x1c\0\0\0ORTM\x14\0\0\0", "ONNX Runtime model"),
            (b"GGUF\x03\0\0\0\0\0", "a GGUF file"),
            (b"\x93NUMPY\x01\0\x76\0", "one NumPy array (.npy)"),
            (b"\x1f\x8b\x08\0\0\0\0\0\0\0", "compressed (gzip); unpack"),
            (b"BZh91AY&SY\0", "compressed (bzip2)"),
            (b"\x80\x04\x95\x10\0\0\0\0\0\0\0", "a Python pickle (of pickle.dump or joblib)"),
            (b"\x08\x01\x12\x80\x80\x01\x0a\x00\x00", "--saved-model FOLDER"),
            (b"\x0a\x20\x0a\x01x\x12\x0bPlaceholder", "a TensorFlow graph (.pb)"),
            (b"version https://git-lfs.github.com/spec/v1", "`git lfs pull`"),
            (b"\n<!DOCTYPE html><html>", "a web page"),
            (b"{\"format\": 3}", "JSON text"),
            (&tar, "a tar archive; unpack"),
            (&torch_tar, "PyTorch before 0.2"),
            (b"anything else", "is not a whole safetensors file, nor a .pt"),
            (b"", "it is empty"),
        ] {
            let found = refused(start);
            assert!(found.contains(expected), "{}: {found}", start.escape_ascii());
        }
        assert_eq!(sniff(b"\x08\x07\x12\x07pytorch"), Ok(Container::Onnx));
        assert_eq!(sniff(b"\x50\0\0\0\0\0\0\0{\"a\""), Ok(Container::Safetensors));
        assert_eq!(sniff(b"PK\x03\x04"), Ok(Container::Zip));
    }
}
