//! Ids of characters, words and tags.

use crate::MAX_CLASSES;
use crate::error::{Error, Result};
use crate::text::listed;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// The id of characters and words that did not occur in training.
pub const UNKNOWN: u32 = 0;
/// The id of the start marker of a word or sentence.
pub const BEGIN: u32 = 1;
/// The id of the end marker.
pub const END: u32 = 2;
/// The id of padding, which a delayed network reads after the end.
pub const PAD: u32 = 3;
/// The number of special ids; the ids of characters and words start here.
pub const SPECIAL: usize = 4;

/// Special ids after the last word of a sentence: END, then a PAD per step of the word net's delay.
pub fn after_last(delay: usize) -> impl Iterator<Item = u32> {
    std::iter::once(END).chain(std::iter::repeat_n(PAD, delay))
}

/// Maximum symbols of a word that are read, including BEGIN and END.
pub const MAX_SYMBOLS: usize = 75;

/// Limits on the size of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum symbols, including special ones.
    pub alphabet: usize,
    /// Words that occur less often are unknown, so that the network learns to handle such words.
    pub min_count: usize,
    /// Maximum words, including special ones.
    pub words: usize,
    /// Maximum tags; more are an error.
    pub tags: usize,
}

impl Default for Limits {
    /// The paper's alphabet of 100; words that occur twice.
    fn default() -> Limits {
        Limits { alphabet: 100, min_count: 2, words: 1_000_000, tags: MAX_CLASSES }
    }
}

/// Characters, words and tags with their ids.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Names", into = "Names")]
pub struct Vocabulary {
    names: Names,
    symbols: HashMap<char, u32>,
    words: HashMap<String, u32>,
    tags: HashMap<String, u32>,
}

/// The JSON form.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Names {
    /// In the order of their ids, from [`SPECIAL`].
    symbols: String,
    /// In the order of their ids, from [`SPECIAL`].
    words: Vec<String>,
    /// In the order of their ids, from 0.
    tags: Vec<String>,
}

/// Ids from `first`.
fn numbered<T: Hash + Eq + Clone>(names: &[T], first: usize) -> HashMap<T, u32> {
    names.iter().cloned().zip(first as u32..).collect()
}

impl TryFrom<Names> for Vocabulary {
    type Error = String;
    fn try_from(names: Names) -> std::result::Result<Vocabulary, String> {
        let symbols: Vec<char> = names.symbols.chars().collect();
        let vocabulary = Vocabulary {
            symbols: numbered(&symbols, SPECIAL),
            words: numbered(&names.words, SPECIAL),
            tags: numbered(&names.tags, 0),
            names,
        };
        let found = (vocabulary.symbols.len(), vocabulary.words.len(), vocabulary.tags.len());
        let Names { words, tags, .. } = &vocabulary.names;
        match found == (symbols.len(), words.len(), tags.len()) {
            true => Ok(vocabulary),
            false => Err("a symbol, word or tag occurs twice".into()),
        }
    }
}

impl From<Vocabulary> for Names {
    fn from(vocabulary: Vocabulary) -> Names {
        vocabulary.names
    }
}

