//! Files, compressed or plain.
//!
//! | first bytes | taken for |
//! |---|---|
//! | `1f 8b` | gzip, also several members in sequence |
//! | `28 b5 2f fd`, `5? 2a 4d 18` | zstd, likewise |
//! | `PK 03 04`, `PK 05 06` | zip: the one file in it, or the one named like the archive |
//! | anything else | plain |
//!
//! File names do not matter. A byte order mark is skipped. Compressed data that end too early or have a
//! wrong checksum are an error, and so are files beyond the limits (`limits`). The size is checked
//! during decompression, relative to the compressed bytes read so far, so an archive made to fill the
//! memory is stopped after some megabytes.

use super::limits::{MAX_EXPANSION, MAX_INPUT, MIN_EXPANDED, ReadLimits};
use super::{refuse, zip, zstd};
use crate::error::{Error, Result};
use drnn_tasks::text::escape;
use rawzip::FileReader;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is read at a time.
pub(super) const BUFFER: usize = 1 << 16;

pub(super) type Stream = Box<dyn BufRead + Send>;

/// An open file with its name for error messages.
pub struct Source {
    name: String,
    compression: &'static str,
    head: Vec<u8>,
    stream: Stream,
    /// Bytes read so far, and their maximum.
    read: u64,
    max: u64,
    /// Whether the user chose `max`; then the expansion is not limited.
    chosen: bool,
    compressed: Arc<AtomicU64>,
    /// Bytes of a plain file of known length.
    plain_len: Option<u64>,
    max_characters: u64,
}

/// Opens a file.
pub fn open(path: &Path) -> Result<Source> {
    open_with(path, ReadLimits::default())
}

/// Opens a file within `limits`.
pub fn open_with(path: &Path, limits: ReadLimits) -> Result<Source> {
    let name = display(path);
    let fail = |e: io::Error| broken(&name, e);
    let (file, len) = drnn::io::open_file(path).map_err(fail)?;
    let again = file.try_clone().map_err(fail)?;
    // Bytes appended while we read are ignored: the file might never end.
    let plain = BufReader::with_capacity(BUFFER, file.take(len.unwrap_or(u64::MAX)));
    let from = Origin { len, max: limits.max(len.is_none()), chosen: limits.max_input.is_some() };
    match len {
        Some(len) => Source::decompress(&name, plain, from, |compressed| {
            zip::unzip(FileReader::from(again), len, &stem(path), compressed)
        }),
        None => Source::decompress(&name, plain, from, no_zip),
    }
}

