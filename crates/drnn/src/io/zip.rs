//! A zip archive, as `torch.save` and `numpy.savez` write it. rawzip reads its structure.
//!
//! Stored entries are slices of the file: nothing is copied. `numpy.savez_compressed` deflates its
//! entries; those are unpacked when requested, within a budget for the whole archive. What neither
//! writes is rejected: two entries with the same name, entries that overlap each other or the
//! directory, a comment or bytes after the end, and, when they are requested, entries that are
//! encrypted or compressed otherwise.

use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::limits::{MAX_ARCHIVE_ENTRIES, MAX_UNPACKED, MAX_UNPACKED_RATIO};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use core::cell::Cell;
use core::ops::Range;
use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive, ZipFileHeaderRecord, ZipSliceArchive};
use std::io::Read;

/// The entries of an archive by name.
pub(crate) struct Archive<'a> {
    entries: BTreeMap<String, Entry<'a>>,
    /// Bytes that may still be unpacked.
    budget: Cell<usize>,
}

struct Entry<'a> {
    data: &'a [u8],
    /// Bytes that it has when unpacked.
    size: u64,
    packing: Packing,
    /// CRC-32 of what was saved; 0 if the writer computed none.
    checksum: u32,
}

#[derive(PartialEq, Eq)]
enum Packing {
    /// `data` is what was saved.
    Stored,
    Deflated,
    /// Encrypted, or compressed in another way.
    Other,
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
            let name = core::str::from_utf8(header.file_path().as_bytes())
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
            let checked = entry.packing == Packing::Stored && entry.checksum != 0;
            if checked && crc32fast::hash(entry.data) != entry.checksum {
                return Err(damaged(name, "damaged: its checksum does not fit"));
            }
        }
        let budget = MAX_UNPACKED.max(bytes.len().saturating_mul(MAX_UNPACKED_RATIO));
        Ok(Archive { entries, budget: Cell::new(budget) })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The bytes of an entry that is not compressed, if it is there.
    pub fn get(&self, name: &str) -> Result<Option<&'a [u8]>> {
        match self.entries.get(name) {
            Some(Entry { data, packing: Packing::Stored, .. }) => Ok(Some(data)),
            Some(_) => Err(damaged(name, "compressed or encrypted; save it with torch.save")),
            None => Ok(None),
        }
    }

    /// The bytes of an entry, unpacked if it is deflated.
    pub fn unpack(&self, name: &str) -> Result<Cow<'a, [u8]>> {
        let entry = self.entries.get(name).ok_or_else(|| damaged(name, "missing"))?;
        match entry.packing {
            Packing::Stored => return Ok(entry.data.into()),
            Packing::Other => return Err(damaged(name, "encrypted, or compressed in another way")),
            Packing::Deflated => {}
        }
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        let Some(left) = self.budget.get().checked_sub(size) else {
            let what = "compressed too far: its archive would unpack to far more than weights do";
            return Err(damaged(name, what));
        };
        self.budget.set(left);
        // As far as the size allows and a byte more, which would be one too many.
        let mut bytes = Vec::new();
        let mut decoder = DeflateDecoder::new(entry.data).take(size as u64 + 1);
        let whole = decoder.read_to_end(&mut bytes).is_ok() && bytes.len() == size;
        if !whole || crc32fast::hash(&bytes) != entry.checksum {
            return Err(damaged(name, "damaged: it does not unpack to what was saved"));
        }
        Ok(bytes.into())
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
    let size = header.uncompressed_size_hint();
    let packing = match header.compression_method() {
        _ if header.flags().is_encrypted() => Packing::Other,
        CompressionMethod::STORE if size == header.compressed_size_hint() => Packing::Stored,
        CompressionMethod::DEFLATE => Packing::Deflated,
        _ => Packing::Other,
    };
    let entry = Entry { data, size, packing, checksum: header.crc32() };
    Some((header.local_header_offset()..end, entry))
}

fn incomplete() -> crate::Error {
    refuse("is not a whole zip archive: cut short, damaged, or with bytes after its end")
}

fn damaged(name: &str, how: &str) -> crate::Error {
    refuse(format!("entry `{}` of the archive is {how}", short(name)))
}
