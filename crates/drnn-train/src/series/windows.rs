//! Windows of long sequences, scaled, as batches.
//!
//! ```text
//! sequence of L steps, windows of at most W, d steps ahead:
//!   window i reads    x[iW .. min((i+1)W + d, L)]
//!            predicts   iW .. min((i+1)W, L)
//! ```
//!
//! So every output of a delayed network is trained with the d elements that really follow its target;
//! padding is read only where the sequence ends, as in inference. Windows of a sequence have equal
//! lengths, to within one step per window. A window starts from zero states.

use super::sequences::Sequences;
use super::task::check_columns;
use crate::data::{Dataset, Gathered, TargetData, check_widths};
use crate::error::{Error, Result};
use crate::loss::{IGNORE, Targets};
use drnn::NetSpec;
use drnn::memory::BatchSize;
use drnn_tasks::series::SeriesTask;
use std::collections::HashMap;

/// Windows of sequences, scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    x: Vec<f32>,
    y: TargetData,
    windows: Vec<Window>,
    /// Look-ahead steps of each window; None where sequences are whole.
    ahead: Option<usize>,
    widths: [usize; 2],
    unknown: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    start: usize,
    /// Steps that are predicted.
    predicted: usize,
    /// Steps that are read.
    read: usize,
}

impl Windows {
    /// Windows of at most `window` steps that read `ahead` more.
    pub fn new(
        data: &Sequences,
        task: &SeriesTask,
        window: usize,
        ahead: usize,
    ) -> Result<Windows> {
        if window == 0 {
            return Err(Error::Options("windows of 0 steps".into()));
        }
        let mut windows = Vec::new();
        for sequence in (0..data.len()).map(|i| data.range(i)) {
            let count = sequence.len().div_ceil(window).max(1);
            let length = sequence.len().div_ceil(count).max(1);
            windows.extend(sequence.clone().step_by(length).map(|start| Window {
                start,
                predicted: length.min(sequence.end - start),
                read: length.saturating_add(ahead).min(sequence.end - start),
            }));
        }
        let ahead = (windows.len() > data.len()).then_some(ahead);
        Windows::scaled(data, task, windows, ahead)
    }

    /// Sequences as they are.
    pub fn whole(data: &Sequences, task: &SeriesTask) -> Result<Windows> {
        Windows::new(data, task, usize::MAX, 0)
    }

    fn scaled(
        data: &Sequences,
        task: &SeriesTask,
        windows: Vec<Window>,
        ahead: Option<usize>,
    ) -> Result<Windows> {
        check_columns(task, data)?;
        let (q, m) = (task.inputs.len(), task.targets.len());
        let scaling = &task.scaling;
        let x = data.x.iter().enumerate().map(|(i, &x)| match x.is_nan() {
            true => 0.0, // the mean
            false => scaling.inputs.apply(i % q, x),
        });
        let mut unknown = 0;
        let y = match (&data.y, &scaling.targets, &task.classes) {
            (TargetData::Values(y), Some(targets), _) => TargetData::Values(
                y.iter().enumerate().map(|(i, &y)| targets.apply(i % m, y)).collect(),
            ),
            (TargetData::Classes(y), _, Some(classes)) => {
                let places: HashMap<&String, usize> =
                    classes.iter().enumerate().map(|(i, class)| (class, i)).collect();
                let ids: Vec<Option<usize>> =
                    data.labels.iter().map(|name| places.get(name).copied()).collect();
                let mut class = |label: &u32| {
                    let Some(id) = ids.get(*label as usize) else { return IGNORE };
                    unknown += usize::from(id.is_none());
                    id.map_or(IGNORE, |id| id as u32)
                };
                TargetData::Classes(y.iter().map(&mut class).collect())
            }
            _ => return Err(Error::Data("targets are both classes and values".into())),
        };
        let x: Vec<f32> = x.collect();
        let finite = |values: &[f32]| !values.iter().any(|x| x.is_infinite());
        if !finite(&x) || matches!(&y, TargetData::Values(y) if !finite(y)) {
            let what =
                "a number lies too far from those of the training part: scaled, it is not finite";
            return Err(Error::Data(what.into()));
        }
        Ok(Windows { x, y, windows, ahead, widths: [q, m], unknown })
    }

    /// Steps whose class is not in the training part: they are not trained on.
    pub fn unknown(&self) -> usize {
        self.unknown
    }

    /// Steps that the longest window reads.
    pub fn longest(&self) -> usize {
        self.windows.iter().map(|window| window.read).max().unwrap_or(0)
    }

    /// A window that is a whole sequence: its elements one by one, and all its targets.
    pub(super) fn sequence(&self, row: u32) -> (impl Iterator<Item = &[f32]>, Targets<'_>) {
        let Window { start, predicted, read } = self.windows[row as usize];
        let [q, m] = self.widths;
        let targets = match &self.y {
            TargetData::Classes(y) => Targets::Classes(&y[start..][..predicted]),
            TargetData::Values(y) => Targets::Values(&y[start * m..][..predicted * m]),
        };
        (self.x[start * q..][..read * q].chunks_exact(q), targets)
    }

    /// Chosen windows to (T, B, width); `none` after `steps` of a window.
    fn turn<T: Copy>(
        &self,
        from: &[T],
        width: usize,
        none: T,
        (chosen, longest): (&[u32], usize),
        steps: impl Fn(&Window) -> usize,
        to: &mut Vec<T>,
    ) {
        for step in 0..longest {
            for &row in chosen {
                let window = &self.windows[row as usize];
                match step < steps(window) {
                    true => to.extend_from_slice(&from[(window.start + step) * width..][..width]),
                    false => to.extend(std::iter::repeat_n(none, width)),
                }
            }
        }
    }
}

impl Dataset for Windows {
    fn len(&self) -> usize {
        self.windows.len()
    }

    fn batch_size(&self, rows: usize) -> BatchSize {
        BatchSize::new(self.longest(), rows.min(self.len()))
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        if spec.look_ahead() > 0 {
            return Err(Error::Data("outputs for the last elements need null padding".into()));
        }
        if let Some(ahead) = self.ahead.filter(|ahead| spec.delay() > *ahead) {
            let delay = spec.delay();
            return Err(Error::Data(format!("a delay of {delay}, but windows read {ahead} ahead")));
        }
        let m = matches!(self.y, TargetData::Values(_)).then_some(self.widths[1]);
        check_widths(spec, Some(self.widths[0]), m)
    }

    /// The same on every epoch.
    fn gather(&self, _epoch: usize, chosen: &[u32], to: &mut Gathered) {
        let lengths = chosen.iter().map(|&row| self.windows[row as usize].read);
        let steps = lengths.clone().max().unwrap_or(0);
        (to.steps, to.rows) = (steps, chosen.len());
        to.lengths.clear();
        if lengths.clone().any(|length| length != steps) {
            to.lengths.extend(lengths);
        }
        let (of, [q, m]) = ((chosen, steps), self.widths);
        self.turn(&self.x, q, 0.0, of, |window| window.read, to.inputs.dense());
        let predicted = |window: &Window| window.predicted;
        match &self.y {
            TargetData::Classes(y) => self.turn(y, 1, IGNORE, of, predicted, to.targets.classes()),
            TargetData::Values(y) => self.turn(y, m, f32::NAN, of, predicted, to.targets.values()),
        }
    }
}
