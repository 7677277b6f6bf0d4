//! Outputs of a model for steps of sequences, as it computes them in use.
//!
//! ```text
//! s_0 = 0, s_t = f(s_{t-1}, x_t) over the whole sequence; the answer to step t is read from s_{t+d}
//! x_t = 0 only after the end of the sequence, not after the end of a part of it
//! ```
//!
//! Sequences are rows of a batch and run in chunks with carried states, so memory is bounded however
//! long they are. Nothing runs after the last step that counts, but the d steps of the delay.

use super::scaled::Scaled;
use super::sequences::{Sequences, Span};
use crate::error::{Error, Result};
use drnn::{Batch, Direction, Model, NetSpec, Rows, States, Steps, Stream};
use drnn_tasks::Runner;

/// Maximum sequences that run side by side.
const MAX_ROWS: usize = 64;
/// Approximate elements of a chunk: more would only take memory.
const ELEMENTS: usize = 1 << 16;
/// Maximum values of all outputs of a chunk, 64 MB.
const MAX_VALUES: usize = 1 << 24;

/// Steps of the longest piece in which a network of this spec runs to be scored on `data`, as one
/// sequence: for estimates of memory.
pub fn scoring_steps(spec: &NetSpec, data: &Sequences) -> usize {
    match spec.direction() {
        Direction::Bidirectional => data.longest_whole(),
        Direction::Forward => data.longest_run().saturating_add(spec.delay()).min(ELEMENTS),
    }
}

/// Gets a step, by its place among all steps, and its outputs, scaled.
pub(super) type Look<'a> = dyn FnMut(usize, &[f32]) + 'a;

/// Calls `look` for every step that counts: chunk by chunk, and within a chunk by time.
pub(super) fn each_output(
    model: &dyn Runner,
    data: &Scaled,
    spans: &[Span],
    look: &mut Look,
) -> Result<()> {
    let spec = model.spec();
    if spec.direction() == Direction::Bidirectional {
        let longest = spans.iter().map(|span| span.whole.len()).max().unwrap_or(0);
        let rows = (ELEMENTS / longest.max(1)).clamp(1, MAX_ROWS);
        return spans.chunks(rows).try_for_each(|spans| read_whole(model, data, spans, look));
    }
    // Blocks begin one after another, which only whole sequences and streams do.
    if let Some(model) = model.model().filter(|_| spec.blocks().is_some()) {
        return spans.iter().try_for_each(|span| stream(model, data, span, look));
    }
    let without_delay = if spec.delay() > 0 { Some(model.without_delay()?) } else { None };
    let plain = without_delay.as_deref().unwrap_or(model);
    spans.chunks(MAX_ROWS).try_for_each(|spans| carry(plain, spec.delay(), data, spans, look))
}

/// Runs sequences side by side, chunk by chunk; `model` has no delay, its outputs are read `delay`
/// steps later.
fn carry(
    model: &dyn Runner,
    delay: usize,
    data: &Scaled,
    spans: &[Span],
    look: &mut Look,
) -> Result<()> {
    let (rows, q, m) = (spans.len(), data.widths[0], model.spec().output_width());
    let ends: Vec<usize> =
        spans.iter().map(|span| span.counted.end - span.whole.start + delay).collect();
    let longest = ends.iter().copied().max().unwrap_or(0);
    let chunk = (ELEMENTS / rows).min(MAX_VALUES / (rows * m)).clamp(1, longest.max(1));
    let mut states = States::zeros(model.spec(), rows);
    let (mut x, mut selected, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for first in (0..longest).step_by(chunk) {
        let length = chunk.min(longest - first);
        let lengths: Vec<usize> =
            ends.iter().map(|end| end.saturating_sub(first).min(length)).collect();
        x.clear();
        selected.clear();
        steps.clear();
        for at in first..first + length {
            for (row, span) in spans.iter().enumerate() {
                let step = span.whole.start + at;
                match step < span.whole.end && at < ends[row] {
                    true => x.extend_from_slice(data.input(step)),
                    false => x.extend(std::iter::repeat_n(0.0, q)),
                }
                if let Some(step) = step.checked_sub(delay).filter(|s| span.counted.contains(s)) {
                    selected.push(((at - first) * rows + row) as u32);
                    steps.push(step);
                }
            }
        }
        let batch = Batch::dense(&x, Steps(length), Rows(rows)).lengths(&lengths);
        let outputs = model.run(&batch.select_outputs(&selected), Some(&states))?;
        states = outputs.last;
        steps.iter().zip(outputs.values.chunks_exact(m)).for_each(|(&step, y)| look(step, y));
    }
    Ok(())
}

/// Runs whole sequences side by side: a network that reads both ways needs all of each.
fn read_whole(model: &dyn Runner, data: &Scaled, spans: &[Span], look: &mut Look) -> Result<()> {
    let (rows, q, m) = (spans.len(), data.widths[0], model.spec().output_width());
    let lengths: Vec<usize> = spans.iter().map(|span| span.whole.len()).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let (mut x, mut selected, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..longest {
        for (row, span) in spans.iter().enumerate() {
            let step = span.whole.start + at;
            match at < lengths[row] {
                true => x.extend_from_slice(data.input(step)),
                false => x.extend(std::iter::repeat_n(0.0, q)),
            }
            if span.counted.contains(&step) {
                selected.push((at * rows + row) as u32);
                steps.push(step);
            }
        }
    }
    let batch = Batch::dense(&x, Steps(longest), Rows(rows)).lengths(&lengths);
    let outputs = model.run(&batch.select_outputs(&selected), None)?;
    steps.iter().zip(outputs.values.chunks_exact(m)).for_each(|(&step, y)| look(step, y));
    Ok(())
}

/// Step by step.
fn stream(model: &Model, data: &Scaled, span: &Span, look: &mut Look) -> Result<()> {
    let delay = model.spec().delay();
    let mut stream = Stream::new(model)?;
    let mut take = |step: Option<usize>, y: &[f32]| {
        if let Some(step) = step.filter(|step| span.counted.contains(step)) {
            look(step, y);
        }
    };
    let end = span.counted.end.saturating_add(delay).min(span.whole.end);
    for step in span.whole.start..end {
        if let Some(y) = stream.push(data.input(step))? {
            take(step.checked_sub(delay), y);
        }
    }
    if end == span.whole.end {
        let first = span.whole.end.saturating_sub(delay).max(span.whole.start);
        stream.finish().iter().zip(first..).for_each(|(y, step)| take(Some(step), y));
    }
    Ok(())
}

/// Whether a network can be run on series: what follows a sequence is zeros.
pub(super) fn check_padding(spec: &NetSpec) -> Result<()> {
    match spec.look_ahead() {
        0 => Ok(()),
        _ => Err(Error::Data("outputs for the last elements need null padding".into())),
    }
}