/// A path as errors show it.
pub(super) fn display(path: &Path) -> String {
    escape(path.display().to_string().chars())
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn no_zip(_: &Arc<AtomicU64>) -> std::result::Result<Stream, String> {
    Err("is a zip archive, which cannot be read from a stream; extract it first".into())
}

impl ReadLimits {
    fn max(self, is_stream: bool) -> u64 {
        self.max_input.unwrap_or(if is_stream { drnn::io::MAX_STREAM } else { MAX_INPUT })
    }
}

/// What is known of a stream before it is read.
struct Origin {
    len: Option<u64>,
    max: u64,
    chosen: bool,
}

impl Source {
    /// Reads from a stream, compressed or not, however long it goes on. A zip archive has its directory
    /// at the end and is refused here.
    pub fn new(name: &str, stream: impl BufRead + Send + 'static) -> Result<Source> {
        Source::decompress(name, stream, Origin { len: None, max: u64::MAX, chosen: false }, no_zip)
    }

    /// Reads from memory, compressed or not.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Source> {
        Source::held(name, bytes.into(), ReadLimits::default())
    }

    pub(super) fn held(name: &str, bytes: Arc<[u8]>, limits: ReadLimits) -> Result<Source> {
        let len = bytes.len() as u64;
        let from =
            Origin { len: Some(len), max: limits.max(false), chosen: limits.max_input.is_some() };
        Source::decompress(name, Cursor::new(bytes.clone()), from, |compressed| {
            zip::unzip(Cursor::new(bytes), len, &stem(Path::new(name)), compressed)
        })
    }

    fn decompress<R: BufRead + Send + 'static>(
        name: &str,
        stream: R,
        from: Origin,
        unzip: impl FnOnce(&Arc<AtomicU64>) -> std::result::Result<Stream, String>,
    ) -> Result<Source> {
        let fail = |compression: &str, e: io::Error| broken(name, explained(compression, e));
        let (head, stream) = look(stream).map_err(|e| fail("", e))?;
        let compressed = Arc::new(AtomicU64::new(0));
        let (compression, mut stream): (&str, Stream) = match head[..] {
            [0x1f, 0x8b, ..] => {
                let stream = Counted::new(stream, &compressed);
                ("gzip", buffered(flate2::bufread::MultiGzDecoder::new(stream)))
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                ("zstd", buffered(zstd::Frames::new(Counted::new(stream, &compressed))))
            }
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
                ("zip", unzip(&compressed).map_err(|reason| refuse(name, None, reason))?)
            }
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] | [0xfd, b'7', b'z', b'X', b'Z', 0] => {
                let reason = "is compressed with bzip2 or xz, which are not read here; decompress it, or use gzip or zstd";
                return Err(refuse(name, None, reason));
            }
            _ => ("", stream),
        };
        let head = if compression.is_empty() {
            head
        } else {
            let (head, decompressed) = look(stream).map_err(|e| fail(compression, e))?;
            stream = decompressed;
            head
        };
        let head = match head.strip_prefix(b"\xef\xbb\xbf") {
            None => head,
            Some(rest) => {
                stream.read_exact(&mut [0; 3]).map_err(|e| fail(compression, e))?;
                rest.to_vec()
            }
        };
        let Origin { len, max, chosen } = from;
        let plain_len = len.filter(|_| compression.is_empty());
        Ok(Source {
            name: name.to_string(),
            compression,
            head,
            stream,
            read: 0,
            max,
            chosen,
            compressed,
            plain_len,
            max_characters: u64::MAX,
        })
    }

    /// The same, of whose text only the first `count` characters are read.
    pub fn first_characters(self, count: u64) -> Source {
        Source { max_characters: count, ..self }
    }

    pub(super) fn max_characters(&self) -> u64 {
        self.max_characters
    }

    /// Bytes of a plain file, where it says so.
    pub(super) fn plain_len(&self) -> Option<u64> {
        self.plain_len
    }

    /// Refuses what begins as no text in UTF-8 does.
    pub(super) fn check_text(&self) -> Result<()> {
        let what = match self.head[..] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "is UTF-16; save the file as UTF-8",
            _ if self.head.contains(&0) => {
                "is no text in UTF-8: it begins with NUL bytes, as binary files and UTF-16 do"
            }
            _ => return Ok(()),
        };
        Err(refuse(&self.name, None, what))
    }

    /// Checks the limits of size and expansion.
    fn check_size(&self) -> io::Result<()> {
        let compressed = self.compressed.load(Ordering::Relaxed);
        let expanded = compressed.saturating_mul(MAX_EXPANSION).saturating_add(MIN_EXPANDED);
        let dense = !self.compression.is_empty() && !self.chosen && self.read > expanded;
        if self.read <= self.max && !dense {
            return Ok(());
        }
        let (read, hint) = (self.read, "--max-input SIZE, such as 20G, allows more");
        let what = match dense {
            true => format!(
                "its first {compressed} bytes of {} data expand to more than {read}; {hint}, if that is meant",
                self.compression
            ),
            false => format!("it has more than {} bytes, the maximum; {hint}", self.max),
        };
        Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
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
    refuse(name, None, format!("cannot be read: {e}")).caused_by(e)
}

/// What fails inside compressed data is the data.
fn explained(compression: &str, e: io::Error) -> io::Error {
    if compression.is_empty() || e.kind() == io::ErrorKind::Interrupted {
        return e;
    }
    let what = format!(
        "its {compression} data are damaged or cut off ({e}); make or fetch the file again"
    );
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

/// A stream that counts what is taken of it.
pub(super) struct Counted<R> {
    stream: R,
    count: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    pub(super) fn new(stream: R, count: &Arc<AtomicU64>) -> Counted<R> {
        Counted { stream, count: count.clone() }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(to)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.stream.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        self.stream.consume(count);
    }
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.check_size()?;
        let count = self.stream.read(to).map_err(|e| explained(self.compression, e))?;
        self.read += count as u64;
        Ok(count)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.check_size()?;
        self.stream.fill_buf().map_err(|e| explained(self.compression, e))
    }

    fn consume(&mut self, count: usize) {
        self.read += count as u64;
        self.stream.consume(count);
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("compression", &self.compression)
            .finish()
    }
}

#[cfg(test)]
mod tests;
