//! Treebanks as training data, and the tables of a tagger's scores.

use crate::Failure;
use crate::args::characters::{MUCH, enough_symbols};
use crate::args::class_weights::{ClassWeights, described};
use crate::args::reading::Reading;
use crate::console::warning;
use crate::memory::Needs;
use crate::report::training_run::{Judged, most_frequent};
use crate::training::place::Place;
use crate::training::tagger::TaggerInTraining;
use drnn::text::grouped;
use drnn::{BundleTable, Cpu};
use drnn_tasks::tagger::{Counting, Limits, NO_WORD, SPECIAL, Tagger, TaggerNet, Vocabulary};
use drnn_train::baseline::{Baseline, tag_baseline};
use drnn_train::read;
use drnn_train::tagger::{
    self, Ratio, Scores, Sentence, Sentences, Sizes, put_vectors, read_sentences, with_special,
};
use drnn_train::{Engine, Options, PaperNet};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

/// The training, validation and test set of a tagger, encoded.
pub struct Treebank {
    pub counting: Counting,
    pub vocabulary: Vocabulary,
    pub train: Sentences,
    pub dev: Sentences,
    pub test: Option<Sentences>,
    /// Vectors that were read from a file, and whether they are trained.
    vectors: Option<BundleTable>,
    tuned: bool,
    names: Vec<String>,
    notes: Vec<String>,
    /// Describes the weights of tags, if there are any.
    weights: Option<String>,
}