/// Sorted by frequency, the most frequent first; ties in their natural order.
fn by_frequency<T: Ord>(counts: HashMap<T, usize>) -> Vec<(T, usize)> {
    let mut all: Vec<(T, usize)> = counts.into_iter().collect();
    all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

impl Vocabulary {
    /// The vocabulary of words with their tags. `known` words, such as those with given vectors, get
    /// the ids from [`SPECIAL`], whether they occur or not; None takes the words that occur.
    pub fn of<'a>(
        tokens: impl Iterator<Item = (&'a str, &'a str)>,
        known: Option<Vec<String>>,
        limits: &Limits,
    ) -> Result<Vocabulary> {
        let (mut symbols, mut words, mut tags) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (form, tag) in tokens {
            form.chars().for_each(|c| *symbols.entry(c).or_insert(0) += 1);
            *words.entry(form).or_insert(0) += 1;
            *tags.entry(tag).or_insert(0) += 1;
        }
        if tags.is_empty() {
            return Err(Error::Data("no words to train on".into()));
        }
        if tags.len() > limits.tags {
            return Err(Error::Data(format!(
                "the training part has {} different tags, such as {}, more than {}; is the tag in \
                 the right column? --max-tags N allows more",
                drnn::text::grouped(tags.len()),
                listed(tags.keys().copied().collect::<BTreeSet<_>>().into_iter().take(3)),
                drnn::text::grouped(limits.tags)
            )));
        }
        let max_symbols = limits.alphabet.saturating_sub(SPECIAL);
        let symbols = by_frequency(symbols).into_iter().map(|(c, _)| c).take(max_symbols).collect();
        let words = known.unwrap_or_else(|| {
            let often = by_frequency(words).into_iter();
            let often = often.take_while(|(_, count)| *count >= limits.min_count);
            let max_words = limits.words.saturating_sub(SPECIAL);
            often.take(max_words).map(|(word, _)| word.to_string()).collect()
        });
        let mut tags: Vec<String> = tags.into_keys().map(String::from).collect();
        tags.sort_unstable();
        Vocabulary::try_from(Names { symbols, words, tags }).map_err(Error::Data)
    }

    /// The number of symbols, including special ones.
    pub fn symbols(&self) -> usize {
        SPECIAL + self.symbols.len()
    }

    /// The number of words, including special ones.
    pub fn words(&self) -> usize {
        SPECIAL + self.names.words.len()
    }

    /// The tags in the order of their ids.
    pub fn tags(&self) -> &[String] {
        &self.names.tags
    }

    /// A word's id: as written, else in lower case, else [`UNKNOWN`].
    pub fn word(&self, form: &str) -> u32 {
        let lower = || self.words.get(&form.to_lowercase());
        self.words.get(form).or_else(lower).copied().unwrap_or(UNKNOWN)
    }

    /// A tag's id.
    pub fn tag(&self, name: &str) -> Option<u32> {
        self.tags.get(name).copied()
    }

    /// Appends the symbols of a word, at most [`MAX_SYMBOLS`].
    pub fn spell(&self, form: &str, to: &mut Vec<u32>) {
        let symbol = |c| self.symbols.get(&c).copied().unwrap_or(UNKNOWN);
        to.push(BEGIN);
        to.extend(form.chars().take(MAX_SYMBOLS - 2).map(symbol));
        to.push(END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_by_frequency() {
        let tokens =
            [("the", "DET"), ("Ant", "NOUN"), ("the", "DET"), ("ant", "X"), ("ant", "NOUN")];
        let limits = Limits { alphabet: 7, ..Limits::default() };
        let found = Vocabulary::of(tokens.into_iter(), None, &limits).unwrap();
        assert_eq!(found.tags(), ["DET", "NOUN", "X"]);
        assert_eq!((found.symbols(), found.words()), (7, 6)); // t, n, a
        assert_eq!(["ant", "the", "Ant", "THE", "x"].map(|w| found.word(w)), [4, 5, 4, 5, UNKNOWN]);
        assert_eq!((found.tag("NOUN"), found.tag("VERB")), (Some(1), None));
        let mut symbols = Vec::new();
        found.spell("that", &mut symbols);
        assert_eq!(symbols, [BEGIN, 4, UNKNOWN, 6, 4, END]);
        symbols.clear();
        found.spell(&"t".repeat(500), &mut symbols);
        assert_eq!((symbols.len(), symbols[MAX_SYMBOLS - 1]), (MAX_SYMBOLS, END));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Vocabulary>(&text).unwrap(), found);
        assert!(serde_json::from_str::<Vocabulary>(&text.replace("NOUN", "DET")).is_err());
        let few = Limits { tags: 2, ..limits };
        let message = Vocabulary::of(tokens.into_iter(), None, &few).unwrap_err().to_string();
        assert!(message.contains("3 different tags, such as `DET`"), "{message}");
        assert!(message.contains("--max-tags N"), "{message}");
        let known = Some(vec!["zebra".into()]);
        let found = Vocabulary::of(tokens.into_iter(), known, &limits).unwrap();
        assert_eq!((found.words(), found.word("zebra"), found.word("the")), (5, 4, UNKNOWN));
    }
}
