//! `drnn train tagger`: parts of speech, or any other tags of words.

use super::frame::{Job, More, Training};
use crate::Failure;
use crate::args::class_weights::ClassWeights;
use crate::args::reading::Reading;
use crate::files::model_file::{ModelFile, OpenedModel};
use crate::report::training_run::Judged;
use crate::training::start::{self, Start};
use crate::training::tagger::TaggerInTraining;
use crate::training::treebank::{Treebank, WordSource, by_tag, confusion, table};
use clap::{Args, ValueEnum};
use drnn::Import;
use drnn_tasks::tagger::{Counting, Limits, Tagger};
use drnn_train::read::MAX_CLASSES;
use drnn_train::tagger::{Scores, Sizes, TaggerValidation};
use drnn_train::{Given, Options, PaperNet, Plan, Validation};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Tag words: one network reads the characters of each word, another the words
///
/// Files are CoNLL-U (the tag is UPOS) or two columns (word TAB tag, a blank line between sentences), plain, gzip,
/// zstd or zip. The word network's delay is the latency in words; a delay of the char network costs nothing.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Training set
    #[arg(long, value_name = "FILE")]
    train: PathBuf,
    /// Validation set
    #[arg(long, value_name = "FILE")]
    dev: PathBuf,
    /// Test set
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// Network over characters: lstm, bilstm, dlstm-D
    #[arg(long = "char", value_name = "NET", default_value = "dlstm-1")]
    chars: PaperNet,
    /// Network over words: lstm, bilstm, dlstm-D
    #[arg(long = "word", value_name = "NET", default_value = "dlstm-1")]
    words: PaperNet,
    /// Units of the char network; a bidirectional one has half as many per direction
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(2..=4096))]
    char_units: u16,
    /// Units of the word network; a bidirectional one has 188 of 300 per direction
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u16).range(2..=4096))]
    word_units: u16,
    /// Dimension of character embeddings
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=4096))]
    symbol_width: u16,
    /// Dimension of word vectors that are learned
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    vector_width: u16,
    /// Word vectors as text (GloVe, word2vec); they are not trained
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Train these vectors too
    #[arg(long, requires = "vectors")]
    tune: bool,
    /// Size of the alphabet: the N most frequent characters; others are unknown
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(5..=20_000))]
    alphabet: u16,
    /// Without --vectors: words that occur less often are unknown
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    least_count: u16,
    /// Maximum number of words with a vector
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(5..=10_000_000))]
    most_words: u32,
    /// What to read from a treebank: its words, or every line, as the paper's authors do
    #[arg(long, value_enum, default_value = "words")]
    tokens: Tokens,
    /// Maximum number of tags
    #[arg(long, value_name = "N", default_value_t = MAX_CLASSES as u32, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    max_tags: u32,
    /// How much each tag counts in training: balanced (rare ones as much as frequent ones),
    /// TAG=WEIGHT,.. (others 1), or a file with a tag and its weight in each line
    #[arg(long, value_name = "balanced|LIST|FILE")]
    class_weights: Option<ClassWeights>,
    /// Start from this tagger instead of random parameters, with its networks and vocabulary; vectors
    /// of words are trained further
    #[arg(long, value_name = "MODEL", conflicts_with_all = [
        "chars", "words", "char_units", "word_units", "symbol_width", "vector_width", "vectors", "tune",
        "alphabet", "least_count", "most_words", "tokens", "max_tags",
    ])]
    from: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    training: Training,
}

/// Which lines of a treebank are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tokens {
    Words,
    Lines,
}

impl From<Tokens> for Counting {
    fn from(tokens: Tokens) -> Counting {
        match tokens {
            Tokens::Words => Counting::Words,
            Tokens::Lines => Counting::Lines,
        }
    }
}

