//! Series on the command line, for `train` and `sweep`: `--csv F --target y --sequence id`.

use crate::Failure;
use crate::args::class_weights::{ClassWeights, described};
use crate::args::network::DEFAULT_DELAY;
use crate::args::reading::Reading;
use crate::console::{note, warning};
use crate::memory::Needs;
use clap::{Args, ValueEnum};
use drnn::NetSpec;
use drnn::memory::{self, BatchSize};
use drnn::text::{counted, grouped, shortened};
use drnn_tasks::series::{Cycle, MAX_CATEGORIES, SeriesTask, TimeFormat};
use drnn_train::baseline::Baseline;
use drnn_train::read::{Delimiter, Input, MAX_CLASSES, Missing};
use drnn_train::series::{
    Columns, InputChoice, InputRules, Parts, Sequences, SeriesBaselines, SeriesValidation, Shares,
    Windows, from_arrays, from_table, learn_task, scoring_steps, series_baselines,
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
    /// How dates and times are written [default: recognised, if it is not unix]
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
    /// What to do with missing inputs (empty, NA, NaN). Rows without a target are refused, dropped,
    /// or not counted
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

/// What to do with missing inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissingName {
    /// Refuse the data
    Refuse,
    /// Use 0
    Zero,
    /// Use the column's mean in the training set
    Mean,
    /// Use the value of the previous row
    Previous,
    /// Leave the row out
    Drop,
}

impl From<MissingName> for Missing {
    fn from(name: MissingName) -> Missing {
        match name {
            MissingName::Refuse => Missing::Refuse,
            MissingName::Zero => Missing::Zero,
            MissingName::Mean => Missing::Mean,
            MissingName::Previous => Missing::Previous,
            MissingName::Drop => Missing::Drop,
        }
    }
}

/// How dates and times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimeFormatName {
    /// Year first: 2016-07-01 13:45:00
    Iso,
    /// 31/12/2016 13:45
    DayFirst,
    /// 12/31/2016 1:45 PM
    MonthFirst,
    /// Seconds since 1970
    Unix,
}

impl From<TimeFormatName> for TimeFormat {
    fn from(name: TimeFormatName) -> TimeFormat {
        match name {
            TimeFormatName::Iso => TimeFormat::Iso,
            TimeFormatName::DayFirst => TimeFormat::DayFirst,
            TimeFormatName::MonthFirst => TimeFormat::MonthFirst,
            TimeFormatName::Unix => TimeFormat::Unix,
        }
    }
}

/// A cycle that times are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CycleName {
    HourOfDay,
    DayOfWeek,
    DayOfYear,
}

impl From<CycleName> for Cycle {
    fn from(name: CycleName) -> Cycle {
        match name {
            CycleName::HourOfDay => Cycle::HourOfDay,
            CycleName::DayOfWeek => Cycle::DayOfWeek,
            CycleName::DayOfYear => Cycle::DayOfYear,
        }
    }
}

/// A validation or test set.
#[derive(Debug, Clone, PartialEq)]
enum Held {
    Share(f64),
    Files(Vec<PathBuf>),
}

fn held(text: &str) -> Result<Held, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(Held::Share(share)),
        Ok(_) => Err("expected a share from 0 to below 1, or a file".into()),
        Err(_) => Ok(Held::Files(text.split(',').map(PathBuf::from).collect())),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
        [c] => Ok(*c),
        _ => Err("expected one character, or tab".into()),
    }
}

/// The data split into training, validation and test set, with classes and scaling from the
/// training set.
pub struct Ready {
    pub task: SeriesTask,
    /// Describes the data; a checkpoint of other data is refused.
    pub what: String,
    pub train: Sequences,
    pub valid: Sequences,
    pub test: Option<Sequences>,
    /// For stderr and the report.
    pub notes: Vec<String>,
    window: usize,
    /// Of the task's classes, in the gradient.
    class_weights: Option<Vec<f32>>,
}

impl SeriesData {
    /// Reads the data, splits them by `seed`, and computes scaling and classes.
    pub fn ready(&self, seed: u64) -> Result<Ready, Failure> {
        let missing = self.missing.into();
        let files: Vec<PathBuf> =
            [&self.csv, &self.x, &self.y].into_iter().flatten().cloned().collect();
        let all = read_files(&files, &self.columns(), self.reading)?;
        let mut notes = missing_notes(&all);
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
        let known = train.known_inputs();
        train.keep_inputs(&known);
        [&mut valid, &mut test].into_iter().flatten().for_each(|part| part.keep_inputs(&known));
        let inputs = InputChoice::Known(train.columns.clone());
        let columns = Columns { inputs, classes, ..self.columns() };
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
        let task = learn_task(&train, missing, self.sequence.clone())?;
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
        }
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

impl Ready {
    /// The delay of a delayed network unless the user says another: forecasts have none, because
    /// an output that is late is a forecast of less.
    pub fn default_delay(&self) -> usize {
        match self.task.forecast {
            Some(_) => 0,
            None => DEFAULT_DELAY.min(self.valid.longest().saturating_sub(1)),
        }
    }

