//! Writes a batch in the layout that kernels read: one array of words, one copy.
//!
//! Sequences are padded here with what their network reads after the end (zeros or a symbol), so
//! kernels know nothing about delay and padding. For embeddings, the (step, row) pairs of every
//! symbol are listed, so that kernels sum their gradient in a fixed order.

use crate::step::plan::{HEADER, Plan, Shape, Staged, TargetType};
use drnn::InputSpec;
use drnn_train::{Error, Gathered, IGNORE, Inputs, Result, TargetData};

/// No symbol, zeros instead of an embedding: `NONE` of the kernels.
pub(crate) const NONE: u32 = u32::MAX;

/// Optimiser settings of one step: learning rate, and the largest gradient norm, if it is clipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub rate: f32,
    pub clip: Option<f64>,
}

/// What the targets of a batch are.
pub(crate) fn target_type(gathered: &Gathered) -> TargetType {
    match gathered.targets {
        TargetData::Classes(_) => TargetType::Classes,
        TargetData::Values(_) => TargetType::Values,
    }
}

/// The sizes of a gathered batch.
pub(crate) fn shape(plan: &Plan, gathered: &Gathered) -> Shape {
    let all = Shape::new(&plan.spec, gathered.steps, gathered.rows);
    gathered.selected.as_ref().map_or(all, |selected| all.with_selected(selected.len()))
}

/// Writes a batch to `to`; returns how many positions, or values, count in the loss. Fails if the
/// data does not fit the network.
pub(crate) fn stage(plan: &Plan, from: &Gathered, step: Step, to: &mut [u32]) -> Result<usize> {
    let shape = shape(plan, from);
    let at = Staged::new(&plan.spec, shape, target_type(from));
    let length = |row: usize| from.lengths.get(row).copied().unwrap_or(from.steps);
    for (row, run) in to[at.run..][..shape.rows].iter_mut().enumerate() {
        *run = Shape::run(&plan.spec, length(row)) as u32;
    }
    match &from.inputs {
        Inputs::Dense(x) => dense(plan, shape, from.steps, &length, x, &mut to[at.input..])?,
        Inputs::Tokens(tokens) => {
            self::tokens(plan, shape, from.steps, &length, tokens, &mut to[at.input..])?;
            let InputSpec::Tokens { symbols, .. } = plan.spec.input() else {
                return Err(misfit(plan));
            };
            let (input, lists) = to.split_at_mut(at.starts);
            let (starts, pairs) = lists.split_at_mut(at.by_symbol - at.starts);
            by_symbol(&input[at.input..][..shape.step_rows()], symbols, starts, pairs);
        }
    }
    if let Some(selected) = &from.selected {
        selected_rows(plan, shape, &length, selected, &mut to[at.selected_rows..at.targets])?;
    }
    let count = targets(plan, shape, from, &mut to[at.targets..])?;
    write_header(&mut to[..HEADER], count, target_type(from), step);
    Ok(count)
}

/// Writes the header of a batch in which `count` positions, or values, count.
pub(crate) fn write_header(to: &mut [u32], count: usize, target_type: TargetType, step: Step) {
    let weight = match target_type {
        TargetType::Classes => 1.0 / count.max(1) as f32,
        TargetType::Values => 2.0 / count.max(1) as f32,
    };
    let max_norm = step.clip.unwrap_or(f64::INFINITY).to_bits();
    to.fill(0);
    (to[0], to[1]) = (weight.to_bits(), step.rate.to_bits());
    (to[2], to[3]) = (max_norm as u32, (max_norm >> 32) as u32);
    to[4] = count as u32;
}

pub(crate) fn misfit(plan: &Plan) -> Error {
    Error::Data(format!("the data does not fit {}", plan.spec))
}

fn dense(
    plan: &Plan,
    shape: Shape,
    elements: usize,
    length: &dyn Fn(usize) -> usize,
    x: &[f32],
    to: &mut [u32],
) -> Result<()> {
    let (q, rows) = (plan.spec.input().width(), shape.rows);
    if matches!(plan.spec.input(), InputSpec::Tokens { .. }) || x.len() != elements * rows * q {
        return Err(misfit(plan));
    }
    for pair in 0..shape.step_rows() {
        let (step, row) = (pair / rows, pair % rows);
        let to = &mut to[pair * q..][..q];
        if step >= length(row) {
            to.fill(0);
            continue;
        }
        // Without branches, so that the loop is vectorised: this is all that the host does with data
        // that do not lie on the device.
        let (x, mut finite) = (&x[pair * q..][..q], true);
        for (to, x) in to.iter_mut().zip(x) {
            finite &= x.is_finite();
            *to = x.to_bits();
        }
        if !finite {
            let at = x.iter().position(|x| !x.is_finite()).unwrap_or(0);
            let (value, position) = (x[at], pair * q + at);
            return Err(drnn::Error::NotFinite { name: "x".into(), value, position }.into());
        }
    }
    Ok(())
}

