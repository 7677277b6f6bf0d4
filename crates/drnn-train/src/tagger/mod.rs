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

mod gather;
mod learner;
mod network;
mod sentences;
mod vocabulary;

pub use learner::TaggerLearner;
pub use network::{Sizes, TaggerNet, with_special};
pub use sentences::{Sentences, Spellings, Word};
pub use vocabulary::{Limits, MOST_SYMBOLS, Vocabulary};
