//! The most frequent tag of each word.

use super::Baseline;
use crate::loss::IGNORE;
use crate::tagger::{Sentences, Word};
use std::collections::HashMap;

/// Accuracy of the tag that a word most often has in the training part; of a word that is not there, the
/// most frequent tag of all. `no_word` is the tag of lines that are no words and do not count.
pub fn tag_baseline(
    train: &Sentences,
    valid: &Sentences,
    test: Option<&Sentences>,
    no_word: Option<u32>,
) -> Baseline {
    let counts = |word: &Word| word.tag != IGNORE && Some(word.tag) != no_word;
    let mut by_word: HashMap<u32, HashMap<u32, u64>> = HashMap::new();
    let mut all: HashMap<u32, u64> = HashMap::new();
    for word in train.words().iter().filter(|word| counts(word)) {
        *by_word.entry(word.word).or_default().entry(word.tag).or_default() += 1;
        *all.entry(word.tag).or_default() += 1;
    }
    let majority = most_frequent(&all);
    let tags: HashMap<u32, Option<u32>> =
        by_word.iter().map(|(word, tags)| (*word, most_frequent(tags))).collect();
    let accuracy = |data: &Sentences| {
        let scored = || data.words().iter().filter(|word| Some(word.tag) != no_word);
        let tag = |word: &Word| tags.get(&word.word).copied().flatten().or(majority);
        let correct = scored().filter(|word| tag(word) == Some(word.tag)).count();
        let total = scored().count();
        (total > 0).then(|| correct as f64 / total as f64)
    };
    Baseline {
        name: "most frequent tag".into(),
        what: "the most frequent tag of the word; of unknown words, of all words".into(),
        valid: accuracy(valid),
        test: test.and_then(accuracy),
    }
}

/// Of equally frequent ones the first.
fn most_frequent(counts: &HashMap<u32, u64>) -> Option<u32> {
    let best = counts.iter().max_by_key(|(tag, count)| (**count, std::cmp::Reverse(**tag)));
    best.map(|(tag, _)| *tag)
}
