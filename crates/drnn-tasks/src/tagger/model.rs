//! A trained tagger, and its file.
//!
//! One [`Bundle`]: networks `char` and `word`, table `vectors`, and in its metadata
//! `{"task": "tagger", "vocabulary": {..}, "counting": "words"}`.

use super::counting::{Counting, NO_WORD};
use super::network::TaggerNet;
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use drnn::{Bundle, BundleTable, Cpu, Model, Precision};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The bundle's metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TaggerTask {
    task: String,
    vocabulary: Vocabulary,
    #[serde(default)]
    counting: Counting,
}

/// A trained tagger.
#[derive(Debug)]
pub struct Tagger {
    vocabulary: Vocabulary,
    counting: Counting,
    net: TaggerNet,
    pub(super) chars: Model,
    pub(crate) words: Model,
    /// Vectors of words, learned or given.
    vectors: BundleTable,
}

impl Tagger {
    /// A tagger with trained parameters, in the order of [`TaggerNet::ranges`].
    pub fn new(
        vocabulary: Vocabulary,
        counting: Counting,
        net: TaggerNet,
        params: &[f32],
    ) -> Result<Tagger> {
        if params.len() != net.parameters() {
            return Err(Error::Data(format!("{} parameters of a tagger", params.len())));
        }
        let [chars, words, _] = net.ranges();
        let (width, values) = (net.vector(), net.vectors(params).to_vec());
        Ok(Tagger {
            chars: Model::from_params(&net.chars, params[chars].to_vec())?,
            words: Model::from_params(&net.words, params[words].to_vec())?,
            vectors: BundleTable { rows: vocabulary.words(), width, values },
            vocabulary,
            counting,
            net,
        })
    }

    /// Runs it on these threads.
    pub fn on(mut self, cpu: &Cpu) -> Tagger {
        (self.chars, self.words) = (self.chars.on(cpu), self.words.on(cpu));
        self
    }

    /// Writes it to `path`.
    pub fn save(self, path: &Path, precision: Precision) -> Result<()> {
        let Tagger { vocabulary, counting, chars, words, vectors, .. } = self;
        let task = TaggerTask { task: "tagger".into(), vocabulary, counting };
        let bundle = Bundle {
            task: serde_json::to_value(task).map_err(|e| Error::Data(e.to_string()))?,
            networks: BTreeMap::from([("char".into(), chars), ("word".into(), words)]),
            tables: BTreeMap::from([("vectors".into(), vectors)]),
        };
        Ok(bundle.save(path, precision)?)
    }

    /// Loads a tagger from its file.
    pub fn load(path: &Path) -> Result<Tagger> {
        Tagger::from_bundle(Bundle::load(path)?)
            .map_err(|e| Error::Data(format!("{}: {e}", path.display())))
    }

    /// Reads a tagger from the bytes of its file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Tagger> {
        Tagger::from_bundle(Bundle::from_bytes(bytes)?)
    }

    /// A tagger of networks and tables that were read.
    pub fn from_bundle(mut bundle: Bundle) -> Result<Tagger> {
        let refuse = |why: &str| Error::Data(format!("is not a tagger: {why}"));
        let TaggerTask { task, vocabulary, counting } =
            serde_json::from_value(bundle.task).map_err(|e| refuse(&e.to_string()))?;
        if task != "tagger" {
            return Err(refuse(&format!("task {task:?}")));
        }
        let mut network =
            |name: &str| bundle.networks.remove(name).ok_or_else(|| refuse("a network is missing"));
        let (chars, words) = (network("char")?, network("word")?);
        let vectors = bundle.tables.remove("vectors").ok_or_else(|| refuse("no word vectors"))?;
        // After training, learned and frozen vectors are the same.
        let (char_spec, word_spec) = (chars.spec().clone(), words.spec().clone());
        let mut net = TaggerNet::of(&vocabulary, char_spec, word_spec, Some(vectors))?;
        let vectors = net.frozen.take().ok_or_else(|| refuse("no word vectors"))?;
        Ok(Tagger { vocabulary, counting, net, chars, words, vectors })
    }

    /// Characters, words and tags.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Which lines of a treebank it was trained on.
    pub fn counting(&self) -> Counting {
        self.counting
    }

    /// Its networks.
    pub fn net(&self) -> &TaggerNet {
        &self.net
    }

    /// All parameters, in the order of [`TaggerNet::ranges`]; the vectors of words where they are not
    /// frozen.
    pub fn params(&self) -> Vec<f32> {
        let vectors = if self.net.frozen.is_some() { &[] } else { &self.vectors.values[..] };
        [self.chars.params(), self.words.params(), vectors].concat()
    }

    /// The number of parameters, with the vectors of words.
    pub fn parameters(&self) -> usize {
        self.chars.params().len() + self.words.params().len() + self.vectors.values.len()
    }

    /// The most probable tag for a word's logits `y`, and its probability among the tags of words.
    pub fn best(&self, y: &[f32]) -> (&str, f64) {
        let of_words = || self.vocabulary.tags().iter().zip(y).filter(|(tag, _)| *tag != NO_WORD);
        let largest = of_words().map(|(_, y)| *y).fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = of_words().map(|(_, y)| f64::from(y - largest).exp()).sum();
        let tag = of_words().find(|(_, y)| **y == largest).map_or(NO_WORD, |(tag, _)| tag.as_str());
        (tag, 1.0 / total)
    }

    /// The vector of a word by its id.
    pub(super) fn vector(&self, word: u32) -> &[f32] {
        &self.vectors.values[word as usize * self.vectors.width..][..self.vectors.width]
    }

    /// The network that encodes spellings.
    pub fn char_model(&self) -> &Model {
        &self.chars
    }

    /// The network that tags words.
    pub fn word_model(&self) -> &Model {
        &self.words
    }

    /// The vectors of all words, row after row in the vocabulary's order.
    pub fn word_vectors(&self) -> &[f32] {
        &self.vectors.values
    }
}