/// Where the vocabulary of a treebank comes from.
#[derive(Clone, Copy)]
pub enum WordSource<'a> {
    /// The training set, as much of it as these limits allow.
    TrainingSet(&'a Limits),
    /// A tagger to start from.
    Tagger(&'a Tagger),
}

impl Treebank {
    /// Reads training, validation and test set; the first two are required.
    pub fn read(
        files: [Option<&Path>; 3],
        counting: Counting,
        vectors: Option<&Path>,
        tuned: bool,
        words: WordSource,
        reading: Reading,
    ) -> Result<Treebank, Failure> {
        let mut parts: Vec<Vec<Sentence>> = Vec::new();
        let mut names = Vec::new();
        for path in files.into_iter().flatten() {
            let sentences = read_sentences(path, reading.limits())?;
            for sentence in &sentences {
                check_tagged(path, sentence, counting)?;
            }
            parts.push(sentences);
            names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        let [train, rest @ ..] = parts.as_slice() else {
            return Err(Failure::Input("the training set is missing".into()));
        };
        let mut notes = Vec::new();
        let (known, vectors) = match vectors {
            None => (None, None),
            Some(path) => {
                let max = match words {
                    WordSource::TrainingSet(limits) => limits.words,
                    WordSource::Tagger(tagger) => tagger.vocabulary().words(),
                };
                let (words, table) = read_vectors(reading.open(path)?, max, &mut notes)?;
                names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
                (Some(words), Some(table))
            }
        };
        let tokens = || train.iter().flat_map(|sentence| tagger::tokens(counting, sentence));
        let vocabulary = match words {
            WordSource::TrainingSet(limits) => {
                let forms = tokens().map(|(form, _)| form);
                if let Some(note) = unknown_characters(forms, limits.alphabet) {
                    warning!("{}: {note}", names[0]);
                    notes.push(note);
                }
                Vocabulary::of(tokens(), known, limits)?
            }
            WordSource::Tagger(tagger) => tagger.vocabulary().clone(),
        };
        let encode = |sentences: &[Sentence]| tagger::encode(counting, &vocabulary, sentences);
        let (train, dev) = (encode(train), rest.first().map(|dev| encode(dev)).unwrap_or_default());
        let test = rest.get(1).map(|test| encode(test));
        for (name, part) in [("train", Some(&train)), ("dev", Some(&dev)), ("test", test.as_ref())]
        {
            let others = part.map_or(0, |part| {
                part.words().iter().filter(|w| w.tag == drnn_train::IGNORE).count()
            });
            if others > 0 {
                notes.push(format!(
                    "{name}: {} words have tags that {}; they {}",
                    grouped(others),
                    match words {
                        WordSource::TrainingSet(_) => "do not occur in the training set",
                        WordSource::Tagger(_) => "the model does not know",
                    },
                    if name == "train" { "are not trained on" } else { "count as wrong" }
                ));
            }
        }
        let weights = None;
        Ok(Treebank {
            counting,
            vocabulary,
            train,
            dev,
            test,
            vectors,
            tuned,
            names,
            notes,
            weights,
        })
    }

    /// The same with weights of tags in training, if they are given.
    pub fn weighted(
        mut self,
        given: Option<&ClassWeights>,
        reading: Reading,
    ) -> Result<Treebank, Failure> {
        let Some(given) = given else { return Ok(self) };
        let tags = self.vocabulary.tags();
        let mut counts = vec![0; tags.len()];
        for word in self.train.words().iter().filter(|word| word.tag != drnn_train::IGNORE) {
            counts[word.tag as usize] += 1;
        }
        let weights = given.of(tags, &counts, reading)?;
        self.weights = Some(described(tags, &weights));
        self.train = self.train.with_tag_weights(weights);
        Ok(self)
    }

    /// The first sentences of each part, for trials; the vocabulary stays.
    pub fn first(mut self, sentences: usize) -> Treebank {
        self.train = self.train.first(sentences);
        self.dev = self.dev.first(sentences);
        self.test = self.test.map(|test| test.first(sentences));
        self
    }

    /// The accuracy of the most frequent tag of each word.
    pub fn baseline(&self, test: Option<&Sentences>) -> Baseline {
        let no_word = self.vocabulary.tag(NO_WORD);
        tag_baseline(&self.train, &self.dev, test, no_word)
    }

    /// The two networks of a tagger for this data.
    pub fn net(&self, nets: [PaperNet; 2], sizes: &Sizes) -> Result<TaggerNet, Failure> {
        let width = self.vectors.as_ref().map_or(sizes.word, |table| table.width);
        let sizes = Sizes { word: width, ..*sizes };
        let frozen = self.vectors.clone().filter(|_| !self.tuned);
        Ok(sizes.build(&self.vocabulary, nets, frozen)?)
    }

    /// The memory to train them at `place`.
    pub fn needs(
        &self,
        place: &Place,
        net: &TaggerNet,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure> {
        let parts: Vec<&Sentences> =
            [&self.train, &self.dev].into_iter().chain(&self.test).collect();
        Ok(place.tagger_needs(net, &parts, options, threads)?)
    }

    /// The two networks, to be trained at `place`.
    pub fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        net: TaggerNet,
        options: &Options,
    ) -> Result<TaggerInTraining, Failure> {
        let mut engine = place.tagger(cpu, net, options)?;
        if let Some(table) = self.vectors.as_ref().filter(|_| self.tuned) {
            let mut state = engine.state()?;
            put_vectors(engine.net(), table, &mut state.params)?;
            engine.set_state(state)?;
        }
        Ok(engine)
    }

    /// A trained tagger.
    pub fn tagger(&self, engine: &mut TaggerInTraining) -> Result<Tagger, Failure> {
        let (params, net) = (engine.params()?, engine.net().clone());
        Ok(Tagger::new(self.vocabulary.clone(), self.counting, net, &params)?)
    }

    /// Describes the data; a checkpoint of other data is refused.
    pub fn describe(&self) -> String {
        let words = |part: Option<&Sentences>| grouped(part.map_or(0, |part| part.words().len()));
        let vectors = match &self.vectors {
            Some(table) => {
                let how = if self.tuned { "tuned" } else { "as they are" };
                format!("{} vectors of {}, {how}", grouped(table.rows), table.width)
            }
            None => format!("{} vectors learned", grouped(self.vocabulary.words())),
        };
        let weights = self.weights.as_ref().map_or(String::new(), |text| format!("; {text}"));
        format!(
            "{}: {} + {} + {} {}, {} symbols, {} tags, {vectors}{weights}",
            self.names.join(", "),
            words(Some(&self.train)),
            words(Some(&self.dev)),
            words(self.test.as_ref()),
            match self.counting {
                Counting::Words => "words",
                Counting::Lines => "lines",
            },
            self.vocabulary.symbols(),
            self.vocabulary.tags().len()
        )
    }

    /// Remarks on the data, for the report.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// A note on the characters of words that an alphabet of `size` does not have, if they are many.
fn unknown_characters<'a>(words: impl Iterator<Item = &'a str>, size: usize) -> Option<String> {
    let mut counts = HashMap::new();
    words.flat_map(str::chars).for_each(|c| *counts.entry(c).or_insert(0u64) += 1);
    let mut counts: Vec<(char, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|&(symbol, count)| (Reverse(count), symbol));
    let sum = |counts: &[(char, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    let known = counts.len().min(size.saturating_sub(SPECIAL));
    let unknown = sum(&counts[known..]) as f64 / sum(&counts).max(1) as f64;
    (unknown > MUCH).then(|| {
        let enough = enough_symbols(&counts) + SPECIAL;
        format!(
            "{:.2} % of the characters of words are not in the alphabet of {size}: --alphabet {enough} \
             would know all but 0.1 %",
            100.0 * unknown
        )
    })
}

/// Refuses a sentence with an untagged word.
fn check_tagged(path: &Path, sentence: &Sentence, counting: Counting) -> Result<(), Failure> {
    let missing = sentence.words().position(|token| token.tag == "_");
    match missing {
        Some(i) if counting == Counting::Words => Err(Failure::Input(format!(
            "{}:{}: word {} of the sentence that begins here has no tag (`_`); --tokens lines takes `_` \
             for a tag like any other",
            path.display(),
            sentence.line,
            i + 1
        ))),
        _ => Ok(()),
    }
}

/// The first `max_words` words and their vectors.
fn read_vectors(
    source: read::Source,
    max_words: usize,
    notes: &mut Vec<String>,
) -> Result<(Vec<String>, BundleTable), Failure> {
    let mut words = Vec::new();
    let vectors = read::vectors(source, |word| {
        let wanted = words.len() < max_words;
        if wanted {
            words.push(word.to_string());
        }
        wanted
    })?;
    let mut seen = std::collections::HashSet::new();
    words.retain(|word| vectors.get(word).is_some() && seen.insert(word.clone()));
    let values = words.iter().filter_map(|word| vectors.get(word)).flatten().copied().collect();
    if vectors.duplicates() > 0 {
        notes.push(format!(
            "{} words have more than one vector; the first counts",
            vectors.duplicates()
        ));
    }
    Ok((words, with_special(vectors.width(), values)))
}

fn percent(share: Ratio) -> String {
    share.value().map_or("none".into(), |value| format!("{:.2}", 100.0 * value))
}

/// Accuracy on one data set.
pub fn table(part: &str, scores: &Scores, counting: Counting) -> Judged {
    let row =
        |name: &str, share: Ratio| vec![name.into(), percent(share), grouped(share.total as usize)];
    let mut rows = vec![
        row("words", scores.words),
        row("known words", scores.known),
        row("unknown words", scores.unknown),
    ];
    if counting == Counting::Lines {
        rows.push(row("paper_acc: every line", scores.lines));
    }
    Judged::Table {
        caption: format!(
            "Accuracy on the {part} set, in per cent. Known words have a vector of their own."
        ),
        head: ["", "accuracy", "of"].map(String::from).into(),
        rows,
    }
}

/// Recall and precision of each tag.
pub fn by_tag(vocabulary: &Vocabulary, scores: &Scores, part: &str) -> Judged {
    let share = |value: Option<f64>| value.map_or("none".into(), |x| format!("{:.2}", 100.0 * x));
    let (shown, which) = most_frequent(&scores.confusion);
    let rows = shown.into_iter().map(|i| {
        let (confusion, name) = (&scores.confusion, vocabulary.tags()[i].clone());
        let [recall, precision] = [confusion.recall(i), confusion.precision(i)].map(share);
        vec![name, grouped(confusion.support(i) as usize), recall, precision]
    });
    Judged::Table {
        caption: format!(
            "By tag, {part} set{which}: the number of words, recall and precision in per cent."
        ),
        head: ["tag", "count", "recall", "precision"].map(String::from).into(),
        rows: rows.filter(|row| row[1] != "0" || row[3] != "none").collect(),
    }
}

/// The confusion matrix of the tags.
pub fn confusion(vocabulary: &Vocabulary, scores: &Scores) -> Judged {
    Judged::confusion(vocabulary.tags(), &scores.confusion)
}
