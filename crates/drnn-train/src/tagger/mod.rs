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
//! The trained tagger, its vocabulary and its stream are in [`drnn_tasks::tagger`].
//!
//! | file | what |
//! |---|---|
//! | `corpus` | treebanks, and which of their lines are read |
//! | `sentences` | sentences as numbers |
//! | `sizes` | the paper's networks and their first parameters |
//! | `gather` | batches of sentences |
//! | `learner` | training |
//! | `identity` | what is trained, as text for checkpoints |
//! | `outputs` | logits of whole sentences, in batches |
//! | `scores` | accuracy, overall and by tag |
//! | `validation` | accuracy after every epoch of a training |

mod corpus;
mod gather;
mod identity;
mod learner;
mod outputs;
mod scores;
mod sentences;
mod sizes;
mod validation;

pub use corpus::{Sentence, encode, read_sentences, tokens};
pub use identity::{identity, identity_of_0_1};
pub use learner::TaggerLearner;
pub use outputs::{TagWorkspace, outputs};
pub use scores::{Ratio, Scores};
pub use sentences::{Sentences, Word};
pub use sizes::{Sizes, initial_params, put_vectors, with_special};
pub use validation::TaggerValidation;
