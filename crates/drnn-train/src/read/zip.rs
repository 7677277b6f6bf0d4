//! The one file in a zip archive, or the one named like the archive: `text8` in `text8.zip`, `a.csv` in `a.zip`.

use super::limits::MAX_ARCHIVE_FILES;
use super::listed;
use super::open::{BUFFER, Counted, Stream, buffered};
use rawzip::{CompressionMethod, RangeReader, ReaderAt, ZipLocator};
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The decompressed data, whose length and checksum are checked at their end. `compressed_bytes` counts
/// what was read of the archive for them.
pub(super) fn unzip<R: ReaderAt + Send + Sync + 'static>(
    archive: R,
    len: u64,
    stem: &str,
    compressed_bytes: &Arc<AtomicU64>,
) -> Result<Stream, String> {
    let broken =
        |e: rawzip::Error| format!("is a damaged zip archive ({e}); make or fetch it again");
    let data = Arc::new(archive);
    // Large enough for any entry of the directory.
    let mut buffer = vec![0; rawzip::MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let located = ZipLocator::new().locate_in_reader(data.clone(), &mut buffer, len);
    let archive = located.map_err(|(_, e)| broken(e))?;
    if archive.entries_hint() > MAX_ARCHIVE_FILES {
        return Err(format!("holds {} files; expected one", archive.entries_hint()));
    }

    let mut files = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(broken)? {
        if !entry.is_dir() && files.len() as u64 <= MAX_ARCHIVE_FILES {
            let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
            files.push((name, entry.wayfinder(), entry.compression_method(), entry.flags()));
        }
    }
    let chosen = match files.len() {
        1 => files.first(),
        _ => {
            let mut alike = files.iter().filter(|(name, ..)| is_like(name, stem));
            alike.next().filter(|_| alike.next().is_none())
        }
    };
    let Some((_, way, method, flags)) = chosen else {
        let names = listed(files.iter().map(|(name, ..)| name.as_str()));
        return Err(match files.len() {
            0 => "is a zip archive without a file".into(),
            n => format!(
                "holds {n} files ({names}); expected one, or one named like the archive. Extract it and name one"
            ),
        });
    };
    if flags.is_encrypted() {
        return Err("is an encrypted zip archive; extract it first".into());
    }
    let entry = archive.get_entry(*way).map_err(broken)?;
    let (start, end) = entry.compressed_data_range();
    let compressed = BufReader::with_capacity(BUFFER, RangeReader::new(data.clone(), start..end));
    let compressed = Counted::new(compressed, compressed_bytes);
    match *method {
        CompressionMethod::STORE => Ok(buffered(entry.verifying_reader(compressed))),
        CompressionMethod::DEFLATE => {
            let decompressed = flate2::bufread::DeflateDecoder::new(compressed);
            Ok(buffered(entry.verifying_reader(decompressed)))
        }
        other => Err(format!(
            "is a zip archive compressed with {}, expected deflate; use gzip or zstd",
            other.name().unwrap_or("an unknown method")
        )),
    }
}

/// Whether a file in an archive is named like it, with or without an extension of its own.
fn is_like(name: &str, stem: &str) -> bool {
    let name = Path::new(name);
    [name.file_name(), name.file_stem()].iter().flatten().any(|part| *part == stem)
}
