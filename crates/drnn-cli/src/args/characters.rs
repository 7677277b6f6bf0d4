//! A text on the command line as masked characters, for `train` and `sweep`.

use crate::Failure;
use crate::args::reading::Reading;
use crate::args::shape::Shape;
use crate::console::{note, warning};
use clap::Args;
use drnn::text::grouped;
use drnn::{NetSpec, NetSpecBuilder, Padding};
use drnn_tasks::chars::{Alphabet, CharTask};
use drnn_train::baseline::{Baseline, character_baselines};
use drnn_train::chars::{EMBEDDING, Held, Masked, Masking, SHARE, WINDOW, split};
use drnn_train::read::{Input, Source as Opened, Symbols};
use drnn_train::{Dataset, Given, Options, Plan, Schedule, seed};
use std::convert::Infallible;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// A text, and how it becomes training, validation and test data.
#[derive(Debug, Args)]
pub struct CharsArguments {
    /// The text, UTF-8; plain, or compressed with gzip, zstd or zip
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Read only the first N characters
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    first: Option<u64>,
    /// The model's alphabet, \n for a line end [default: the characters of the text]
    #[arg(long, value_name = "CHARACTERS", conflicts_with = "symbols")]
    alphabet: Option<String>,
    /// Size of the alphabet: the N most frequent characters of the text
    #[arg(long, value_name = "N", default_value_t = 255, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    symbols: u32,
    /// Characters per window, T
    #[arg(long, value_name = "T", default_value_t = WINDOW as u32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    window: u32,
    /// Fraction of characters that are masked
    #[arg(long, value_name = "SHARE", default_value_t = SHARE)]
    pub mask: f64,
    /// Embedding dimension of a character
    #[arg(long, value_name = "E", default_value_t = EMBEDDING as u16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    embedding: u16,
    /// Validation set: a fraction of the text or a number of characters, taken before the test set;
    /// or another file
    #[arg(long, value_name = "SHARE|N|FILE", default_value = "0.05")]
    valid: HeldOut,
    /// Test set, likewise: the end of the text; 0 for none
    #[arg(long, value_name = "SHARE|N|FILE", default_value = "0.05")]
    test: HeldOut,
    #[command(flatten)]
    reading: Reading,
}

/// A validation or test set.
#[derive(Debug, Clone)]
enum HeldOut {
    Part(Held),
    File(PathBuf),
}

impl FromStr for HeldOut {
    type Err = Infallible;
    /// Anything but a number is the name of a file.
    fn from_str(text: &str) -> Result<HeldOut, Infallible> {
        Ok(text.parse().map_or_else(|_| HeldOut::File(text.into()), HeldOut::Part))
    }
}

impl HeldOut {
    fn held(&self) -> Held {
        match self {
            HeldOut::Part(held) => *held,
            HeldOut::File(_) => Held::Characters(0),
        }
    }
}

impl CharsArguments {
    pub fn window(&self) -> usize {
        self.window as usize
    }

    /// Opens the text, up to `--first` characters of it.
    fn open(&self, text: &Input) -> Result<Opened, Failure> {
        let source = text.open()?;
        Ok(self.first.into_iter().fold(source, Opened::first_characters))
    }

    /// The alphabet, and the number of symbols that would leave next to nothing unknown.
    fn alphabet(&self, text: &Input) -> Result<(Alphabet, Option<usize>), Failure> {
        let characters =
            |text: &str| text.replace("\\n", "\n").replace("\\t", "\t").chars().collect();
        if let Some(given) = &self.alphabet {
            let alphabet = Alphabet::new(characters(given));
            let alphabet = alphabet.map_err(|e| Failure::Input(format!("--alphabet: {e}")))?;
            return Ok((alphabet, None));
        }
        let counts = drnn_train::read::character_counts(self.open(text)?)?;
        let symbols = counts.iter().take(self.symbols as usize).map(|(symbol, _)| *symbol);
        Ok((Alphabet::new(symbols.collect())?, Some(enough_symbols(&counts))))
    }
}

/// A text split into training, validation and test set, with its alphabet.
pub struct Characters {
    pub alphabet: Alphabet,
    embedding: usize,
    pub window: usize,
    /// Fraction of characters that are masked.
    mask: f64,
    /// Describes the data in a line; a checkpoint of other data is refused.
    pub what: String,
    /// For stderr and the report.
    pub notes: Vec<String>,
    /// Whether the first note is a warning: much of the text is not in the alphabet.
    much_unknown: bool,
    pub train: Masked,
    pub valid: Masked,
    pub test: Option<Masked>,
}

