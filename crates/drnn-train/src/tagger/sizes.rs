//! The paper's taggers: sizes of their networks, and their first parameters.

use crate::error::{Error, Result};
use crate::paper::PaperNet;
use drnn::random::Rng;
use drnn::{BundleTable, Cell, NetSpec, Padding};
use drnn_tasks::tagger::{PAD, SPECIAL, TaggerNet, Vocabulary};

/// Sizes of a tagger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Of a symbol's vector.
    pub symbol: usize,
    /// Units of a char net that reads one way.
    pub chars: usize,
    /// And of each direction of one that reads both.
    pub both_chars: usize,
    /// Of a word's vector.
    pub word: usize,
    /// Units of a word net that reads one way.
    pub words: usize,
    /// And of each direction of one that reads both.
    pub both_words: usize,
}

impl Default for Sizes {
    /// The paper's.
    fn default() -> Sizes {
        Sizes { symbol: 100, chars: 200, both_chars: 100, word: 64, words: 300, both_words: 188 }
    }
}

impl Sizes {
    /// The paper's two networks. Delayed ones read the pad symbol after the end; a word net's
    /// look-ahead is over BEGIN, END and PAD. `frozen` vectors of words are not trained.
    pub fn build(
        &self,
        vocabulary: &Vocabulary,
        [chars, words]: [PaperNet; 2],
        frozen: Option<BundleTable>,
    ) -> Result<TaggerNet> {
        let width = frozen.as_ref().map_or(self.word, |table| table.width);
        let encoding = match chars {
            PaperNet::BiLstm => 2 * self.both_chars,
            _ => self.chars,
        };
        let of = |net: PaperNet, one: usize, both: usize, padding: Padding| {
            let builder = NetSpec::builder(Cell::Lstm);
            match net {
                PaperNet::Lstm => builder.units([one]),
                PaperNet::BiLstm => builder.units([both]).bidirectional(),
                PaperNet::DLstm(delay) => builder.units([one]).delay(delay, padding),
            }
        };
        let symbols = vocabulary.symbols();
        let chars = of(chars, self.chars, self.both_chars, Padding::Symbol(PAD));
        let words = of(words, self.words, self.both_words, Padding::LookAhead);
        Ok(TaggerNet::of(
            vocabulary,
            chars.tokens(symbols, self.symbol).build()?,
            words.dense(encoding + width).outputs(vocabulary.tags().len()).build()?,
            frozen,
        )?)
    }
}

/// First parameters of a tagger, drawn as PyTorch draws them.
pub fn initial_params(net: &TaggerNet, seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let mut params = drnn::params::initial(&net.chars, rng.bits());
    params.extend(drnn::params::initial(&net.words, rng.bits()));
    params.resize_with(net.parameters(), || rng.normal());
    params
}

/// Puts vectors of words, which are trained further, in the place of those that were drawn; special
/// words keep theirs. Refuses vectors for other words, and taggers that do not train any.
pub fn put_vectors(net: &TaggerNet, table: &BundleTable, params: &mut [f32]) -> Result<()> {
    let range = net.ranges()[2].clone();
    if net.frozen.is_some() || table.values.len() != range.len() {
        let (found, expected) = (table.values.len(), range.len());
        return Err(Error::Data(format!("{found} values for vectors of {expected}")));
    }
    let special = SPECIAL * table.width;
    params[range][special..].copy_from_slice(&table.values[special..]);
    Ok(())
}

/// Vectors of words in a vocabulary's order, after zeros for the special words.
pub fn with_special(width: usize, values: Vec<f32>) -> BundleTable {
    let mut all = vec![0.0; SPECIAL * width];
    all.extend(values);
    BundleTable { rows: all.len() / width.max(1), width, values: all }
}
