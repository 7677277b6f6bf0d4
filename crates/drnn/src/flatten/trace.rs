//! The states of all layers at all steps, and how far two networks lie apart.

use crate::cpu::buffer::Buffer;
use crate::error::{Error, Result, Shape};
use crate::model::batch::{Batch, States, cell_state_parts, state_parts};
use crate::model::{Model, Outputs};
use core::ops::Range;

/// States after every step, of each layer and direction (or each block that stands for a layer), in the
/// order of [`States`].
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// h: (steps, B, n) each, aligned with the elements; zeros after each sequence's end. Steps are as
    /// many as the stack takes: its own delay counts, the lag of its flattened form does not.
    pub h: Vec<Vec<f32>>,
    /// c; no entries at all for cells without it.
    pub c: Vec<Vec<f32>>,
}

/// Largest absolute differences between two runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Of the outputs.
    pub outputs: f32,
    /// Of h, by layer (and direction), at all steps.
    pub h: Vec<f32>,
    /// Of c, likewise; empty for cells without it.
    pub c: Vec<f32>,
    /// Of the last states.
    pub last: f32,
}

impl Difference {
    /// The largest of all.
    pub fn largest(&self) -> f32 {
        let all = self.h.iter().chain(&self.c).chain([&self.outputs, &self.last]);
        all.fold(0.0, |a, b| a.max(*b))
    }
}

impl Model {
    /// Runs a batch and keeps the states of all layers at all steps.
    pub fn trace(&self, batch: &Batch, start: Option<&States>) -> Result<(Outputs, Trace)> {
        let net = self.net();
        let mut trace = Trace { h: Vec::new(), c: Vec::new() };
        let outputs = self.run_with(batch, start, true, |work| {
            let (s, rows, lag) = (&work.schedule, batch.rows(), self.spec().lag());
            let steps = s.steps.first().map_or(0, |steps| steps.saturating_sub(lag));
            for (place, layer_work) in work.layers.iter().enumerate() {
                let (layer, direction) = (place / net.directions(), place % net.directions());
                let gather = |(i, (_, units)): (usize, (usize, Range<usize>)), from: &Buffer, n| {
                    let offset = if lag > 0 { i } else { 0 };
                    let from = from.slice((rows + s.total()) * n);
                    let mut to = vec![0.0; steps * rows * units.len()];
                    for (r, &row) in s.order.iter().enumerate() {
                        let own = s.steps[r].saturating_sub(lag);
                        for t in 0..own {
                            let at = if direction == 0 { t } else { own - 1 - t };
                            let from = &from[s.before(t + offset + 1, r) * n..][units.clone()];
                            let to = &mut to[(at * rows + row as usize) * units.len()..];
                            to[..units.len()].copy_from_slice(from);
                        }
                    }
                    to
                };
                let (spec, of) = (self.spec(), &layer_work);
                let parts = state_parts(spec, layer, direction, rows).enumerate();
                trace.h.extend(parts.map(|part| gather(part, &of.h, spec.hidden(layer))));
                let parts = cell_state_parts(spec, layer, direction, rows).enumerate();
                trace.c.extend(parts.map(|part| gather(part, &of.c, spec.units()[layer])));
            }
        })?;
        Ok((outputs, trace))
    }
}

/// How far `b` lies from `a` on a batch: two forms of one network, whose states have the same shapes.
pub fn compare(a: &Model, b: &Model, batch: &Batch, start: Option<&States>) -> Result<Difference> {
    let (outputs, trace) = a.trace(batch, start)?;
    let (other_outputs, other) = b.trace(batch, start)?;
    let layers = |a: &[Vec<f32>], b: &[Vec<f32>]| {
        check("layers", a.len(), b.len())?;
        a.iter().zip(b).map(|(a, b)| largest("states", a, b)).collect::<Result<Vec<_>>>()
    };
    let h = largest("last.h", &outputs.last.h, &other_outputs.last.h)?;
    let c = largest("last.c", &outputs.last.c, &other_outputs.last.c)?;
    Ok(Difference {
        outputs: largest("answers", &outputs.values, &other_outputs.values)?,
        h: layers(&trace.h, &other.h)?,
        c: layers(&trace.c, &other.c)?,
        last: h.max(c),
    })
}

fn check(name: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let (found, expected) = (Shape::Len(found), Shape::Len(expected));
    Err(Error::Shape { name: name.into(), found, expected })
}

/// Largest absolute difference; infinite where a value is NaN.
fn largest(name: &str, a: &[f32], b: &[f32]) -> Result<f32> {
    check(name, a.len(), b.len())?;
    let difference = |(a, b): (&f32, &f32)| if a == b { 0.0 } else { (a - b).abs() };
    let differences = a.iter().zip(b).map(difference);
    Ok(differences.fold(0.0, |worst, d| if d.is_nan() { f32::INFINITY } else { d.max(worst) }))
}
