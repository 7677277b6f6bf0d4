//! Tagging: the paper's two networks, one that reads the characters of a word, one that reads the words.
//!
//! ```text
//! e_w = last state of the char net over BEGIN c_1 .. c_k END
//! x_t = [e_w ; v_w]                       v_w the word's vector, learned or given
//! tag_t = W h_{t+d} + b                   h from the word net over BEGIN x_1 .. x_n END
//! ```
//!
//! A delay of the char net costs no time: a word's characters are all there. One of the word net makes a tag wait
//! for d words.
//!
//! | file | what |
//! |---|---|
//! | `vocabulary` | characters, words and tags as numbers |
//! | `sentences` | sentences as numbers |
//! | `network` | both networks and the vectors, one flat vector of parameters |
//! | `gather` | sentences side by side |
//! | `learner` | training |
//! | `corpus` | treebanks, and which of their lines are read |
//! | `model` | a trained tagger, and its file |
//! | `scores` | how good it is |
//! | `encoder` | a word as the word net reads it |
//! | `stream` | tags while words arrive |
//! | `tokenize` | running text as tokens |

mod corpus;
mod encoder;
mod gather;
mod learner;
mod model;
mod network;
mod scores;
mod sentences;
mod stream;
mod tokenize;
mod vocabulary;

pub use corpus::{Counting, NO_WORD, Sentence, read_sentences};
pub(crate) use encoder::{Encoder, Form};
pub use learner::TaggerLearner;
pub use model::{Room, Tagger};
pub use network::{Sizes, TaggerNet, with_special};
pub use scores::{Scores, Share, likeliest};
pub use sentences::{Sentences, Spellings, Word};
pub use stream::{Late, TagStream};
pub use tokenize::tokenize;
pub(crate) use vocabulary::{BEGIN, END, PAD};
pub use vocabulary::{Limits, MOST_SYMBOLS, Vocabulary};
