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

use super::outputs::check_padding;
use super::scaled::Scaled;
use super::sequences::{Sequences, Span};
use crate::data::{Dataset, Gathered, Part, Stored, TargetData, check_widths};
use crate::error::{Error, Result};
use crate::loss::{IGNORE, Targets};
use crate::optim::Schedule;
use crate::training::{Given, Options, Plan};
use drnn::NetSpec;
use drnn::memory::BatchSize;
use drnn_tasks::series::SeriesTask;
use std::sync::Arc;

/// Windows of sequences, scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    /// Shared among windows with different look-ahead.
    data: Arc<Scaled>,
    windows: Vec<Window>,
    /// Look-ahead steps of each window; None where sequences are whole.
    ahead: Option<usize>,
    class_weights: Option<Vec<f32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    start: usize,
    /// Steps that are predicted.
    predicted: usize,
    /// Steps that are read.
    read: usize,
    /// The same without look-ahead, and up to the end of the sequence.
    length: usize,
    available: usize,
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
        for Span { whole, counted } in data.spans() {
            let count = counted.len().div_ceil(window).max(1);
            let length = counted.len().div_ceil(count).max(1);
            windows.extend(counted.clone().step_by(length).map(|start| Window {
                start,
                predicted: length.min(counted.end - start),
                read: length.saturating_add(ahead).min(whole.end - start),
                length,
                available: whole.end - start,
            }));
        }
        let ahead = (windows.len() > data.len()).then_some(ahead);
        let data = Arc::new(Scaled::new(data, task)?);
        Ok(Windows { data, windows, ahead, class_weights: None })
    }

    /// The same windows with another look-ahead; the data are shared.
    pub fn with_look_ahead(&self, ahead: usize) -> Windows {
        let mut other = self.clone();
        for window in &mut other.windows {
            window.read = window.length.saturating_add(ahead).min(window.available);
        }
        other.ahead = self.ahead.map(|_| ahead);
        other
    }

    /// Sequences as they are.
    pub fn whole(data: &Sequences, task: &SeriesTask) -> Result<Windows> {
        Windows::new(data, task, usize::MAX, 0)
    }

    /// The same windows with weights of the task's classes in the gradient.
    pub fn with_class_weights(mut self, weights: Vec<f32>) -> Windows {
        self.class_weights = Some(weights);
        self
    }

    /// Steps whose class is not in the training part: they are not trained on.
    pub fn unknown(&self) -> usize {
        self.data.unknown
    }

    /// Steps that the longest window reads.
    pub fn longest(&self) -> usize {
        self.windows.iter().map(|window| window.read).max().unwrap_or(0)
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

/// Default training options for so many windows: 1,600 updates or more.
pub fn suggested(windows: usize, given: Given) -> Options {
    let plan = Plan { updates: 1600, epochs: 100, max_epochs: 1000, batch: 32, min_batch: 1 };
    let (batch, epochs) = plan.batch_and_epochs(windows, given);
    Options { epochs, batch, rate: 1e-2, schedule: Schedule::Cosine, ..Options::default() }
}

impl Dataset for Windows {
    fn class_weights(&self) -> Option<&[f32]> {
        self.class_weights.as_deref()
    }

    fn len(&self) -> usize {
        self.windows.len()
    }

    fn batch_size(&self, rows: usize) -> BatchSize {
        BatchSize::new(self.longest(), rows.min(self.len()))
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        check_padding(spec)?;
        if let Some(ahead) = self.ahead.filter(|ahead| spec.delay() > *ahead) {
            let delay = spec.delay();
            return Err(Error::Data(format!("a delay of {delay}, but windows read {ahead} ahead")));
        }
        let m = matches!(self.data.y, TargetData::Values(_)).then_some(self.data.widths[1]);
        check_widths(spec, Some(self.data.widths[0]), m)
    }

    fn stored(&self) -> Option<&dyn Stored> {
        Some(self)
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
        let (of, [q, m]) = ((chosen, steps), self.data.widths);
        self.turn(&self.data.x, q, 0.0, of, |window| window.read, to.inputs.dense());
        let predicted = |window: &Window| window.predicted;
        match &self.data.y {
            TargetData::Classes(y) => self.turn(y, 1, IGNORE, of, predicted, to.targets.classes()),
            TargetData::Values(y) => self.turn(y, m, f32::NAN, of, predicted, to.targets.values()),
        }
    }
}

impl Stored for Windows {
    fn key(&self) -> u64 {
        self.data.key.0
    }

    fn x(&self) -> &[f32] {
        &self.data.x
    }

    fn y(&self) -> Targets<'_> {
        self.data.y.as_targets()
    }

    fn widths(&self) -> [usize; 2] {
        self.data.widths
    }

    fn part(&self, i: usize) -> Part {
        let Window { start, read, predicted, .. } = self.windows[i];
        Part { start, read, predicted }
    }
}
