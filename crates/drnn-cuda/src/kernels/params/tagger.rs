//! Parameters of `tagger/words.cu`: the input of a tagger's word network, and its gradient.

use super::params;

params! {
    /// `x` (slots, encoding + width) from `encodings` (directions, spellings, n) and `vectors`
    /// (words, width); `words` and `rows` (slots) say which.
    JoinWords for "join_words" {
        words: *const u32,
        /// Of spellings.
        rows: *const u32,
        encodings: *const f32,
        vectors: *const f32,
        x: *mut f32,
        slots: u32,
        spellings: u32,
        n: u32,
        encoding: u32,
        width: u32,
    }

    /// `d_encodings` (directions, spellings, n) from the first `encoding` columns of `d_x` (slots,
    /// q); `starts` (spellings + 1) and `slots` list the occurrences of each spelling.
    SumEncodings for "sum_encodings" {
        starts: *const u32,
        slots: *const u32,
        d_x: *const f32,
        d_encodings: *mut f32,
        spellings: u32,
        n: u32,
        encoding: u32,
        q: u32,
    }

    /// Rows `words` (count) of `d_vectors` from the other columns of `d_x` (slots, encoding +
    /// width); `starts` (count + 1) and `slots` list the occurrences of each word.
    SumVectors for "sum_vectors" {
        words: *const u32,
        starts: *const u32,
        slots: *const u32,
        d_x: *const f32,
        d_vectors: *mut f32,
        count: u32,
        encoding: u32,
        width: u32,
    }
}
