//! The two networks of a tagger and the word vectors, as one flat vector of parameters.
//!
//! ```text
//! params = [ char net | word net | word vectors, if they are learned ]
//! ```

use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use drnn::{BundleTable, NetSpec};
use std::ops::Range;

/// The networks of a tagger.
#[derive(Debug, Clone, PartialEq)]
pub struct TaggerNet {
    /// The char net: reads symbols; its last states are a word's encoding.
    pub chars: NetSpec,
    /// The word net: reads a word's encoding and vector; its outputs are the logits of tags.
    pub words: NetSpec,
    /// Vectors of words that are given; None if they are learned.
    pub frozen: Option<BundleTable>,
    /// Rows and width of the vectors.
    vectors: [usize; 2],
}

impl TaggerNet {
    /// Checks that two networks fit each other and the vocabulary.
    pub fn of(
        vocabulary: &Vocabulary,
        chars: NetSpec,
        words: NetSpec,
        frozen: Option<BundleTable>,
    ) -> Result<TaggerNet> {
        let refuse = |why: String| Err(Error::Data(why));
        if chars.outputs().is_some() || chars.blocks().is_some() || chars.look_ahead() > 0 {
            return refuse(format!("not a char net: {chars}"));
        }
        if !matches!(chars.input(), drnn::InputSpec::Tokens { symbols, .. } if symbols == vocabulary.symbols())
        {
            return refuse(format!("a char net for {} symbols, not {chars}", vocabulary.symbols()));
        }
        let drnn::InputSpec::Dense(q) = words.input() else {
            return refuse(format!("a word net reads vectors; this one is {words}"));
        };
        let rows = vocabulary.words();
        let encoding = chars.output_width();
        if q <= encoding || words.outputs() != Some(vocabulary.tags().len()) {
            return refuse(format!("not a word net for {chars}: {words}"));
        }
        if words.delay() != words.look_ahead() {
            return refuse(format!("a delayed word net needs look-ahead padding: {words}"));
        }
        let vectors = [rows, q - encoding];
        if let Some(BundleTable { rows, width, values }) = &frozen
            && ([*rows, *width] != vectors || values.len() != rows * width)
        {
            return refuse(format!("{rows} vectors of {width}, expected {vectors:?}"));
        }
        Ok(TaggerNet { chars, words, frozen, vectors })
    }

    /// Width of a word's encoding.
    pub fn encoding(&self) -> usize {
        self.chars.output_width()
    }

    /// Width of a word's vector.
    pub fn vector(&self) -> usize {
        self.vectors[1]
    }

    /// The number of words that have a vector, special ones included.
    pub fn vector_rows(&self) -> usize {
        self.vectors[0]
    }

    /// Words after which a tag is known; None if it needs the end of the sentence.
    pub fn latency(&self) -> Option<usize> {
        (self.words.direction() == drnn::Direction::Forward).then_some(self.words.delay())
    }

    /// Ranges of the char net, the word net and the word vectors in the flat vector of parameters.
    pub fn ranges(&self) -> [Range<usize>; 3] {
        let chars = self.chars.parameters();
        let words = chars + self.words.parameters();
        let [rows, width] = self.vectors;
        let end = words + if self.frozen.is_some() { 0 } else { rows * width };
        [0..chars, chars..words, words..end]
    }

    /// The number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.ranges()[2].end
    }

    /// The vectors of words, frozen or among the parameters.
    pub fn vectors<'a>(&'a self, params: &'a [f32]) -> &'a [f32] {
        match &self.frozen {
            Some(table) => &table.values,
            None => &params[self.ranges()[2].clone()],
        }
    }
}
