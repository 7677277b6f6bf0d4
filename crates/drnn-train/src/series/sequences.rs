//! Inputs and targets in their own units, sequence after sequence.

use crate::data::TargetData;
use crate::error::{Error, Result};
use crate::loss::IGNORE;
use crate::read::{MISSING_HELP, Missing, quote};
use drnn::io::checksum::of_words;
use drnn_tasks::series::{Forecast, InputColumn};
use std::ops::Range;

/// Sequences in their own units.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequences {
    /// Names of the inputs, q of them.
    pub inputs: Vec<String>,
    /// The columns that the inputs are made of.
    pub columns: Vec<InputColumn>,
    /// Names of the targets, m of them; one where it is a class.
    pub targets: Vec<String>,
    /// How the targets follow from columns, where they lie some steps after their rows.
    pub forecast: Option<Forecast>,
    /// Names of the classes, in the order in which they came; empty where targets are values.
    pub labels: Vec<String>,
    /// Missing inputs that were filled in, or are to become the mean.
    pub filled: usize,
    /// Targets that are missing: they do not count.
    pub unanswered: usize,
    /// Steps that were left out.
    pub dropped: usize,
    /// Fields with a category that their column does not have: their inputs are 0.
    pub unknown_categories: usize,
    /// What people should know of how the data were read.
    pub notes: Vec<String>,
    /// What separates the table's columns.
    pub delimiter: u8,
    /// (steps, q); NaN is to become the mean.
    pub(super) x: Vec<f32>,
    /// (steps, m), NaN does not count; or a label each, or [`IGNORE`].
    pub(super) y: TargetData,
    /// Where targets are a forecast: the targets at the rows themselves.
    pub(super) now: Option<TargetData>,
    /// Where each begins; and the end.
    pub(super) starts: Vec<usize>,
    /// The steps that count; None for all. The others are there for the states before these steps, and
    /// for what a delayed network reads after them.
    pub(super) part: Option<Range<usize>>,
}

/// A sequence among all steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// All its steps.
    pub whole: Range<usize>,
    /// Those that count, at least one.
    pub counted: Range<usize>,
}

/// The target of a step.
pub(super) enum Truth<'a> {
    Values(&'a [f32]),
    /// A label, None where it is missing.
    Label(Option<u32>),
}

impl Sequences {
    /// No sequences.
    pub(super) fn new(
        inputs: Vec<String>,
        targets: Vec<String>,
        labels: Option<Vec<String>>,
    ) -> Sequences {
        let y = match labels {
            Some(_) => TargetData::Classes(Vec::new()),
            None => TargetData::Values(Vec::new()),
        };
        let columns = inputs.iter().map(|name| InputColumn::number(name)).collect();
        Sequences {
            inputs,
            columns,
            targets,
            forecast: None,
            labels: labels.unwrap_or_default(),
            filled: 0,
            unanswered: 0,
            dropped: 0,
            unknown_categories: 0,
            notes: Vec::new(),
            delimiter: b',',
            x: Vec::new(),
            y,
            now: None,
            starts: Vec::new(),
            part: None,
        }
    }

    /// No sequences, of inputs that are made of these columns.
    pub(super) fn of_columns(
        columns: Vec<InputColumn>,
        targets: Vec<String>,
        labels: Option<Vec<String>>,
    ) -> Sequences {
        let inputs = columns.iter().flat_map(InputColumn::inputs).collect();
        Sequences { columns, ..Sequences::new(inputs, targets, labels) }
    }

