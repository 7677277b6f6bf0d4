//! The recurrent weights of a network block by block: how strong each connection is.
//!
//! ```text
//! norm of block (i, j) = sqrt(sum w^2) over all gates        from layer j at step t
//!                                                            to layer i at step t + j - i + 1
//! ```
//!
//! Of a flattened stack, or of a stack as it would be flattened: its `weight_ih_l{i}` is block (i, i - 1),
//! its `weight_hh_l{i}` block (i, i).

use crate::model::Model;
use crate::spec::blocks::Blocks;
use crate::spec::wiring::shift;
use crate::spec::{Cell, Direction};
use core::ops::Range;

/// Norms of the blocks of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockMap {
    /// The blocks, and which of them may be connected.
    pub blocks: Blocks,
    /// By (to, from): of `weight_hh`, a GRU's `weight_hu` included.
    pub norms: Vec<Vec<f64>>,
    /// What each block reads from the input.
    pub input: Vec<f64>,
    /// What the output layer reads from each block; empty where there is no output layer.
    pub output: Vec<f64>,
}

impl BlockMap {
    /// The map of a network in blocks, or of a forward stack; None for others.
    pub fn of(model: &Model) -> Option<BlockMap> {
        match model.spec().blocks() {
            Some(blocks) => Some(BlockMap::of_blocks(model, blocks)),
            None => BlockMap::of_stack(model),
        }
    }

    fn of_blocks(model: &Model, blocks: &Blocks) -> BlockMap {
        let spec = model.spec();
        let (n, k, q) = (spec.units()[0], blocks.count(), spec.input().width());
        let all =
            |i: usize| (0..spec.cell().gates()).flat_map(move |g| shift(g, n, &blocks.units(i)));
        let tensor = |name: &str| model.tensor(name).unwrap_or(&[]);
        let block = |i: usize, j: usize| {
            let gates = sum(tensor("weight_hh_l0"), n, all(i), blocks.units(j));
            let ungated = match spec.cell() {
                Cell::Gru | Cell::GruResetBefore => {
                    sum(tensor("weight_hu_l0"), n, blocks.units(i), blocks.units(j))
                }
                _ => 0.0,
            };
            (gates + ungated).sqrt()
        };
        let outputs = |i: usize| {
            let rows = spec.outputs()?;
            Some(sum(tensor("output.weight"), n, 0..rows, blocks.units(i)).sqrt())
        };
        BlockMap {
            norms: (0..k).map(|i| (0..k).map(|j| block(i, j)).collect()).collect(),
            input: (0..k).map(|i| sum(tensor("weight_ih_l0"), q, all(i), 0..q).sqrt()).collect(),
            output: (0..k).filter_map(outputs).collect(),
            blocks: blocks.clone(),
        }
    }

    fn of_stack(model: &Model) -> Option<BlockMap> {
        let (spec, k) = (model.spec(), model.spec().layers());
        if spec.direction() == Direction::Bidirectional || k < 2 {
            return None;
        }
        let norm = |name: String| {
            let values = model.tensor(&name).unwrap_or(&[]).iter();
            values.map(|&w| f64::from(w).powi(2)).sum::<f64>().sqrt()
        };
        let block = |i: usize, j: usize| match i - j.min(i) {
            0 if i == j => norm(format!("weight_hh_l{i}")),
            1 => norm(format!("weight_ih_l{i}")),
            _ => 0.0,
        };
        let mut input = vec![0.0; k];
        input[0] = norm("weight_ih_l0".into());
        let mut output = vec![0.0; if spec.outputs().is_some() { k } else { 0 }];
        if let Some(last) = output.last_mut() {
            *last = norm("output.weight".into());
        }
        Some(BlockMap {
            norms: (0..k).map(|i| (0..k).map(|j| block(i, j)).collect()).collect(),
            input,
            output,
            blocks: Blocks::new(spec.units()),
        })
    }
}

/// Sum of squares of some rows and columns of a matrix `width` wide.
fn sum(w: &[f32], width: usize, rows: impl Iterator<Item = usize>, columns: Range<usize>) -> f64 {
    let row = |r: usize| w[r * width..][columns.clone()].iter().map(|&w| f64::from(w).powi(2));
    rows.flat_map(row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetSpec, StartState};

    #[test]
    fn a_stack_and_its_flattened_form_have_the_same_map() {
        for cell in Cell::ALL {
            let spec = NetSpec::builder(cell).dense(2).units([3, 5, 2]).outputs(4).build().unwrap();
            let stack = Model::init(&spec, 1).unwrap();
            let (a, b) = (BlockMap::of(&stack).unwrap(), stack.flatten(StartState::Held).unwrap());
            let b = BlockMap::of(&b).unwrap();
            let flat =
                |m: &BlockMap| [m.norms.concat(), m.input.clone(), m.output.clone()].concat();
            for (x, y) in flat(&a).iter().zip(flat(&b)) {
                assert!((x - y).abs() < 1e-9, "{a:?} {b:?}");
            }
            assert!(a.norms[1][0] > 0.0 && a.norms[1][1] > 0.0 && a.norms[0][1] == 0.0);
            assert_eq!(a.norms[2][0], 0.0);
        }
    }
}