/// The paper's options, batches of 32 sentences for 20 epochs, where there are enough sentences; on
/// fewer, smaller batches or more epochs, for 2,000 updates.
pub fn suggested(sentences: usize, given: Given) -> Options {
    let plan = Plan { updates: 2000, epochs: 20, max_epochs: 200, batch: 32, min_batch: 4 };
    let (batch, epochs) = plan.batch_and_epochs(sentences, given);
    Options { epochs, batch, ..Options::default() }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = SystemTime::now();
    let Arguments { training, chars, words, .. } = arguments;
    let cpu = training.cpu()?;
    let place = training.running.place.find()?;
    let limits = Limits {
        alphabet: arguments.alphabet.into(),
        min_count: arguments.least_count.into(),
        words: arguments.most_words as usize,
        tags: arguments.max_tags as usize,
    };
    let files = [Some(&arguments.train), Some(&arguments.dev), arguments.test.as_ref()];
    let vectors = arguments.vectors.as_deref();
    let files = files.map(|file| file.map(PathBuf::as_path));
    let known = arguments.from.as_deref().map(read_tagger).transpose()?;
    let (words_from, counting) = match &known {
        Some(tagger) => (WordSource::Tagger(tagger), tagger.counting()),
        None => (WordSource::TrainingSet(&limits), arguments.tokens.into()),
    };
    let tune = arguments.tune;
    let bank = Treebank::read(files, counting, vectors, tune, words_from, arguments.reading)?
        .weighted(arguments.class_weights.as_ref(), arguments.reading)?;
    let options = training.options.options(suggested(bank.train.len(), training.options.given()));
    let net = match &known {
        Some(tagger) => tagger.net().clone(),
        None => bank.net([*chars, *words], &arguments.sizes())?,
    };
    let start = arguments.from.as_deref().zip(known.as_ref());
    let start = start.map(|(path, tagger)| Start::new(path, tagger.params()));
    let needs = bank.needs(&place, &net, &options, cpu.threads())?;
    let less = "fewer --word-units and --char-units or a smaller --batch";
    let needs = training.options.needs(needs, cpu.threads());
    needs.check_at(training.running.force, &place, less)?;
    let measured = |part| TaggerValidation::new(&bank.vocabulary, part);
    let (valid, test) = (measured(&bank.dev), bank.test.as_ref().map(measured));
    let job = Job {
        task: "tagger",
        what: Start::describe(start.as_ref(), bank.describe()),
        net: format!("char network {}\nword network {}", net.chars, net.words),
        latency: net.latency(),
        engine: &|options| {
            let mut engine = bank.engine(&place, &cpu, net.clone(), options)?;
            start.as_ref().map_or(Ok(()), |start| start.put_into(&mut engine))?;
            Ok(engine)
        },
        place: place.clone(),
        train: &bank.train,
        valid: &valid,
        test: test.as_ref().map(|test| test as &dyn Validation<TaggerInTraining>),
    };
    training.run(
        &cpu,
        started,
        options,
        job,
        |engine, path, precision| Ok(bank.tagger(engine)?.save(path, precision)?),
        |engine| {
            let tagger = bank.tagger(engine)?.on(&cpu);
            let (mut judged, mut scored): (Vec<Judged>, _) = (Vec::new(), [0; 2]);
            for (name, data) in [("validation", Some(&bank.dev)), ("test", bank.test.as_ref())] {
                if let Some(data) = data {
                    let scores = Scores::of(&tagger, data)?;
                    scored[usize::from(name == "test")] = scores.words.total as usize;
                    judged.push(table(name, &scores, bank.counting));
                    if name == "validation" {
                        judged.push(confusion(tagger.vocabulary(), &scores));
                        judged.push(by_tag(tagger.vocabulary(), &scores, name));
                    }
                }
            }
            let (baselines, scored) = (vec![bank.baseline(bank.test.as_ref())], Some(scored));
            Ok(More { judged, notes: bank.notes(), baselines, scored })
        },
    )
}

/// A tagger to start from.
fn read_tagger(path: &Path) -> Result<Tagger, Failure> {
    let opened = OpenedModel::read(path, &Import::default())?;
    let ModelFile::Several(bundle) = opened.file else {
        return Err(start::refuse(path, "is no tagger, but a model of one network"));
    };
    Tagger::from_bundle(bundle).map_err(|e| start::refuse(path, &e.to_string()))
}

impl Arguments {
    fn sizes(&self) -> Sizes {
        let (chars, words) = (usize::from(self.char_units), usize::from(self.word_units));
        let paper = Sizes::default();
        Sizes {
            symbol: self.symbol_width.into(),
            chars,
            both_chars: (chars / 2).max(1),
            word: self.vector_width.into(),
            words,
            both_words: (words * paper.both_words / paper.words).max(1),
        }
    }
}