fn tokens(
    plan: &Plan,
    shape: Shape,
    elements: usize,
    length: &dyn Fn(usize) -> usize,
    tokens: &[u32],
    to: &mut [u32],
) -> Result<()> {
    let rows = shape.rows;
    let InputSpec::Tokens { symbols, .. } = plan.spec.input() else { return Err(misfit(plan)) };
    if tokens.len() != elements * rows {
        return Err(misfit(plan));
    }
    for pair in 0..shape.step_rows() {
        let (step, row) = (pair / rows, pair % rows);
        to[pair] = if step < length(row) {
            let token = tokens[pair];
            if token as usize >= symbols {
                return Err(drnn::Error::Token { token, step, row, symbols }.into());
            }
            token
        } else if step < Shape::run(&plan.spec, length(row)) {
            plan.padding().unwrap_or(NONE)
        } else {
            NONE
        };
    }
    Ok(())
}

/// Counting sort: the (step, row) pairs of symbol v are `pairs[starts[v]..starts[v + 1]]`,
/// ascending.
pub(crate) fn by_symbol(tokens: &[u32], symbols: usize, starts: &mut [u32], pairs: &mut [u32]) {
    let starts = &mut starts[..symbols + 1];
    starts.fill(0);
    tokens.iter().filter(|t| **t != NONE).for_each(|t| starts[*t as usize + 1] += 1);
    for symbol in 0..symbols {
        starts[symbol + 1] += starts[symbol];
    }
    let mut next = starts.to_vec();
    for (pair, token) in tokens.iter().enumerate().filter(|(_, t)| **t != NONE) {
        let next = &mut next[*token as usize];
        pairs[*next as usize] = pair as u32;
        *next += 1;
    }
}

/// The rows of H that the selected outputs are computed from; 0 for outputs after a sequence's end
/// and for those added by rounding up.
fn selected_rows(
    plan: &Plan,
    shape: Shape,
    length: &dyn Fn(usize) -> usize,
    selected: &[u32],
    to: &mut [u32],
) -> Result<()> {
    let positions = shape.positions();
    if let Some(output) = selected.iter().find(|output| **output as usize >= positions) {
        return Err(Error::Data(format!("output {output} is selected, but there are {positions}")));
    }
    // A state selected twice would get one of two gradients.
    if let Some(two) = selected.windows(2).find(|two| two[0] >= two[1]) {
        return Err(Error::Data(format!("output {} is selected after {}", two[1], two[0])));
    }
    let first = (1 + plan.spec.delay()) * shape.rows;
    to.fill(0);
    for (to, output) in to.iter_mut().zip(selected) {
        let (step, row) = (*output as usize / shape.rows, *output as usize % shape.rows);
        if step < plan.spec.output_steps(length(row)) {
            *to = first as u32 + output;
        }
    }
    Ok(())
}

