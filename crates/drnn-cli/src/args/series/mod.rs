//! Series on the command line, for `train` and `sweep`: `--csv F --target y --sequence id`.
//!
//! | file | what |
//! |---|---|
//! | `choices` | values of the options |
//! | `ready` | the data, split, with what a training needs of them |

mod choices;
mod ready;

pub use ready::Ready;

use crate::Failure;
use crate::args::class_weights::{ClassWeights, described};
use crate::args::reading::Reading;
use crate::console::note;
use choices::{CycleName, Held, MissingName, TimeFormatName, delimiter, held};
use clap::Args;
use drnn::text::{counted, grouped, shortened};
use drnn_tasks::series::{Cycle, MAX_CATEGORIES, SeriesTask, TimeFormat};
use drnn_train::read::{Delimiter, Input, MAX_CLASSES};
use drnn_train::series::{
    Columns, InputChoice, InputRules, Parts, Sequences, Shares, from_arrays, from_table, learn_task,
};
use std::path::PathBuf;

/// Data files, and the role of their columns.
#[derive(Debug, Args)]
pub struct SeriesData {
    /// CSV table with a header line; plain, or compressed with gzip, zstd or zip
    #[arg(long, value_name = "F", required_unless_present = "x", conflicts_with_all = ["x", "y"])]
    csv: Option<PathBuf>,
    /// Instead of a table: inputs as a NumPy array [T, B, q]
    #[arg(long, value_name = "X", requires = "y")]
    x: Option<PathBuf>,
    /// And targets: [T, B, m] floats, or [T, B] integer classes, negative for none
    #[arg(long, value_name = "Y", requires = "x")]
    y: Option<PathBuf>,
    /// Columns to predict; a column of text holds classes
    #[arg(
        long,
        value_name = "COL,..",
        value_delimiter = ',',
        required_unless_present = "x",
        conflicts_with = "x"
    )]
    target: Vec<String>,
    /// Forecast: predict the target as it will be H steps after each row; several: 1,6,24. The
    /// target is then an input too
    #[arg(long, value_name = "H,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ahead: Vec<u32>,
    /// Input columns [default: all others but times]
    #[arg(long, value_name = "COL,..", value_delimiter = ',', conflicts_with = "x")]
    inputs: Option<Vec<String>>,
    /// Column with dates and times, read as sine and cosine of the hour of the day, the day of the
    /// week and the day of the year
    #[arg(long, value_name = "COL", conflicts_with = "x")]
    time: Option<String>,
    /// How dates and times are written [default: recognised, if they are not
    /// numbers]
    #[arg(long, value_enum, conflicts_with = "x")]
    time_format: Option<TimeFormatName>,
    /// Cycles that times are read as [default: those that the data show]
    #[arg(long, value_enum, value_name = "CYCLE,..", value_delimiter = ',', conflicts_with = "x")]
    cycles: Option<Vec<CycleName>>,
    /// Columns of categories, even if they look like numbers [default: columns of text]
    #[arg(long, value_name = "COL,..", value_delimiter = ',', conflicts_with = "x")]
    categories: Vec<String>,
    /// Maximum number of categories of a column, each of which is an input
    #[arg(long, value_name = "N", default_value_t = MAX_CATEGORIES as u32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_categories: u32,
    /// Column with the sequence that a row belongs to [default: all rows are one sequence]
    #[arg(long, value_name = "COL", conflicts_with = "x")]
    sequence: Option<String>,
    /// Treat a numeric target as a class
    #[arg(long, conflicts_with = "x")]
    classify: bool,
    /// What to do with missing inputs (empty, NA, NaN). Rows without a target are refused by refuse;
    /// otherwise the network reads them, and they do not count
    #[arg(long, value_enum, default_value = "refuse")]
    missing: MissingName,
    /// Column separator: one character, or tab [default: recognised]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Train on windows of at most W steps, plus the delay
    #[arg(long, value_name = "W", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,
    /// Validation set: a fraction of the sequences (or of the time of a single one), a CSV file, or
    /// X.npy,Y.npy
    #[arg(long, value_name = "SHARE|FILE", default_value = "0.1", value_parser = held)]
    valid: Held,
    /// Test set, likewise; 0 for none
    #[arg(long, value_name = "SHARE|FILE", default_value = "0.1", value_parser = held)]
    test: Held,
    /// Maximum number of classes of the target
    #[arg(long, value_name = "N", default_value_t = MAX_CLASSES as u32, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    max_classes: u32,
    /// How much each class counts in training: balanced (rare ones as much as frequent ones),
    /// CLASS=WEIGHT,.. (others 1), or a file with a class and its weight in each line
    #[arg(long, value_name = "balanced|LIST|FILE")]
    class_weights: Option<ClassWeights>,
    #[command(flatten)]
    reading: Reading,
}