impl Characters {
    /// `seed` draws the masks. The alphabet is that of `known`, if there is such a model.
    pub fn read(
        arguments: &CharsArguments,
        seed: u64,
        known: Option<&CharTask>,
    ) -> Result<Characters, Failure> {
        let CharsArguments { text, mask, valid, test, .. } = arguments;
        let input = arguments.reading.input(text)?;
        let (alphabet, enough) = match known {
            Some(task) => (task.alphabet().clone(), None),
            None => arguments.alphabet(&input)?,
        };
        let window = arguments.window();
        let symbols = Arc::new(Symbols::read(arguments.open(&input)?, &alphabet)?);
        let unknown_share = symbols.unknown() as f64 / symbols.len().max(1) as f64;
        let advice = advice(alphabet.len(), enough, unknown_share);
        let mut notes: Vec<String> =
            unknown(text, &symbols).map(|note| format!("{note}{advice}")).into_iter().collect();
        let [train, held_valid, held_test] = split(symbols.len(), valid.held(), test.held())?;
        let mut masked = |name: &str, number: u64, apart: Option<(&HeldOut, Range<usize>)>| {
            let (text, range) = match apart {
                None => (symbols.clone(), train.clone()),
                Some((HeldOut::Part(_), range)) => (symbols.clone(), range),
                Some((HeldOut::File(path), _)) => {
                    let text = Arc::new(Symbols::read(arguments.reading.open(path)?, &alphabet)?);
                    notes.extend(unknown(path, &text));
                    let range = 0..text.len();
                    (text, range)
                }
            };
            let seed = seed::derive(seed, &[number]);
            let masking = Masking { window, share: *mask, mask: alphabet.unknown(), seed };
            Ok::<_, Failure>(Masked::new(name, text, range, masking)?)
        };
        let none = matches!(test, HeldOut::Part(_)) && held_test.is_empty();
        let train = masked("the training set", 1, None)?;
        let valid = masked("the validation set (--valid)", 2, Some((valid, held_valid)))?;
        let test = match none {
            true => None,
            false => Some(masked("the test set (--test)", 3, Some((test, held_test)))?),
        };
        let characters: String = alphabet.symbols().iter().take(40).collect();
        let what = format!(
            "{}: {} characters to train, {} to validate, {} to test; {} known ones, {characters:?}{}; windows of \
             {window}, {mask} masked",
            text.display(),
            grouped(train.characters()),
            grouped(valid.characters()),
            grouped(test.as_ref().map_or(0, Masked::characters)),
            alphabet.len(),
            if alphabet.len() > 40 { ".." } else { "" },
        );
        let embedding = arguments.embedding.into();
        let much_unknown = unknown_share > MUCH;
        Ok(Characters {
            alphabet,
            embedding,
            window,
            mask: *mask,
            what,
            notes,
            much_unknown,
            train,
            valid,
            test,
        })
    }

    /// Training and validation set, and the test set if there is one.
    pub fn parts(&self) -> Vec<&dyn Dataset> {
        let parts = [Some(&self.train), Some(&self.valid), self.test.as_ref()];
        parts.into_iter().flatten().map(|part| part as &dyn Dataset).collect()
    }

    /// Bits per masked character by frequencies alone.
    pub fn baselines(&self) -> Vec<Baseline> {
        character_baselines(&self.train, &self.valid, self.test.as_ref())
    }

    /// Prints the notes.
    pub fn print_notes(&self) {
        for (i, note) in self.notes.iter().enumerate() {
            match self.much_unknown && i == 0 {
                true => warning!("{note}"),
                false => note!("{note}"),
            }
        }
    }

    /// Input and outputs of a network.
    pub fn data(&self) -> impl Fn(NetSpecBuilder) -> NetSpecBuilder {
        let (classes, embedding) = (self.alphabet.len(), self.embedding);
        move |builder| builder.tokens(classes + 1, embedding).outputs(classes)
    }

    /// A network for this text. A delayed one reads on after its window (look-ahead padding).
    pub fn spec(&self, shape: &Shape) -> Result<NetSpec, Failure> {
        Ok(shape.spec(Padding::LookAhead, self.data())?)
    }

    /// What the model file says about its data.
    pub fn task(&self) -> CharTask {
        CharTask::new(self.alphabet.clone(), self.window, self.mask)
    }

    /// Options that suit the length of the text: 20 epochs or more, and 4,000 updates.
    /// docs/TRAINING.md has the measurements.
    pub fn options(&self, given: Given) -> Options {
        let plan = Plan { updates: 4000, epochs: 20, max_epochs: 1000, batch: 128, min_batch: 8 };
        let (batch, epochs) = plan.batch_and_epochs(self.train.len(), given);
        Options { epochs, batch, rate: 4e-3, schedule: Schedule::Cosine, ..Options::default() }
    }
}

/// A share of characters outside the alphabet from which on it is said loudly.
pub const MUCH: f64 = 0.01;
/// The share that a sufficient alphabet leaves out.
const LITTLE: f64 = 0.001;

/// How many of the most frequent characters make up all of a text but [`LITTLE`].
pub fn enough_symbols(counts: &[(char, u64)]) -> usize {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut left = all;
    let covers = |(_, count): &(char, u64)| {
        left -= count;
        left as f64 <= LITTLE * all as f64
    };
    counts.iter().position(covers).map_or(counts.len(), |last| last + 1)
}

/// What to do about characters that are not in an alphabet of `symbols`.
fn advice(symbols: usize, enough: Option<usize>, unknown: f64) -> String {
    let share = format!("; these are {:.2} % of the text", 100.0 * unknown);
    match enough {
        None => format!("{share}: a longer --alphabet knows more"),
        Some(enough) if enough > symbols => {
            format!("{share}: --symbols {enough} would know all but 0.1 %")
        }
        Some(_) => share,
    }
}

/// A note on characters that are not in the alphabet, if there are any.
pub fn unknown(path: &Path, symbols: &Symbols) -> Option<String> {
    (symbols.unknown() > 0).then(|| {
        format!(
            "{}: {} of {} characters are not in the alphabet; they are read as masks and never predicted",
            path.display(),
            grouped(symbols.unknown() as usize),
            grouped(symbols.len())
        )
    })
}