/// Writes the targets of all computed outputs; those added by rounding up do not count in the loss.
fn targets(plan: &Plan, shape: Shape, from: &Gathered, to: &mut [u32]) -> Result<usize> {
    let (m, computed) = (plan.spec.output_width(), shape.computed_outputs());
    let count = from.selected.as_ref().map_or(computed, Vec::len);
    match &from.targets {
        TargetData::Classes(classes) => {
            if classes.len() != count {
                return Err(misfit(plan));
            }
            if let Some(class) = classes.iter().find(|c| **c != IGNORE && **c as usize >= m) {
                return Err(Error::Data(format!("class {class} of {m}")));
            }
            to[..count].copy_from_slice(classes);
            to[count..computed].fill(IGNORE);
            Ok(classes.iter().filter(|c| **c != IGNORE).count())
        }
        TargetData::Values(values) => {
            if values.len() != count * m {
                return Err(misfit(plan));
            }
            to.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_bits());
            to[count * m..computed * m].fill(f32::NAN.to_bits());
            Ok(values.iter().filter(|value| !value.is_nan()).count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, NetSpec, Padding};

    const STEP: Step = Step { rate: 0.5, clip: None };

    #[test]
    fn tokens_are_padded_by_row_and_listed_by_symbol() {
        let builder = NetSpec::builder(Cell::Lstm).tokens(4, 2).units([3]).outputs(4);
        let spec = builder.delay(1, Padding::Symbol(3)).build().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let mut gathered =
            Gathered { steps: 2, rows: 2, lengths: vec![2, 1], ..Gathered::default() };
        gathered.inputs = Inputs::Tokens(vec![1, 2, 0, 77]);
        gathered.targets = TargetData::Classes(vec![0, 1, 2, IGNORE]);
        let shape = Shape::new(&spec, 2, 2);
        let at = Staged::new(&spec, shape, TargetType::Classes);
        let mut words = vec![9; at.words];
        assert_eq!(stage(&plan, &gathered, STEP, &mut words).unwrap(), 3);
        assert_eq!(words[at.run..][..2], [3, 2]);
        assert_eq!(words[at.input..][..6], [1, 2, 0, 3, 3, NONE]);
        assert_eq!(words[at.starts..][..5], [0, 1, 2, 3, 5]);
        assert_eq!(words[at.by_symbol..][..5], [2, 0, 1, 3, 4]);
        assert_eq!(f32::from_bits(words[0]), 1.0 / 3.0);
        assert_eq!((words[2], words[3]), (0, 0x7ff0_0000));
        gathered.inputs = Inputs::Tokens(vec![1, 2, 4, 0]);
        assert!(stage(&plan, &gathered, STEP, &mut words).is_err());
    }

    #[test]
    fn vectors_after_the_end_are_zeros_and_nan_values_do_not_count() {
        let spec = NetSpec::builder(Cell::Lstm).dense(1).units([3]).outputs(1);
        let spec = spec.delay(1, Padding::Null).build().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let mut gathered = Gathered { steps: 2, rows: 1, ..Gathered::default() };
        gathered.inputs = Inputs::Dense(vec![1.0, 2.0]);
        gathered.targets = TargetData::Values(vec![f32::NAN, 4.0]);
        let at = Staged::new(&spec, Shape::new(&spec, 2, 1), TargetType::Values);
        let mut words = vec![9; at.words];
        assert_eq!(stage(&plan, &gathered, STEP, &mut words).unwrap(), 1);
        assert_eq!(words[at.input..][..3], [1.0f32, 2.0, 0.0].map(f32::to_bits));
        gathered.targets = TargetData::Values(vec![3.0, 4.0]);
        gathered.inputs = Inputs::Dense(vec![1.0, f32::INFINITY]);
        assert!(stage(&plan, &gathered, STEP, &mut words).is_err());
    }

    /// 4 sequences of 9, one of them of 4: 36 positions, so selections are rounded up to threes.
    fn selecting(selected: &[u32], targets: TargetData) -> (Plan, Gathered) {
        let spec = NetSpec::builder(Cell::Lstm).dense(1).units([3]).outputs(2);
        let spec = spec.delay(2, Padding::Null).build().unwrap();
        let lengths = vec![9, 9, 4, 9];
        let mut gathered = Gathered { steps: 9, rows: 4, lengths, targets, ..Gathered::default() };
        gathered.inputs = Inputs::Dense(vec![0.0; 36]);
        gathered.selected = Some(selected.to_vec());
        (Plan::new(&spec).unwrap(), gathered)
    }

    #[test]
    fn selected_outputs_are_contiguous_and_added_ones_do_not_count() {
        // Output 18 is the fifth of the sequence of 4.
        let selected = [0, 7, 14, 18];
        let (plan, mut gathered) = selecting(&selected, TargetData::Classes(vec![1, IGNORE, 0, 1]));
        let shape = shape(&plan, &gathered);
        let at = Staged::new(&plan.spec, shape, TargetType::Classes);
        let mut words = vec![9; at.words];
        assert_eq!(stage(&plan, &gathered, STEP, &mut words).unwrap(), 3);
        assert_eq!(shape.computed_outputs(), 6);
        // After a step of zeros and the two steps whose outputs are dropped.
        assert_eq!(words[at.selected_rows..][..6], [12, 19, 26, 0, 0, 0]);
        assert_eq!(words[at.targets..][..6], [1, IGNORE, 0, 1, IGNORE, IGNORE]);
        assert_eq!(f32::from_bits(words[0]), 1.0 / 3.0);

        let values = [1.0, 2.0, 3.0, f32::NAN, 5.0, 6.0, 7.0, 8.0];
        gathered.targets = TargetData::Values(values.into());
        let at = Staged::new(&plan.spec, shape, TargetType::Values);
        let mut words = vec![9; at.words];
        assert_eq!(stage(&plan, &gathered, STEP, &mut words).unwrap(), 7);
        assert_eq!(words[at.targets..][..8], values.map(f32::to_bits));
        assert_eq!(words[at.targets + 8..][..4], [f32::NAN.to_bits(); 4]);
    }

    #[test]
    fn selections_out_of_range_or_order_are_refused() {
        let refused = |selected: &[u32]| {
            let (plan, gathered) =
                selecting(selected, TargetData::Classes(vec![0; selected.len()]));
            let at = Staged::new(&plan.spec, shape(&plan, &gathered), TargetType::Classes);
            let staged = stage(&plan, &gathered, STEP, &mut vec![0; at.words]);
            staged.err().map(|error| error.to_string())
        };
        assert_eq!((refused(&[]), refused(&[3, 35])), (None, None));
        assert!(refused(&[3, 36]).unwrap().contains("output 36 is selected, but there are 36"));
        assert!(refused(&[4, 3]).unwrap().contains("output 3 is selected after 4"));
        assert!(refused(&[4; 50]).unwrap().contains("output 4 is selected after 4"));
    }
}
