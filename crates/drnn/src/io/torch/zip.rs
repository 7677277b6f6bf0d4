//! A zip archive of stored entries, as `torch.save` writes it. rawzip reads its structure.
//!
//! Entries are slices of the file: nothing is copied or decompressed, so a small file cannot expand.
//! Anything that `torch.save` never writes is rejected: two entries with the same name, entries that
//! overlap each other or the directory, a comment or bytes after the end, and, when they are
//! requested, entries that are compressed or encrypted.

use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::limits::MAX_ARCHIVE_ENTRIES;
use rawzip::{CompressionMethod, ZipArchive, ZipFileHeaderRecord, ZipSliceArchive};
use std::collections::BTreeMap;
use std::ops::Range;

/// The entries of an archive by name.
pub(crate) struct Archive<'a>(BTreeMap<String, Entry<'a>>);

struct Entry<'a> {
    data: &'a [u8],
    /// Neither compressed nor encrypted: `data` is what was saved.
    stored: bool,
    /// CRC-32 of `data`; 0 if the writer computed none.
    checksum: u32,
}

impl<'a> Archive<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Archive<'a>> {
        let archive = ZipArchive::from_slice(bytes).map_err(|_| incomplete())?;
        if archive.end_offset() != bytes.len() as u64 || !archive.comment().as_bytes().is_empty() {
            return Err(incomplete());
        }
        let count = archive.entries_hint();
        if count > MAX_ARCHIVE_ENTRIES {
            let max = MAX_ARCHIVE_ENTRIES;
            return Err(refuse(format!("is an archive of {count} entries (at most {max})")));
        }
        let mut extents =
            vec![(archive.directory_offset()..bytes.len() as u64, "directory".into())];
        let mut entries = BTreeMap::new();
        let mut headers = archive.entries();
        while let Some(header) = headers.next_entry().map_err(|_| incomplete())? {
            let name = std::str::from_utf8(header.file_path().as_bytes())
                .map_err(|_| refuse("an entry of the archive has a name that is not text"))?
                .to_string();
            let (extent, entry) =
                locate(&archive, &header).ok_or_else(|| damaged(&name, "cut short"))?;
            extents.push((extent, name.clone()));
            if entries.insert(name.clone(), entry).is_some() {
                return Err(damaged(&name, "there twice"));
            }
        }
        if entries.len() as u64 != count {
            return Err(incomplete());
        }
        extents.sort_unstable_by_key(|(extent, _)| (extent.start, extent.end));
        for pair in extents.windows(2) {
            let [(first, name), (second, other)] = pair else { unreachable!("windows of two") };
            if first.end > second.start {
                return Err(damaged(name, &format!("in the same place as `{}`", short(other))));
            }
        }
        for (name, entry) in &entries {
            // torch.save without checksums (`compute_crc32 = False`) writes zeros in their place.
            let checked = entry.stored && entry.checksum != 0;
            if checked && crc32fast::hash(entry.data) != entry.checksum {
                return Err(damaged(name, "damaged: its checksum does not fit"));
            }
        }
        Ok(Archive(entries))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The bytes of an entry, if it is there.
    pub fn get(&self, name: &str) -> Result<Option<&'a [u8]>> {
        match self.0.get(name) {
            Some(entry) if entry.stored => Ok(Some(entry.data)),
            Some(_) => Err(damaged(name, "compressed or encrypted; save it with torch.save")),
            None => Ok(None),
        }
    }
}

/// The extent of an entry in the file, from its local header to its last byte, and its data. `None`
/// if the file ends before, or if the local header names another entry.
fn locate<'a>(
    archive: &ZipSliceArchive<&'a [u8]>,
    header: &ZipFileHeaderRecord,
) -> Option<(Range<u64>, Entry<'a>)> {
    let entry = archive.get_entry(header.wayfinder()).ok()?;
    let local = entry.local_header();
    if local.file_path().as_bytes() != header.file_path().as_bytes() {
        return None;
    }
    let (start, end) = entry.compressed_data_range();
    let data = archive.get_ref().get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
    let stored = header.compression_method() == CompressionMethod::STORE
        && !header.flags().is_encrypted()
        && header.uncompressed_size_hint() == header.compressed_size_hint();
    let entry = Entry { data, stored, checksum: header.crc32() };
    Some((header.local_header_offset()..end, entry))
}

fn incomplete() -> crate::Error {
    refuse("is not a whole zip archive: cut short, damaged, or with bytes after its end")
}

fn damaged(name: &str, how: &str) -> crate::Error {
    refuse(format!("entry `{}` of the archive is {how}", short(name)))
}