impl SeriesData {
    /// Reads the data, splits them by `seed`, and computes scaling and classes, unless a model to start
    /// from has them: `known`.
    pub fn ready(&self, seed: u64, known: Option<&SeriesTask>) -> Result<Ready, Failure> {
        let missing = self.missing.into();
        let columns = match known {
            Some(task) => self.columns_of(task)?,
            None => self.columns(),
        };
        let files: Vec<PathBuf> =
            [&self.csv, &self.x, &self.y].into_iter().flatten().cloned().collect();
        let all = read_files(&files, &columns, self.reading)?;
        let mut notes = missing_notes(&all);
        if all.dropped > 0 && all.forecast.is_some() {
            notes.push("--ahead counts the rows that remain, not those that were left out.".into());
        }
        // Before a long training, so that a wrong guess is seen.
        all.notes.iter().for_each(|text| note!("{text}"));
        let share = |held: &Held| if let Held::Share(share) = held { *share } else { 0.0 };
        if self.valid == Held::Share(0.0) {
            let why = "--valid 0: a validation set is needed, apart from the training set";
            return Err(Failure::Input(why.into()));
        }
        let shares = Shares { valid: share(&self.valid), test: share(&self.test) };
        let what = self.describe(&files, &all);
        let classes = Some(all.is_classes());
        let Parts { mut train, mut valid, mut test } = all.part(shares, seed)?;
        if known.is_none() {
            let found = train.known_inputs()?;
            train.keep_inputs(&found);
            [&mut valid, &mut test].into_iter().flatten().for_each(|part| part.keep_inputs(&found));
        }
        let inputs = InputChoice::Known(train.columns.clone());
        let columns = Columns { inputs, classes, ..columns };
        let read_held = |held: &Held, part: Option<Sequences>| match held {
            Held::Share(_) => Ok(part),
            Held::Files(files) => read_files(files, &columns, self.reading).map(Some),
        };
        let (valid, test) = (read_held(&self.valid, valid)?, read_held(&self.test, test)?);
        let valid = valid.ok_or_else(|| {
            Failure::Input("the validation set is empty; --valid sets its size or file".into())
        })?;
        let parts =
            [(Some(&train), "training"), (Some(&valid), "validation"), (test.as_ref(), "test")];
        for (part, what) in parts.into_iter().filter_map(|(part, what)| Some((part?, what))) {
            if let Some(target) = part.without_targets() {
                return Err(Failure::Input(without_target(part, target, what)));
            }
            if part.unknown_categories > 0 {
                let n = grouped(part.unknown_categories);
                notes.push(format!(
                    "{n} fields of the {what} set have categories that the training set does not \
                     have; they are read as none of those that it has."
                ));
            }
        }
        let sequence = self.sequence.clone();
        let task = match known {
            Some(task) => SeriesTask { missing, sequence, ..task.clone() },
            None => learn_task(&train, missing, sequence)?,
        };
        notes.extend(constant(&task, &train));
        let prints = [Some(&train), Some(&valid), test.as_ref()].into_iter().flatten();
        let print = prints.fold(0, |print: u64, part| print.rotate_left(21) ^ part.fingerprint());
        let what = format!("{what}; windows of at most {}; data {print:016x}", self.window);
        let (window, class_weights) = (self.window as usize, self.weights(&task, &train)?);
        let what = match (&task.classes, &class_weights) {
            (Some(names), Some(weights)) => format!("{what}; {}", described(names, weights)),
            _ => what,
        };
        Ok(Ready { task, what, train, valid, test, notes, window, class_weights })
    }

    /// The weights of the task's classes, if there are any.
    fn weights(&self, task: &SeriesTask, train: &Sequences) -> Result<Option<Vec<f32>>, Failure> {
        let Some(given) = &self.class_weights else { return Ok(None) };
        let Some(names) = &task.classes else {
            let targets = joined(&task.targets);
            let why = format!("--class-weights: {targets} holds numbers, not classes; --classify");
            return Err(Failure::Input(format!("{why} makes a class of each")));
        };
        given.of(names, &train.class_counts(names), self.reading).map(Some)
    }

    fn columns(&self) -> Columns {
        Columns {
            inputs: InputChoice::Found(self.input_rules()),
            targets: self.target.clone(),
            ahead: self.horizons(),
            sequence: self.sequence.clone(),
            classes: self.classify.then_some(true),
            missing: self.missing.into(),
            delimiter: self.delimiter.map_or(Delimiter::default(), Delimiter::Exactly),
            max_classes: self.max_classes as usize,
            names_options: true,
        }
    }

    /// The columns of a model to start from.
    fn columns_of(&self, task: &SeriesTask) -> Result<Columns, Failure> {
        let (given, known) = (&self.target, task.target_columns());
        if self.csv.is_some() && given != known {
            return Err(Failure::Input(format!(
                "--target {}, but the model of --from predicts {}",
                given.join(","),
                known.join(",")
            )));
        }
        let Columns { delimiter, missing, sequence, names_options, .. } = self.columns();
        Ok(Columns { delimiter, missing, sequence, names_options, ..Columns::of(task) })
    }

