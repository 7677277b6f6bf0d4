//! Sequences in memory.

use crate::data::{Dataset, Gathered, Key, Part, Stored, check_widths};
use crate::error::{Error, Result};
use crate::loss::{IGNORE, Targets};
use drnn::NetSpec;

/// Elements of sequences.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs {
    /// Vectors of q values.
    Dense(Vec<f32>),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// Targets of sequences.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetData {
    /// A class each, or [`IGNORE`].
    Classes(Vec<u32>),
    /// m values each; NaN does not count.
    Values(Vec<f32>),
}

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs::Dense(Vec::new())
    }
}

impl Default for TargetData {
    fn default() -> TargetData {
        TargetData::Values(Vec::new())
    }
}

impl Inputs {
    /// An empty buffer for vectors.
    pub fn dense(&mut self) -> &mut Vec<f32> {
        if !matches!(self, Inputs::Dense(_)) {
            *self = Inputs::Dense(Vec::new());
        }
        let Inputs::Dense(x) = self else { unreachable!("just made") };
        x.clear();
        x
    }

    /// An empty buffer for tokens.
    pub fn tokens(&mut self) -> &mut Vec<u32> {
        if !matches!(self, Inputs::Tokens(_)) {
            *self = Inputs::Tokens(Vec::new());
        }
        let Inputs::Tokens(tokens) = self else { unreachable!("just made") };
        tokens.clear();
        tokens
    }
}

impl TargetData {
    /// All of them.
    pub fn as_targets(&self) -> Targets<'_> {
        match self {
            TargetData::Classes(classes) => Targets::Classes(classes),
            TargetData::Values(values) => Targets::Values(values),
        }
    }

    /// An empty buffer for classes.
    pub fn classes(&mut self) -> &mut Vec<u32> {
        if !matches!(self, TargetData::Classes(_)) {
            *self = TargetData::Classes(Vec::new());
        }
        let TargetData::Classes(classes) = self else { unreachable!("just made") };
        classes.clear();
        classes
    }

    /// An empty buffer for values.
    pub fn values(&mut self) -> &mut Vec<f32> {
        if !matches!(self, TargetData::Values(_)) {
            *self = TargetData::Values(Vec::new());
        }
        let TargetData::Values(values) = self else { unreachable!("just made") };
        values.clear();
        values
    }
}

/// Sequences of any lengths in memory, with a target for each element.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    inputs: Inputs,
    targets: TargetData,
    /// Where each begins, in elements; and the end.
    starts: Vec<usize>,
    q: usize,
    m: usize,
    key: Key,
}

impl Examples {
    /// `count` sequences of `steps` elements; vectors are q wide, values m. Refused where lengths do not fit.
    pub fn new(
        inputs: Inputs,
        targets: TargetData,
        [count, steps]: [usize; 2],
        widths: [usize; 2],
    ) -> Result<Examples> {
        Examples::of_lengths(inputs, targets, &vec![steps; count], widths)
    }

    /// Sequences of these lengths.
    pub fn of_lengths(
        inputs: Inputs,
        targets: TargetData,
        lengths: &[usize],
        [q, m]: [usize; 2],
    ) -> Result<Examples> {
        let mut starts = vec![0];
        starts.extend(lengths.iter().scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        }));
        let elements = starts[lengths.len()];
        let (found, expected) = match &inputs {
            Inputs::Dense(x) => (x.len(), elements * q),
            Inputs::Tokens(tokens) => (tokens.len(), elements),
        };
        let (found_targets, expected_targets) = match &targets {
            TargetData::Classes(classes) => (classes.len(), elements),
            TargetData::Values(values) => (values.len(), elements * m),
        };
        if found != expected || found_targets != expected_targets {
            return Err(Error::Data(format!(
                "{found} input and {found_targets} target values, expected {expected} and \
                 {expected_targets} for {elements} elements of {} sequences",
                lengths.len()
            )));
        }
        if let Inputs::Dense(x) = &inputs
            && let Some(at) = x.iter().position(|x| !x.is_finite())
        {
            let sequence = starts.partition_point(|start| start * q <= at) - 1;
            return Err(Error::Data(format!("sequence {sequence} holds {}", x[at])));
        }
        Ok(Examples { inputs, targets, starts, q, m, key: Key::new() })
    }

    /// Elements of sequence `i`.
    fn length(&self, i: usize) -> usize {
        self.starts[i + 1] - self.starts[i]
    }

    /// A number that only copies of these examples share, within this run of the program.
    pub fn key(&self) -> u64 {
        self.key.0
    }

    /// Elements of all sequences, one after another.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Their targets.
    pub fn targets(&self) -> &TargetData {
        &self.targets
    }

    /// Whether all sequences have the same length.
    pub fn are_equally_long(&self) -> bool {
        (1..self.len()).all(|i| self.length(i) == self.length(0))
    }

    /// Elements of the longest, T.
    pub fn steps(&self) -> usize {
        (0..self.len()).map(|i| self.length(i)).max().unwrap_or(0)
    }

    /// (N, length, width), some of N, to (T, B, width); `none` after a sequence's end.
    fn turn<T: Copy>(&self, from: &[T], width: usize, none: T, to: (&[u32], usize, &mut Vec<T>)) {
        let (chosen, steps, to) = to;
        for step in 0..steps {
            for &row in chosen {
                let row = row as usize;
                match step < self.length(row) {
                    true => {
                        to.extend_from_slice(&from[(self.starts[row] + step) * width..][..width])
                    }
                    false => to.extend(std::iter::repeat_n(none, width)),
                }
            }
        }
    }
}

