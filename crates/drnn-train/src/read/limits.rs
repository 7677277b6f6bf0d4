//! Limits of what is read, and the reasons for their values. `docs/LIMITS.md` lists them for users.

use super::quote;

/// Maximum bytes of a line. Anything longer is not text with lines, and must not fill the memory.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Maximum lines of a sentence. A file with longer ones has no blank lines between sentences.
pub const MAX_SENTENCE_LINES: usize = 100_000;
/// Maximum bytes of a sentence.
pub(super) const MAX_SENTENCE_BYTES: usize = 1 << 26;

/// Maximum bytes of a file, decompressed: three times the largest published word vectors.
pub const MAX_INPUT: u64 = 16 << 30;
/// Bytes that any compressed file may expand to, whatever its size ...
pub const MIN_EXPANDED: u64 = 8 << 20;
/// ... and for each compressed byte so many more. Texts become 3 to 10 times as large, very regular
/// tables up to 100 times; what is made to fill the memory becomes 1,000 to 30,000 times as large.
pub const MAX_EXPANSION: u64 = 200;
/// Maximum files of a zip archive; one of them is read.
pub(super) const MAX_ARCHIVE_FILES: u64 = 10_000;
/// Maximum window, in bytes, of zstd data: the default limit of the program `zstd`.
pub(super) const MAX_ZSTD_WINDOW: u64 = 1 << 27;

/// Maximum bytes of the name of a column, a class, a sequence or a tag: people must read it.
pub const MAX_NAME: usize = 1_000;
/// Maximum columns of a table: each makes a network wider, and 100,000 of them have no more than 10 bytes
/// each on the longest line.
pub const MAX_COLUMNS: usize = 100_000;
/// Maximum width of a word's vector; those in use have some hundred.
pub const MAX_VECTOR_WIDTH: usize = 10_000;

/// Maximum bytes of an array's header: more than any plain array has.
pub(super) const MAX_ARRAY_HEADER: usize = 4096;
/// Maximum elements of an array: more than any file has, and no product of dimensions overflows.
pub(super) const MAX_ELEMENTS: usize = 1 << 40;

/// How much may be read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadLimits {
    /// Bytes, decompressed. None: [`MAX_INPUT`]; of compressed files less, see [`MAX_EXPANSION`]; of what
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
