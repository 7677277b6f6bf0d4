//! A zip archive of stored entries, as `torch.save` writes it.
//!
//! ```text
//! entry ..     "PK\3\4"  .. name, extra, the entry's bytes as they are
//! directory    "PK\1\2"  .. method, checksum, sizes, name, place of the entry
//! [zip64 end   "PK\6\6"  .. entries, size and place of the directory, 64 bits]
//! [its place   "PK\6\7"]
//! end          "PK\5\6"  .. entries, size and place of the directory, 32 bits
//! ```
//!
//! Entries are slices of the file: nothing is copied and nothing is unpacked, so there is nothing to
//! blow up. What `torch.save` never writes is refused: two entries of one name or in one place, bytes
//! after the end, and, where they are requested, entries that are compressed or encrypted.

use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::limits::MAX_ARCHIVE_ENTRIES;
use crate::io::torch::ZIP;
use std::collections::BTreeMap;
use std::ops::Range;

/// The entries of an archive by name.
pub(crate) struct Archive<'a>(BTreeMap<&'a str, Entry<'a>>);

impl<'a> Archive<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Archive<'a>> {
        let (directory, count) = directory(bytes).ok_or_else(cut)?;
        if count > MAX_ARCHIVE_ENTRIES {
            let max = MAX_ARCHIVE_ENTRIES;
            return Err(refuse(format!("is an archive of {count} entries (at most {max})")));
        }
        let mut rest = bytes.get(directory.clone()).ok_or_else(cut)?;
        let mut places = vec![(directory, "directory")];
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let (name, line) = Line::parse(&mut rest).ok_or_else(cut)?;
            let name = std::str::from_utf8(name)
                .map_err(|_| refuse("an entry of the archive has a name that is not text"))?;
            let (place, data) = line.data(name, bytes).ok_or_else(|| broken(name, "cut short"))?;
            places.push((place, name));
            if entries.insert(name, Entry { line, data }).is_some() {
                return Err(broken(name, "there twice"));
            }
        }
        places.sort_unstable_by_key(|(place, _)| (place.start, place.end));
        for pair in places.windows(2) {
            if pair[0].0.end > pair[1].0.start {
                return Err(broken(
                    pair[0].1,
                    &format!("in the same place as `{}`", short(pair[1].1)),
                ));
            }
        }
        for (name, Entry { line, data }) in &entries {
            // torch.save without checksums (`compute_crc32 = False`) writes zeros in their place.
            let checked = line.is_stored() && line.checksum != 0;
            if checked && crc32fast::hash(data) != line.checksum {
                return Err(broken(name, "damaged: its checksum does not fit"));
            }
        }
        Ok(Archive(entries))
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.keys().copied()
    }

    /// The bytes of an entry, if it is there.
    pub fn get(&self, name: &str) -> Result<Option<&'a [u8]>> {
        match self.0.get(name) {
            Some(entry) if entry.line.is_stored() => Ok(Some(entry.data)),
            Some(_) => Err(broken(name, "compressed or encrypted; save it with torch.save")),
            None => Ok(None),
        }
    }
}

struct Entry<'a> {
    line: Line,
    data: &'a [u8],
}

fn cut() -> crate::Error {
    refuse("is not a whole zip archive: cut short, damaged, or with bytes after its end")
}

fn broken(name: &str, how: &str) -> crate::Error {
    refuse(format!("entry `{}` of the archive is {how}", short(name)))
}

/// Place of the directory and the number of its entries.
fn directory(bytes: &[u8]) -> Option<(Range<usize>, u64)> {
    let at = bytes.len().checked_sub(22)?; // no comment after it
    let mut end = signed(bytes.get(at..)?, b"PK\x05\x06")?;
    let (_disks, _here) = (u16(&mut end)?, u16(&mut end)?);
    let [_, mut count] = [u16(&mut end)?, u16(&mut end)?].map(u64::from);
    let [mut size, mut start] = [u32(&mut end)?, u32(&mut end)?].map(u64::from);
    if u16(&mut end)? != 0 {
        return None;
    }
    let locator = at.checked_sub(20).and_then(|at| signed(bytes.get(at..)?, b"PK\x06\x07"));
    if let Some(mut locator) = locator {
        let _disk = u32(&mut locator)?;
        let at = usize::try_from(u64(&mut locator)?).ok()?;
        let mut end = signed(bytes.get(at..)?, b"PK\x06\x06")?;
        end = end.get(8 + 2 + 2 + 4 + 4 + 8..)?; // length, versions, disks, entries of this disk
        (count, size, start) = (u64(&mut end)?, u64(&mut end)?, u64(&mut end)?);
    }
    let (start, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
    Some((start..start.checked_add(size)?, count))
}

/// A line of the directory.
struct Line {
    flags: u16,
    method: u16,
    checksum: u32,
    compressed: u64,
    size: u64,
    start: u64,
}

impl Line {
    /// Takes the next line, and the name in it.
    fn parse<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Line)> {
        let mut line = signed(rest, b"PK\x01\x02")?;
        let (_versions, flags, method) = (u32(&mut line)?, u16(&mut line)?, u16(&mut line)?);
        let (_time, checksum) = (u32(&mut line)?, u32(&mut line)?);
        let [mut compressed, mut size] = [u32(&mut line)?, u32(&mut line)?].map(u64::from);
        let (name, extra, comment) = (u16(&mut line)?, u16(&mut line)?, u16(&mut line)?);
        let (_disk, _kind, _attributes) = (u16(&mut line)?, u16(&mut line)?, u32(&mut line)?);
        let mut start = u64::from(u32(&mut line)?);
        let name = take(&mut line, name.into())?;
        let mut extra = take(&mut line, extra.into())?;
        take(&mut line, comment.into())?;
        while !extra.is_empty() {
            let (id, len) = (u16(&mut extra)?, u16(&mut extra)?);
            let mut field = take(&mut extra, len.into())?;
            if id == 1 {
                // Zip64: what does not fit into 32 bits, in this order.
                for long in [&mut size, &mut compressed, &mut start] {
                    if *long == u64::from(u32::MAX) {
                        *long = u64(&mut field)?;
                    }
                }
            }
        }
        *rest = line;
        Some((name, Line { flags, method, checksum, compressed, size, start }))
    }

    /// Whether the bytes are there as they are.
    fn is_stored(&self) -> bool {
        self.flags & 1 == 0 && self.method == 0 && self.size == self.compressed
    }

    /// The entry's place, header included, and its bytes.
    fn data<'a>(&self, name: &str, bytes: &'a [u8]) -> Option<(Range<usize>, &'a [u8])> {
        let start = usize::try_from(self.start).ok()?;
        let mut rest = signed(bytes.get(start..)?, ZIP)?.get(22..)?;
        let (name_len, extra) = (u16(&mut rest)?, u16(&mut rest)?);
        if take(&mut rest, name_len.into())? != name.as_bytes() {
            return None;
        }
        take(&mut rest, extra.into())?;
        let data = take(&mut rest, usize::try_from(self.compressed).ok()?)?;
        Some((start..bytes.len() - rest.len(), data))
    }
}

/// What follows a signature.
fn signed<'a>(bytes: &'a [u8], signature: &[u8]) -> Option<&'a [u8]> {
    bytes.strip_prefix(signature)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}

fn u16(bytes: &mut &[u8]) -> Option<u16> {
    take(bytes, 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes, 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes, 8)?.try_into().ok().map(u64::from_le_bytes)
}