    /// Notes what these delays mean for a forecast.
    pub fn explain_delays(&mut self, delays: &[usize]) {
        let horizons = self.task.forecast.iter().flat_map(|forecast| forecast.ahead.clone());
        let mut notes = Vec::new();
        for (ahead, &delay) in horizons.flat_map(|ahead| delays.iter().map(move |d| (ahead, d))) {
            let late = counted(delay, "step");
            if delay >= ahead {
                notes.push(format!(
                    "--ahead {ahead} with a delay of {late} is no forecast: the output comes when \
                     the target is known already; use --delay below {ahead}."
                ));
            } else if delay > 0 && delays.len() == 1 {
                notes.push(format!(
                    "--ahead {ahead} with a delay of {late}: the output comes {late} after its \
                     row, {} before the target.",
                    counted(ahead - delay, "step")
                ));
            }
        }
        notes.iter().for_each(|text| note!("{text}"));
        self.notes.extend(notes);
    }

    /// The training set in windows with `ahead` look-ahead steps.
    pub fn windows(&self, ahead: usize) -> Result<Windows, Failure> {
        let windows = Windows::new(&self.train, &self.task, self.window, ahead)?;
        Ok(match &self.class_weights {
            Some(weights) => windows.with_class_weights(weights.clone()),
            None => windows,
        })
    }

    /// What simple predictors achieve; those with lagged inputs look as far ahead as a network of this
    /// latency.
    pub fn baselines(&self, latency: Option<usize>) -> Result<Vec<Baseline>, Failure> {
        Ok(series_baselines(&SeriesBaselines {
            task: &self.task,
            train: &self.train,
            valid: &self.valid,
            test: self.test.as_ref(),
            look_ahead: latency,
        })?)
    }

    /// How networks of this spec are scored on the validation set, and on the test set if there is one.
    pub fn validation(&self, spec: &NetSpec) -> Result<SeriesValidation, Failure> {
        Ok(SeriesValidation::new(spec, &self.task, &self.valid)?)
    }

    /// The same on the test set, if there is one.
    pub fn test_validation(&self, spec: &NetSpec) -> Result<Option<SeriesValidation>, Failure> {
        let of = |part: &Sequences| SeriesValidation::new(spec, &self.task, part);
        Ok(self.test.as_ref().map(of).transpose()?)
    }

    /// Warns of a delay for which the data are too short.
    pub fn warn_of_long_delay(&self, delay: usize) {
        self.long_delay(delay).iter().for_each(|text| warning!("{text}"));
    }

    /// What is too short for a delay: windows, or a set whose outputs would all be computed after the
    /// end of the data.
    fn long_delay(&self, delay: usize) -> Vec<String> {
        let mut all = Vec::new();
        let shortest = self.window.min(self.train.longest());
        if delay > shortest {
            all.push(format!(
                "a delay of {} is longer than the windows of {} steps that the network is trained on; \
                 longer windows (--window) or a shorter --delay may be better",
                grouped(delay),
                grouped(shortest)
            ));
        }
        let sets = [
            ("training", Some(&self.train)),
            ("validation", Some(&self.valid)),
            ("test", self.test.as_ref()),
        ];
        for (name, set) in sets.into_iter().filter_map(|(name, set)| Some((name, set?))) {
            let (steps, after) = (set.longest(), set.longest_whole() - set.longest_run());
            if delay >= steps + after {
                all.push(format!(
                    "a delay of {}, but the {name} set has {} and {} after it: all its outputs are \
                     computed after the data have ended",
                    grouped(delay),
                    counted(steps, "step"),
                    grouped(after)
                ));
            }
        }
        all
    }

    /// The memory to evaluate a network.
    pub fn scoring(&self, spec: &NetSpec) -> Needs {
        let sets = [Some(&self.valid), self.test.as_ref()].into_iter().flatten();
        let steps = sets.map(|set| scoring_steps(spec, set)).max().unwrap_or(0);
        let run = memory::run(spec, BatchSize::new(steps, 1));
        Needs::new("scoring", memory::model(spec).saturating_add(run))
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
        (dropped, "rows with missing numbers were left out"),
    ];
    let missing = all.iter().filter(|(n, _)| **n > 0);
    let missing = missing.map(|(n, what)| format!("{} {what}.", grouped(**n)));
    data.notes.iter().cloned().chain(missing).collect()
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
