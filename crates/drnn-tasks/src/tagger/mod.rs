//! Part-of-speech tagging with the paper's two networks: one reads the characters of a word, the
//! other the words of a sentence.
//!
//! ```text
//! e_w = last state of the char net over BEGIN c_1 .. c_k END
//! x_t = [e_w ; v_w]                       v_w: the word's vector, learned or given
//! tag_t = W h_{t+d} + b                   h from the word net over BEGIN x_1 .. x_n END
//! ```
//!
//! A delay of the char net costs no time, because all characters of a word are there. A delay of the
//! word net postpones a tag by d words.

mod counting;
mod encoder;
mod encoding;
mod model;
mod network;
mod spellings;
mod tokenize;
mod vocabulary;

pub use counting::{Counting, NO_WORD};
pub(crate) use encoder::{Encoder, Form};
pub use encoding::EncodingLayout;
pub use model::Tagger;
pub use network::TaggerNet;
pub use spellings::Spellings;
pub use tokenize::tokenize;
pub use vocabulary::{
    BEGIN, END, Limits, MAX_SYMBOLS, PAD, SPECIAL, UNKNOWN, Vocabulary, after_last,
};