/// [`check_widths`] for sequences without elements after their ends to look ahead to.
pub(crate) fn check_alone(spec: &NetSpec, q: Option<usize>, m: Option<usize>) -> Result<()> {
    if spec.look_ahead() > 0 {
        return Err(Error::Data("these sequences have nothing to look ahead to".into()));
    }
    check_widths(spec, q, m)
}

impl Dataset for Examples {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        if self.starts[self.len()] == 0 {
            return Err(Error::Data("no sequences to train on".into()));
        }
        let q = matches!(self.inputs, Inputs::Dense(_)).then_some(self.q);
        let m = matches!(self.targets, TargetData::Values(_)).then_some(self.m);
        check_alone(spec, q, m)
    }

    fn whole(&self) -> Option<&Examples> {
        Some(self)
    }

    fn stored(&self) -> Option<&dyn Stored> {
        matches!(self.inputs, Inputs::Dense(_)).then_some(self)
    }

    /// The same on every epoch.
    fn gather(&self, _epoch: usize, chosen: &[u32], to: &mut Gathered) {
        let lengths = chosen.iter().map(|&row| self.length(row as usize));
        let steps = lengths.clone().max().unwrap_or(0);
        (to.steps, to.rows, to.selected) = (steps, chosen.len(), None);
        to.lengths.clear();
        if lengths.clone().any(|length| length != steps) {
            to.lengths.extend(lengths);
        }
        match &self.inputs {
            Inputs::Dense(x) => self.turn(x, self.q, 0.0, (chosen, steps, to.inputs.dense())),
            Inputs::Tokens(x) => self.turn(x, 1, 0, (chosen, steps, to.inputs.tokens())),
        }
        match &self.targets {
            TargetData::Classes(y) => {
                self.turn(y, 1, IGNORE, (chosen, steps, to.targets.classes()));
            }
            TargetData::Values(y) => {
                self.turn(y, self.m, f32::NAN, (chosen, steps, to.targets.values()));
            }
        }
    }
}

/// Of vectors only.
impl Stored for Examples {
    fn key(&self) -> u64 {
        self.key.0
    }

    fn x(&self) -> &[f32] {
        match &self.inputs {
            Inputs::Dense(x) => x,
            Inputs::Tokens(_) => &[],
        }
    }

    fn y(&self) -> Targets<'_> {
        self.targets.as_targets()
    }

    fn widths(&self) -> [usize; 2] {
        [self.q, self.m]
    }

    fn part(&self, i: usize) -> Part {
        let length = self.length(i);
        Part { start: self.starts[i], read: length, predicted: length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_turned_to_time_major() {
        let inputs = Inputs::Dense((0..12).map(|x| x as f32).collect()); // (3, 2, 2)
        let targets = TargetData::Classes(vec![0, 1, 2, 3, 4, 5]);
        let examples = Examples::new(inputs.clone(), targets.clone(), [3, 2], [2, 6]).unwrap();
        let mut batch = Gathered::default();
        examples.gather(0, &[2, 0], &mut batch);
        assert_eq!(batch.inputs, Inputs::Dense(vec![8.0, 9.0, 0.0, 1.0, 10.0, 11.0, 2.0, 3.0]));
        assert_eq!(batch.targets, TargetData::Classes(vec![4, 0, 5, 1]));
        assert!(batch.lengths.is_empty());
        let again = Examples::new(inputs.clone(), targets.clone(), [3, 2], [2, 6]).unwrap();
        assert_eq!(examples, again);
        assert!(examples.key() != again.key() && examples.key() == examples.clone().key());
        assert!(Examples::new(inputs, targets, [3, 3], [2, 6]).is_err());
    }

    #[test]
    fn positions_after_the_end_of_a_shorter_sequence_do_not_count() {
        let (inputs, targets) =
            (Inputs::Tokens(vec![1, 2, 3, 4]), TargetData::Classes(vec![5, 6, 7, 8]));
        let examples = Examples::of_lengths(inputs, targets, &[1, 3], [1, 9]).unwrap();
        let mut batch = Gathered::default();
        examples.gather(0, &[0, 1], &mut batch);
        assert_eq!(batch.inputs, Inputs::Tokens(vec![1, 2, 0, 3, 0, 4]));
        assert_eq!(batch.targets, TargetData::Classes(vec![5, 6, IGNORE, 7, IGNORE, 8]));
        assert_eq!(batch.lengths, [1, 3]);
        examples.gather(0, &[1], &mut batch);
        assert!(batch.lengths.is_empty() && batch.steps == 3);
        let bad = Inputs::Dense(vec![0.0, 1.0, f32::NAN, 2.0]);
        let targets = TargetData::Values(vec![0.0; 4]);
        let error = Examples::of_lengths(bad, targets, &[2, 2], [1, 1]).unwrap_err();
        assert_eq!(error.to_string(), "sequence 1 holds NaN");
    }
}
