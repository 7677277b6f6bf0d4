//! Files, packed or not.
//!
//! | first bytes | taken for |
//! |---|---|
//! | `1f 8b` | gzip, also several one behind the other |
//! | `28 b5 2f fd`, `5? 2a 4d 18` | zstd, likewise |
//! | `PK 03 04`, `PK 05 06` | zip: the one file in it, or the one named like the archive |
//! | anything else | plain |
//!
//! Names do not matter. A byte order mark is skipped. Packed data that end too early, or whose checksum is wrong, are an error.

use super::{escape, refuse, zip, zstd};
use crate::error::{Error, Result};
use rawzip::FileReader;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// How much is read at a time.
pub(super) const BUFFER: usize = 1 << 16;

pub(super) type Stream = Box<dyn BufRead + Send>;

/// An open file with its name for error messages.
pub struct Source {
    name: String,
    packing: &'static str,
    head: Vec<u8>,
    stream: Stream,
}

/// Opens a file.
pub fn open(path: &Path) -> Result<Source> {
    let name = escape(path.display().to_string().chars());
    let fail = |e: io::Error| refuse(&name, None, format!("cannot be read: {e}"));
    let file = File::open(path).map_err(fail)?;
    let len = file.metadata().map_err(fail)?.len();
    let again = file.try_clone().map_err(fail)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let plain = BufReader::with_capacity(BUFFER, file);
    Source::unpack(&name, plain, || zip::unzip(FileReader::from(again), len, &stem))
}

impl Source {
    /// Reads from a stream, packed or not. A zip archive has its directory at the end and is refused here.
    pub fn new(name: &str, stream: impl BufRead + Send + 'static) -> Result<Source> {
        Source::unpack(name, stream, || {
            Err("is a zip archive, which cannot be read from a stream; unpack it first".into())
        })
    }

    /// Reads from memory, packed or not.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Source> {
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        let len = bytes.len() as u64;
        let bytes: std::sync::Arc<[u8]> = bytes.into();
        let plain = Cursor::new(bytes.clone());
        Source::unpack(name, plain, || zip::unzip(Cursor::new(bytes), len, &stem))
    }

    fn unpack<R: BufRead + Send + 'static>(
        name: &str,
        stream: R,
        unzip: impl FnOnce() -> std::result::Result<Stream, String>,
    ) -> Result<Source> {
        let fail = |packing: &str, e: io::Error| broken(name, explained(packing, e));
        let (head, stream) = look(stream).map_err(|e| fail("", e))?;
        let (packing, mut stream): (&str, Stream) = match head[..] {
            [0x1f, 0x8b, ..] => ("gzip", buffered(flate2::bufread::MultiGzDecoder::new(stream))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                ("zstd", buffered(zstd::Frames::new(stream)))
            }
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
                ("zip", unzip().map_err(|reason| refuse(name, None, reason))?)
            }
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] | [0xfd, b'7', b'z', b'X', b'Z', 0] => {
                let reason = "is packed by bzip2 or xz, which are not read here; unpack it, or pack it by gzip or zstd";
                return Err(refuse(name, None, reason));
            }
            _ => ("", stream),
        };
        let head = if packing.is_empty() {
            head
        } else {
            let (head, unpacked) = look(stream).map_err(|e| fail(packing, e))?;
            stream = unpacked;
            head
        };
        let head = match head.strip_prefix(b"\xef\xbb\xbf") {
            None => head,
            Some(rest) => {
                stream.read_exact(&mut [0; 3]).map_err(|e| fail(packing, e))?;
                rest.to_vec()
            }
        };
        Ok(Source { name: name.to_string(), packing, head, stream })
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first bytes of what is read, six where there are so many.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }
}

/// A failure to go on reading.
pub(super) fn broken(name: &str, e: io::Error) -> Error {
    refuse(name, None, format!("cannot be read: {e}"))
}

/// What fails inside packed data is the data.
fn explained(packing: &str, e: io::Error) -> io::Error {
    if packing.is_empty() || e.kind() == io::ErrorKind::Interrupted {
        return e;
    }
    let what =
        format!("its {packing} data are damaged or cut off ({e}); make or fetch the file again");
    io::Error::new(e.kind(), what)
}

/// The first bytes of a stream, and the stream from its beginning.
fn look(mut stream: impl BufRead + Send + 'static) -> io::Result<(Vec<u8>, Stream)> {
    let mut head = Vec::new();
    stream.by_ref().take(6).read_to_end(&mut head)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(stream))))
}

pub(super) fn buffered(stream: impl Read + Send + 'static) -> Stream {
    Box::new(BufReader::with_capacity(BUFFER, stream))
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.read(to).map_err(|e| explained(self.packing, e))
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.stream.fill_buf().map_err(|e| explained(self.packing, e))
    }

    fn consume(&mut self, count: usize) {
        self.stream.consume(count);
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("packing", &self.packing).finish()
    }
}

#[cfg(test)]
mod tests;
