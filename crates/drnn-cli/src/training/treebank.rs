//! What the commands that tag have in common: treebanks as data, and scores for people.

use crate::Failure;
use crate::args::reading::Reading;
use crate::memory::Needs;
use crate::report::training_run::{Judged, most_frequent};
use drnn::text::grouped;
use drnn::{BundleTable, Cpu};
use drnn_tasks::tagger::{Counting, Limits, TaggerNet, Vocabulary};
use drnn_train::read;
use drnn_train::tagger::{
    self, Ratio, Scores, Sentence, Sentences, Sizes, TaggerLearner, read_sentences, with_special,
};
use drnn_train::{Estimate, Options, PaperNet};
use std::path::Path;

/// A treebank's parts as numbers.
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
}

impl Treebank {
    /// Reads the parts to learn from, to judge by and to test with. The first two must be there.
    pub fn read(
        files: [Option<&Path>; 3],
        counting: Counting,
        vectors: Option<&Path>,
        tuned: bool,
        limits: &Limits,
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
            return Err(Failure::Input("no sentences to learn from".into()));
        };
        let mut notes = Vec::new();
        let (known, vectors) = match vectors {
            None => (None, None),
            Some(path) => {
                let (words, table) = read_vectors(reading.open(path)?, limits.words, &mut notes)?;
                names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
                (Some(words), Some(table))
            }
        };
        let tokens = train.iter().flat_map(|sentence| tagger::tokens(counting, sentence));
        let vocabulary = Vocabulary::of(tokens, known, limits)?;
        let encode = |sentences: &[Sentence]| tagger::encode(counting, &vocabulary, sentences);
        let (train, dev) = (encode(train), rest.first().map(|dev| encode(dev)).unwrap_or_default());
        let test = rest.get(1).map(|test| encode(test));
        for (name, part) in [("dev", Some(&dev)), ("test", test.as_ref())] {
            let others = part.map_or(0, |part| {
                part.words().iter().filter(|w| w.tag == drnn_train::IGNORE).count()
            });
            if others > 0 {
                notes.push(format!(
                    "{name}: {} words have tags that do not occur in the training part; they count as wrong",
                    grouped(others)
                ));
            }
        }
        Ok(Treebank { counting, vocabulary, train, dev, test, vectors, tuned, names, notes })
    }

    /// The two networks for it.
    fn net(&self, nets: [PaperNet; 2], sizes: &Sizes) -> Result<TaggerNet, Failure> {
        let width = self.vectors.as_ref().map_or(sizes.word, |table| table.width);
        let sizes = Sizes { word: width, ..*sizes };
        let frozen = self.vectors.clone().filter(|_| !self.tuned);
        Ok(sizes.build(&self.vocabulary, nets, frozen)?)
    }

    /// The memory that training them takes.
    pub fn needs(
        &self,
        nets: [PaperNet; 2],
        sizes: &Sizes,
        batch: usize,
        threads: usize,
    ) -> Result<Needs, Failure> {
        let parts: Vec<&Sentences> =
            [&self.train, &self.dev].into_iter().chain(&self.test).collect();
        Ok(Estimate::tagger(&self.net(nets, sizes)?, &parts, batch, threads).into())
    }

    /// The two networks, to be trained.
    pub fn learner(
        &self,
        cpu: &Cpu,
        nets: [PaperNet; 2],
        sizes: &Sizes,
        options: &Options,
    ) -> Result<TaggerLearner, Failure> {
        let net = self.net(nets, sizes)?;
        let learner = TaggerLearner::new(cpu, net, options.adam, options.seed);
        Ok(match &self.vectors {
            Some(table) if self.tuned => learner.with_vectors(table)?,
            _ => learner,
        })
    }

    /// What it is, with everything that changes a training.
    pub fn describe(&self) -> String {
        let words = |part: Option<&Sentences>| grouped(part.map_or(0, |part| part.words().len()));
        let vectors = match &self.vectors {
            Some(table) => {
                let how = if self.tuned { "tuned" } else { "as they are" };
                format!("{} vectors of {}, {how}", grouped(table.rows), table.width)
            }
            None => format!("{} vectors learned", grouped(self.vocabulary.words())),
        };
        format!(
            "{}: {} + {} + {} {}, {} symbols, {} tags, {vectors}",
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

    /// What was noticed while reading.
    pub fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// A word without a tag cannot be learned from.
fn check_tagged(path: &Path, sentence: &Sentence, counting: Counting) -> Result<(), Failure> {
    let missing = sentence.words().position(|token| token.tag == "_");
    match missing {
        Some(i) if counting == Counting::Words => Err(Failure::Input(format!(
            "{}:{}: word {} of the sentence that begins here has no tag (`_`)",
            path.display(),
            sentence.line,
            i + 1
        ))),
        _ => Ok(()),
    }
}

/// Words and their vectors, the first so many.
fn read_vectors(
    source: read::Source,
    most: usize,
    notes: &mut Vec<String>,
) -> Result<(Vec<String>, BundleTable), Failure> {
    let mut words = Vec::new();
    let vectors = read::vectors(source, |word| {
        let wanted = words.len() < most;
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

/// Accuracies on one part.
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
            "Accuracy on the {part} part, in percent. Known words are those that have a vector of their own."
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
            "By tag, {part} part{which}: number of words, recall and precision in percent."
        ),
        head: ["tag", "count", "recall", "precision"].map(String::from).into(),
        rows: rows.filter(|row| row[1] != "0" || row[3] != "none").collect(),
    }
}

/// What was taken for what.
pub fn confusion(vocabulary: &Vocabulary, scores: &Scores) -> Judged {
    Judged::confusion(vocabulary.tags(), &scores.confusion)
}