    /// How many have steps that count.
    pub fn len(&self) -> usize {
        match self.part {
            None => self.starts.len().saturating_sub(1),
            Some(_) => self.spans().count(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Steps of all of them.
    pub fn steps(&self) -> usize {
        self.part.as_ref().map_or(self.rows(), Range::len)
    }

    /// All steps, also those that do not count.
    pub(super) fn rows(&self) -> usize {
        self.x.len() / self.inputs.len()
    }

    /// The sequences that have steps that count.
    pub(super) fn spans(&self) -> impl Iterator<Item = Span> {
        let part = self.part.clone().unwrap_or(0..self.rows());
        let sequences = self.starts.windows(2).map(|pair| pair[0]..pair[1]);
        sequences.filter_map(move |whole| {
            let counted = whole.start.max(part.start)..whole.end.min(part.end);
            (!counted.is_empty()).then_some(Span { whole, counted })
        })
    }

    /// These steps count, of all that do; the others give the states before them and what follows.
    pub fn only(mut self, steps: Range<usize>) -> Result<Sequences> {
        let first = self.part.as_ref().map_or(0, |part| part.start);
        if steps.is_empty() || steps.end > self.steps() {
            let why = format!("rows {}..{} of {}", steps.start + 1, steps.end, self.steps());
            return Err(Error::Data(why));
        }
        self.part = Some(first + steps.start..first + steps.end);
        Ok(self)
    }

    /// Steps of the longest.
    pub fn longest(&self) -> usize {
        self.spans().map(|span| span.counted.len()).max().unwrap_or(0)
    }

    /// Steps that a model runs for them, at most, if it does not look ahead: from the beginning of a
    /// sequence to the last step that counts.
    pub fn longest_run(&self) -> usize {
        self.spans().map(|span| span.counted.end - span.whole.start).max().unwrap_or(0)
    }

    /// Steps of the longest sequence, also those that do not count.
    pub fn longest_whole(&self) -> usize {
        self.spans().map(|span| span.whole.len()).max().unwrap_or(0)
    }

    /// Whether the target is a class.
    pub fn is_classes(&self) -> bool {
        matches!(self.y, TargetData::Classes(_))
    }

    /// Whether any target is known.
    pub fn has_targets(&self) -> bool {
        let m = self.targets.len();
        self.spans().any(|Span { counted, .. }| match &self.y {
            TargetData::Values(y) => {
                y[counted.start * m..counted.end * m].iter().any(|y| !y.is_nan())
            }
            TargetData::Classes(y) => y[counted].iter().any(|y| *y != IGNORE),
        })
    }

    /// Number of steps of each of these classes, of those that count.
    pub fn class_counts(&self, classes: &[String]) -> Vec<usize> {
        let mut counts = vec![0; self.labels.len()];
        if let TargetData::Classes(y) = &self.y {
            for span in self.spans() {
                for label in y[span.counted].iter().filter(|label| **label != IGNORE) {
                    counts[*label as usize] += 1;
                }
            }
        }
        let label = |class: &String| self.labels.iter().position(|label| label == class);
        classes.iter().map(|class| label(class).map_or(0, |label| counts[label])).collect()
    }

    /// Inputs and targets that never change.
    pub fn constant(&self) -> Vec<&String> {
        let y = if let TargetData::Values(y) = &self.y { y.as_slice() } else { &[] };
        let columns = |values: &[f32], width: usize| -> Vec<bool> {
            let column = |at: usize| values.iter().skip(at).step_by(width).filter(|x| !x.is_nan());
            let same = |at: usize| column(at).all(|x| Some(x) == column(at).next());
            (0..width).map(|at| !values.is_empty() && same(at)).collect()
        };
        let (q, m) = (self.inputs.len(), self.targets.len());
        let names = self.inputs.iter().chain(&self.targets);
        let constant = columns(&self.x, q).into_iter().chain(columns(y, m));
        names.zip(constant).filter(|(_, same)| *same).map(|(name, _)| name).collect()
    }

    /// The steps of sequence `i`.
    pub(super) fn range(&self, i: usize) -> Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }

    /// The next step begins a sequence.
    pub(super) fn begin(&mut self) {
        if self.starts.last() != Some(&self.rows()) {
            self.starts.push(self.rows());
        }
    }

    /// Adds a step, whose missing numbers are NaN.
    pub(super) fn push(
        &mut self,
        x: &[f32],
        truth: Truth,
        missing: Missing,
    ) -> std::result::Result<(), String> {
        let unknown = match truth {
            Truth::Values(y) => y.iter().position(|y| y.is_nan()),
            Truth::Label(label) => label.is_none().then_some(0),
        };
        let fail =
            |name: &String, what: &str| Err(format!("column {} is missing{what}", quote(name)));
        let hole = x.iter().position(|x| x.is_nan()).map(|at| self.column_of(at));
        match (missing, hole.or(unknown.map(|at| &self.targets[at]))) {
            (Missing::Refuse, Some(name)) => {
                return fail(name, &format!("; {MISSING_HELP}"));
            }
            // A row without a target stays: a model in use reads it, too.
            (Missing::Drop, Some(_)) if hole.is_some() => {
                self.dropped += 1;
                return Ok(());
            }
            _ => {}
        }
        let (q, steps) = (x.len(), self.rows());
        let mut holes = 0;
        let before = (self.starts.last() != Some(&steps)).then(|| (steps - 1) * q);
        for (at, &x) in x.iter().enumerate() {
            let filled = match (missing, before) {
                _ if !x.is_nan() => x,
                (Missing::Zero, _) => 0.0,
                (Missing::Previous, Some(before)) => self.x[before + at],
                (Missing::Previous, None) => {
                    self.x.truncate(steps * q);
                    return fail(
                        self.column_of(at),
                        ", and no row is before it in its sequence; --missing mean or zero fills it, drop leaves the row out",
                    );
                }
                _ => f32::NAN,
            };
            holes += usize::from(x.is_nan());
            self.x.push(filled);
        }
        if holes > 0 {
            let mut start = 0;
            let is_hole = |column: &&InputColumn| {
                start += column.width();
                x[start - column.width()].is_nan()
            };
            self.filled += self.columns.iter().filter(is_hole).count();
        }
        self.unanswered += usize::from(unknown.is_some());
        match (&mut self.y, truth) {
            (TargetData::Values(all), Truth::Values(y)) => all.extend_from_slice(y),
            (TargetData::Classes(all), Truth::Label(label)) => all.push(label.unwrap_or(IGNORE)),
            _ => return Err("values and classes cannot be mixed".into()),
        }
        Ok(())
    }

    /// Ends the last sequence. Refused where there are no steps.
    pub(super) fn finish(mut self) -> std::result::Result<Sequences, String> {
        if self.x.is_empty() {
            return Err(match self.dropped {
                0 => "holds no rows".into(),
                n => format!("holds no rows without missing numbers; all {n} were left out"),
            });
        }
        self.begin();
        Ok(self)
    }

    /// Ranges of steps as sequences of their own. Counts of filled numbers stay with the whole.
    pub(super) fn select(&self, ranges: &[Range<usize>]) -> Sequences {
        let labels = self.is_classes().then(|| self.labels.clone());
        let mut some = Sequences::of_columns(self.columns.clone(), self.targets.clone(), labels);
        some.forecast = self.forecast.clone();
        some.now = self.now.as_ref().map(|_| some.y.clone());
        some.delimiter = self.delimiter;
        let (q, m) = (self.inputs.len(), self.targets.len());
        for range in ranges {
            some.begin();
            some.x.extend_from_slice(&self.x[range.start * q..range.end * q]);
            copy(&self.y, m, range, &mut some.y);
            if let (Some(from), Some(to)) = (&self.now, &mut some.now) {
                let columns = self.forecast.as_ref().map_or(m, |of| of.columns.len());
                copy(from, columns, range, to);
            }
        }
        some.begin();
        some
    }

    /// Appends the sequences of another file.
    pub fn append(&mut self, other: Sequences) -> Result<()> {
        if self.columns != other.columns
            || self.targets != other.targets
            || self.is_classes() != other.is_classes()
        {
            return Err(Error::Data("files with different columns cannot be joined".into()));
        }
        let end = self.rows();
        self.x.extend(other.x);
        let mut ids = Vec::new();
        for name in other.labels {
            let id = self.labels.iter().position(|label| *label == name);
            ids.push(id.unwrap_or(self.labels.len()) as u32);
            if id.is_none() {
                self.labels.push(name);
            }
        }
        join(&mut self.y, other.y, &ids);
        if let (Some(to), Some(now)) = (&mut self.now, other.now) {
            join(to, now, &ids);
        }
        self.starts.extend(other.starts.iter().skip(1).map(|start| start + end));
        self.filled += other.filled;
        self.unanswered += other.unanswered;
        self.dropped += other.dropped;
        self.unknown_categories += other.unknown_categories;
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(())
    }

    /// The column that an input is made of.
    fn column_of(&self, input: usize) -> &String {
        let mut end = 0;
        let column = self.columns.iter().find(|column| {
            end += column.width();
            input < end
        });
        column.map_or(&self.inputs[input], |column| &column.name)
    }

    /// A hash of all numbers and labels that count, by which a checkpoint knows its data.
    pub fn fingerprint(&self) -> u64 {
        if let Some(part) = &self.part {
            let ranges: Vec<Range<usize>> = self.spans().map(|span| span.counted).collect();
            debug_assert_eq!(ranges.iter().map(Range::len).sum::<usize>(), part.len());
            return self.select(&ranges).fingerprint();
        }
        let x = self.x.iter().map(|x| u64::from(x.to_bits()));
        let y: Vec<u64> = match &self.y {
            TargetData::Values(y) => y.iter().map(|y| u64::from(y.to_bits())).collect(),
            TargetData::Classes(y) => y.iter().map(|&y| y.into()).collect(),
        };
        let starts = self.starts.iter().map(|&start| start as u64);
        let labels = self.labels.iter().flat_map(|label| label.bytes().map(u64::from).chain([256]));
        of_words(x.chain(y).chain(starts).chain(labels))
    }
}

/// Appends a range of steps of `m` targets.
fn copy(from: &TargetData, m: usize, range: &Range<usize>, to: &mut TargetData) {
    match (to, from) {
        (TargetData::Values(to), TargetData::Values(y)) => {
            to.extend_from_slice(&y[range.start * m..range.end * m]);
        }
        (TargetData::Classes(to), TargetData::Classes(y)) => {
            to.extend_from_slice(&y[range.clone()]);
        }
        _ => unreachable!("made of the same kind"),
    }
}

/// Appends targets of another file, whose labels have these ids here.
fn join(to: &mut TargetData, from: TargetData, ids: &[u32]) {
    match (to, from) {
        (TargetData::Classes(to), TargetData::Classes(y)) => {
            let id = |label: u32| ids.get(label as usize).copied().unwrap_or(IGNORE);
            to.extend(y.into_iter().map(id));
        }
        (TargetData::Values(to), TargetData::Values(y)) => to.extend(y),
        _ => unreachable!("of the same kind"),
    }
}
