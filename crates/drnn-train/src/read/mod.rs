//! Readers of users' data.
//!
//! ```text
//! path -> Source -> Lines or pieces of text -> sentences, vectors, symbols, rows
//! ```
//!
//! | what is in the file | reader | |
//! |---|---|---|
//! | anything | [`open`](open()), [`Input`] | plain, gzip, zstd or zip, recognised by its first bytes; once or several times |
//! | sentences with tags | [`sentences`] | CoNLL-U, or word TAB tag; one sentence after the other |
//! | word vectors | [`vectors`](vectors()) | GloVe and word2vec as text; only the words you want |
//! | a text | [`alphabet`](alphabet()), [`Symbols`] | characters as numbers, one byte each where that is enough |
//! | series, features | [`table`](table()) | CSV with a header (numbers, times, categories), or a NumPy array |
//! | elements of a live model, as CSV | [`ElementRows`] | a line at a time, or a row at a time ([`Records`]) |
//! | an array | [`array`](array()) | NumPy's `.npy` |
//!
//! How much they read is [limited](ReadLimits); all limits are in `limits`.
//!
//! All of them read a file once, from the beginning to the end, and hold the result, not the file.
//! Errors name the file and the line, `train.conllu:17: ..`; text quoted from a file has its control
//! characters escaped.

mod alphabet;
mod building;
mod csv;
mod elements;
mod header;
mod input;
mod limits;
mod lines;
mod npy;
mod open;
mod pieces;
mod profile;
mod sentence;
mod table;
mod tagged;
mod text;
mod vectors;
mod zip;
mod zstd;

pub use alphabet::{alphabet, character_counts};
pub use csv::Records;
pub use elements::{ElementRow, ElementRows};
pub use header::Delimiter;
pub use input::Input;
pub use limits::{
    MAX_COLUMNS, MAX_EXPANSION, MAX_INPUT, MAX_LINE_BYTES, MAX_NAME, MAX_SENTENCE_LINES,
    MAX_VECTOR_WIDTH, MIN_EXPANDED, ReadLimits,
};
pub use lines::Lines;
pub use npy::{Array, Values, array};
pub use open::{Source, open, open_with};
pub(crate) use profile::{
    Categories, ColumnProfile, FieldKind, Profile, Profiling, Times, profile,
};
pub use sentence::{Sentence, Token, TokenKind};
pub(crate) use table::no_column;
pub use table::{Choice, Names, Table, table};
pub use tagged::{Sentences, TaggedFormat, sentences};
pub use text::Symbols;
pub use vectors::{Vectors, vectors};

use crate::error::Error;
pub use drnn_tasks::MAX_CLASSES;
pub use drnn_tasks::series::Missing;
pub(crate) use drnn_tasks::text::{listed, quote};

/// The option that helps with missing numbers.
pub(crate) const MISSING_HELP: &str =
    "--missing says what to do with missing numbers: zero, mean, previous or drop";

/// Says what is wrong with a file.
pub(crate) fn refuse(file: &str, line: impl Into<Option<u64>>, reason: impl ToString) -> Error {
    let (file, reason) = (file.to_string(), reason.to_string());
    Error::File { file, line: line.into(), reason, source: None }
}
