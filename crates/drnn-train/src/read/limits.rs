//! Limits of what is read, and why they are where they are. `docs/LIMITS.md` tells users the same.

use super::quote;

/// A line may have so many bytes. Whatever is longer is no text with lines, and is not to fill the
/// memory.
pub const LONGEST_LINE: usize = 1 << 20;
/// A sentence may have so many lines. What has more has no blank lines between its sentences.
pub const LONGEST_SENTENCE: usize = 100_000;
/// And so many bytes.
pub(super) const MAX_SENTENCE_BYTES: usize = 1 << 26;

/// Bytes of any file, unpacked: the largest word vectors that are handed round have a third of it.
pub const MAX_INPUT: u64 = 16 << 30;
/// Bytes that any packed file may expand to, whatever its size ...
pub const MIN_EXPANDED: u64 = 8 << 20;
/// ... and for each packed byte so many more. Texts become 3 to 10 times as large, very regular
/// tables up to 100 times; what is made to fill the memory becomes 1,000 to 30,000 times as large.
pub const MAX_EXPANSION: u64 = 200;
/// Files of a zip archive; only one of them is wanted.
pub(super) const MAX_ARCHIVE_FILES: u64 = 10_000;
/// Bytes of memory that zstd data may ask for: what the program `zstd` takes without being asked
/// twice.
pub(super) const MAX_ZSTD_WINDOW: u64 = 1 << 27;

/// Bytes of the name of a column, a class, a sequence or a tag. A name is to be read by people.
pub const MAX_NAME: usize = 1_000;
/// Columns of a table: each makes a network wider, and 100,000 of them have no more than 10 bytes
/// each on the longest line.
pub const MAX_COLUMNS: usize = 100_000;
/// Numbers of a word's vector; those in use have some hundred.
pub const MAX_VECTOR_WIDTH: usize = 10_000;

/// Bytes of an array's header: more than that of any plain array.
pub(super) const MAX_ARRAY_HEADER: usize = 4096;
/// Elements of an array: more than any file has. With it no product of dimensions overflows.
pub(super) const MAX_ELEMENTS: usize = 1 << 40;

/// How much may be read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadLimits {
    /// Bytes, unpacked. None: [`MAX_INPUT`]; of packed files less, see [`MAX_EXPANSION`]; of what
    /// is no regular file [`drnn::io::MAX_STREAM`].
    pub max_input: Option<u64>,
}

/// Refuses a name that is too long to be one.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    match name.len() {
        ..=MAX_NAME => Ok(()),
        len => {
            Err(format!("{what} has a name of {len} bytes (at most {MAX_NAME}): {}", quote(name)))
        }
    }
}