    fn input_rules(&self) -> InputRules {
        let of = |cycles: &Vec<CycleName>| {
            let chosen: Vec<Cycle> = cycles.iter().map(|name| (*name).into()).collect();
            Cycle::ALL.into_iter().filter(|cycle| chosen.contains(cycle)).collect()
        };
        InputRules {
            names: self.inputs.clone(),
            time: self.time.clone(),
            time_format: self.time_format.map(TimeFormat::from),
            cycles: self.cycles.as_ref().map(of),
            categories: self.categories.clone(),
            max_categories: self.max_categories as usize,
        }
    }

    /// Steps ahead, in ascending order.
    fn horizons(&self) -> Vec<usize> {
        let mut ahead: Vec<usize> = self.ahead.iter().map(|h| *h as usize).collect();
        ahead.sort_unstable();
        ahead.dedup();
        ahead
    }

    fn describe(&self, files: &[PathBuf], all: &Sequences) -> String {
        let name =
            |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names: Vec<String> = files.iter().map(name).collect();
        let inputs = match all.inputs.len() {
            0..=6 => joined(&all.inputs),
            n => format!("{n} inputs"),
        };
        format!(
            "{}: {inputs} -> {}{}; {} steps in {}",
            names.join(", "),
            joined(&all.targets),
            if all.is_classes() { " (classes)" } else { "" },
            grouped(all.steps()),
            counted(all.len(), "sequence")
        )
    }
}

/// Reads tables, appended to each other, or two arrays.
pub fn read_files(
    files: &[PathBuf],
    columns: &Columns,
    reading: Reading,
) -> Result<Sequences, Failure> {
    let mut arrays = 0;
    let mut inputs: Vec<Input> = Vec::new();
    for path in files {
        let input = reading.input(path)?;
        arrays += usize::from(input.open()?.is_array());
        inputs.push(input);
    }
    match &inputs[..] {
        [] => Err(Failure::Input("no data".into())),
        [x, y] if arrays == 2 => {
            Ok(from_arrays(x, y, columns.missing, columns.max_classes, &columns.ahead)?)
        }
        [first, ..] if arrays > 0 => {
            let why = "arrays come in pairs: inputs X.npy, then targets Y.npy";
            Err(Failure::Input(format!("{}: {why}", first.path().display())))
        }
        [first, others @ ..] => {
            let mut all = from_table(first, columns)?;
            let inputs = InputChoice::Known(all.columns.clone());
            let columns = Columns { inputs, ..columns.clone() };
            for other in others {
                all.append(from_table(other, &columns)?)?;
            }
            Ok(all)
        }
    }
}

/// Names, each of them shortened.
fn joined(names: &[String]) -> String {
    names.iter().map(|name| shortened(name, 60)).collect::<Vec<_>>().join(", ")
}

/// What to say of a part without values of a target.
fn without_target(part: &Sequences, target: &str, what: &str) -> String {
    let why = format!("no step of the {what} set has a target");
    match &part.forecast {
        Some(forecast) => format!(
            "{why} {target}: it has {} steps, and --ahead {} looks beyond its end; --valid and \
             --test set the sizes",
            grouped(part.steps()),
            forecast.longest()
        ),
        None => why,
    }
}

/// Notes on how data were read, and on missing numbers.
pub fn missing_notes(data: &Sequences) -> Vec<String> {
    let Sequences { filled, unanswered, dropped, .. } = data;
    let all = [
        (filled, "missing inputs were filled in"),
        (unanswered, "steps without a target do not count"),
        (dropped, "rows with missing inputs were left out"),
    ];
    let missing = all.iter().filter(|(n, _)| **n > 0);
    let missing = missing.map(|(n, what)| format!("{} {what}.", grouped(**n)));
    data.notes.iter().cloned().chain(missing).collect()
}

/// A note on fields with categories that a model does not know, if there are any.
pub fn unknown_categories(fields: usize) -> Option<String> {
    let what = match fields {
        0 => return None,
        1 => "1 field has a category that the model does not know; it is".into(),
        n => {
            format!("{} fields have categories that the model does not know; they are", grouped(n))
        }
    };
    Some(format!("{what} read as none of those that it knows."))
}

/// At most this many constant columns have a note of their own.
const MAX_NOTES: usize = 8;

/// Notes on columns that are constant in the training set.
fn constant(task: &SeriesTask, train: &Sequences) -> Vec<String> {
    let names = train.constant();
    let kind = |name: &String| if task.targets.contains(name) { "the target" } else { "the input" };
    let note = |name: &&String| {
        let (kind, name) = (kind(name), shortened(name, 60));
        format!("{kind} {name} is constant in the training set.")
    };
    let mut notes: Vec<String> = names.iter().take(MAX_NOTES).map(note).collect();
    if names.len() > MAX_NOTES {
        let more = grouped(names.len() - MAX_NOTES);
        notes.push(format!("{more} more columns are constant in the training set."));
    }
    notes
}
