//! The start state of a flattened stack whose blocks all run from the first step (the paper's Lemma 1).
//!
//! ```text
//! s = f(W_hh h' + W_ih b + bias)        h' = W_hh^+ (f^-1(s) - W_ih b - bias)
//! ```
//!
//! Block i must hold layer i's start state s before step i. So it is traced back, from that state i steps
//! to the first: b is the block below at the same step, `f^-1` a right-inverse of the activation and
//! `W_hh^+` the pseudo-inverse. The lemma says that this always works. It does not:
//!
//! - **Out of range.** h' is in the range of f only by luck, and must be, except before the first step:
//!   from the third block on there is a state in between. Block 1 always works, if its own start state is in range:
//!   `tanh` has nothing at 1 and beyond, `relu` nothing below 0.
//! - **Singular `W_hh`.** `W_hh^+` then gives the nearest h', which leads to another state. The lemma's
//!   proof takes `W_hh W_hh^+ = 1`.
//! - **LSTM.** A state (h, c) can be reached only if `h = o tanh(c)` for some o between 0 and 1, unit by unit: then
//!   `h' = W_o^+ (logit(o) - ..)` and `c' = (c - i g) / f`. What is traced back so has no reason to be such a
//!   state, and from the third block on it must be. Where h = c = 0, any o will do.
//! - **GRU.** `h = (1 - z) n + z h'` cannot be solved for h' in closed form; there is no solved start.
//!
//! A state that the stack has really been in does have a solution: what its layers held i steps ago. For
//! tanh and LSTM it is found again as long as rounding allows (`drnn reproduce theorem` counts how often). For
//! relu it seldom is: a unit at 0 may have come from anything below 0, and the right-inverse takes 0. Zeros, where most
//! sequences start, usually have no solution for three layers and more.
//!
//! Whatever comes out is run forward again, in single precision as it will be used, and refused if it does
//! not lead to the start states.
//!
//! ```
//! use drnn::{Cell, Error, Model, NetSpec, StartState, States};
//!
//! // h_t = tanh(h_{t-1} / 2 + below) in two layers of one unit.
//! let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([1, 1]).build()?;
//! let weights = |w_hh: f32| vec![1.0, 0.5, 0.0, 0.0, 1.0, w_hh, 0.0, 0.0];
//! let flat = Model::from_params(&spec, weights(0.5))?.flatten(StartState::Solved)?;
//! let start = States { h: vec![0.2, 0.3], c: vec![] };
//! let solved = drnn::solve_start(&flat, &start, 1)?; // tanh(h' / 2 + 0.2) = 0.3
//! assert!((solved.h[1] - 2.0 * (0.3f32.atanh() - 0.2)).abs() < 1e-6);
//!
//! // Outside the range of tanh: no step can end there.
//! let start = States { h: vec![0.2, 1.5], c: vec![] };
//! let error = drnn::solve_start(&flat, &start, 1).unwrap_err();
//! assert!(error.to_string().contains("unit 0 would have to be 1.5000, outside (-1, 1) by 0.5000"));
//!
//! // Singular: block 1 forgets its own state, so block 0 alone decides what it becomes.
//! let flat = Model::from_params(&spec, weights(0.0))?.flatten(StartState::Solved)?; // zeros still work
//! let start = States { h: vec![0.2, 0.3], c: vec![] };
//! let error = drnn::solve_start(&flat, &start, 1).unwrap_err();
//! assert!(error.to_string().contains("`W_hh` is singular (rank 0 of 1)"));
//!
//! // An LSTM state that no output gate can make: |h| > |tanh(c)|.
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([1, 1]).build()?;
//! let flat = Model::init(&spec, 1)?.flatten(StartState::Solved)?;
//! let start = States { h: vec![0.0, 0.9], c: vec![0.0, 0.1] };
//! let error = drnn::solve_start(&flat, &start, 1).unwrap_err();
//! assert!(error.to_string().contains("h = 0.9000 with c = 0.1000 takes an output gate of 9.03"));
//! # Ok::<(), drnn::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::model::Model;
use crate::model::batch::States;
use crate::spec::Cell;
use crate::spec::blocks::{Blocks, Connections};
use nalgebra::{DMatrix, DVector};

/// Largest difference, per value, between where a solved start leads and where it should.
const TOLERANCE: f64 = 1e-5;

/// The state from which all blocks of `flat`, running from the first step, come to layer i's start state
/// before step i: of `rows` sequences, in the shape of `start`.
pub fn solve_start(flat: &Model, start: &States, rows: usize) -> Result<States> {
    solve_rows(flat, start, rows, |_| true)
}

/// The same for those rows that `runs` names; the others stay as they are.
pub(crate) fn solve_rows(
    flat: &Model,
    start: &States,
    rows: usize,
    runs: impl Fn(usize) -> bool,
) -> Result<States> {
    let spec = flat.spec();
    let blocks = spec.blocks().filter(|b| *b.connected() == Connections::Stacked);
    let Some(blocks) = blocks.filter(|_| !spec.cell().is_gru()) else {
        return Err(Error::Flatten(format!(
            "{spec}: only a flattened RNN or LSTM has a solved start"
        )));
    };
    start.check("start", spec, rows)?;
    let solver = flat.solver.get_or_init(|| Solver::new(flat, blocks));
    let mut solved = start.clone();
    for row in (0..rows).filter(|&row| runs(row)) {
        let (mut at, mut given) = (0, Vec::new());
        for &n in blocks.widths() {
            let of = |values: &[f32]| {
                let values = values.get(at + row * n..at + (row + 1) * n).unwrap_or(&[]);
                DVector::from_iterator(values.len(), values.iter().map(|&x| f64::from(x)))
            };
            given.push(State { h: of(&start.h), c: of(&start.c) });
            at += n * rows;
        }
        let found = solver.solve(&given).map_err(|Unsolvable { block, step, reason }| {
            Error::Unsolvable { row, block, step, reason }
        })?;
        let mut at = 0;
        for (state, &n) in found.iter().zip(blocks.widths()) {
            let to = at + row * n..at + (row + 1) * n;
            copy(&state.h, &mut solved.h[to.clone()]);
            if spec.cell().has_cell_state() {
                copy(&state.c, &mut solved.c[to]);
            }
            at += n * rows;
        }
    }
    Ok(solved)
}

fn copy(from: &DVector<f64>, to: &mut [f32]) {
    to.iter_mut().zip(from.iter()).for_each(|(to, &from)| *to = from as f32);
}

/// Where, and why, a sequence has no solution.
struct Unsolvable {
    block: usize,
    step: usize,
    reason: String,
}

type Solution<T> = core::result::Result<T, Unsolvable>;

/// The state of one block of one sequence; c is empty for cells without it.
#[derive(Clone)]
struct State {
    h: DVector<f64>,
    c: DVector<f64>,
}

impl State {
    /// As single precision has it.
    fn rounded(&self) -> State {
        let round = |v: &DVector<f64>| v.map(|x| f64::from(x as f32));
        State { h: round(&self.h), c: round(&self.c) }
    }
}

/// The blocks of a network, ready to be solved.
pub(crate) struct Solver {
    cell: Cell,
    /// All but block 0, which begins at once.
    blocks: Vec<BlockSolver>,
}

struct BlockSolver {
    /// Number of the block.
    block: usize,
    /// Gates by units: from the block itself, and from the one below.
    w: DMatrix<f64>,
    below: DMatrix<f64>,
    bias: DVector<f64>,
    /// Of the rows of `w` that decide h: all of an RNN's, those of an LSTM's output gate.
    inverse: Inverse,
}

/// A pseudo-inverse.
struct Inverse {
    matrix: DMatrix<f64>,
    rank: usize,
}

impl Inverse {
    fn new(w: DMatrix<f64>) -> Inverse {
        let (rows, cols) = w.shape();
        if rows == 0 {
            return Inverse { matrix: DMatrix::zeros(cols, 0), rank: 0 };
        }
        let svd = w.svd(true, true);
        // What is smaller was not there in single precision.
        let limit = svd.singular_values.max() * f64::from(f32::EPSILON) * rows.max(cols) as f64;
        let rank = svd.rank(limit);
        // Fails only where U or V was not requested.
        let matrix = svd.pseudo_inverse(limit).unwrap_or_else(|_| DMatrix::zeros(cols, rows));
        Inverse { matrix, rank }
    }
}

impl Solver {
    pub fn new(flat: &Model, blocks: &Blocks) -> Solver {
        let (cell, n) = (flat.spec().cell(), flat.spec().units()[0]);
        let [_, w_hh, b_ih, b_hh] = flat.layout().layer(0, 0).map(|range| &flat.params()[range]);
        let block = |i: usize| {
            let (own, under, gates) = (blocks.units(i), blocks.units(i - 1), cell.gates());
            let rows = gates * own.len();
            let row = |r: usize| r / own.len() * n + own.start + r % own.len();
            let part = |first: usize, width: usize| {
                DMatrix::from_fn(rows, width, |r, c| f64::from(w_hh[row(r) * n + first + c]))
            };
            let w = part(own.start, own.len());
            let deciding = if cell == Cell::Lstm { 3 * own.len() } else { 0 };
            BlockSolver {
                block: i,
                below: part(under.start, under.len()),
                bias: DVector::from_fn(rows, |r, _| {
                    f64::from(b_ih[row(r)]) + f64::from(b_hh[row(r)])
                }),
                inverse: Inverse::new(w.rows(deciding, own.len()).into_owned()),
                w,
            }
        };
        Solver { cell, blocks: (1..blocks.count()).map(block).collect() }
    }

    /// The states of all blocks before step 0 that lead to the states given.
    fn solve(&self, given: &[State]) -> Solution<Vec<State>> {
        // path[t] is the state of the block before step t.
        let mut below = vec![given[0].clone()];
        let mut solved = below.clone();
        for block in &self.blocks {
            let mut path = vec![given[block.block].clone()];
            for t in (0..block.block).rev() {
                path.push(block.step_back(self.cell, &path[path.len() - 1], &below[t], t)?);
            }
            path.reverse();
            solved.push(path[0].clone());
            below = path;
        }
        self.check(&solved, given)?;
        Ok(solved)
    }

    /// Runs the blocks from where they start, to see whether they come to the states given.
    fn check(&self, solved: &[State], given: &[State]) -> Solution<()> {
        let mut below = vec![solved[0].rounded()];
        for block in &self.blocks {
            let mut path = vec![solved[block.block].rounded()];
            for (t, below) in below.iter().enumerate() {
                path.push(block.step(self.cell, &path[t], below));
            }
            let (found, wanted) = (&path[block.block], &given[block.block]);
            let error = (&found.h - &wanted.h).amax().max((&found.c - &wanted.c).amax());
            if error.is_nan() || error > TOLERANCE {
                let reason = format!(
                    "single precision is not enough: the start found leads there but for {error:.1e}"
                );
                return Err(Unsolvable { block: block.block, step: block.block, reason });
            }
            below = path;
        }
        Ok(())
    }
}

impl BlockSolver {
    /// Pre-activations, gate after gate.
    fn gates(&self, h: &DVector<f64>, below: &State) -> DVector<f64> {
        &self.w * h + &self.below * &below.h + &self.bias
    }

    /// One step forward.
    fn step(&self, cell: Cell, before: &State, below: &State) -> State {
        let a = self.gates(&before.h, below);
        match cell {
            Cell::RnnRelu => State { h: a.map(|a| a.max(0.0)), c: before.c.clone() },
            Cell::Lstm => {
                let [input, forget, new, output] = self.lstm_gates(&a);
                let c = forget.component_mul(&before.c) + input.component_mul(&new);
                State { h: output.component_mul(&c.map(f64::tanh)), c }
            }
            _ => State { h: a.map(f64::tanh), c: before.c.clone() },
        }
    }

    fn lstm_gates(&self, a: &DVector<f64>) -> [DVector<f64>; 4] {
        let n = self.w.ncols();
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let gate = |g: usize| a.rows(g * n, n).map(if g == 2 { f64::tanh } else { sigmoid });
        [gate(0), gate(1), gate(2), gate(3)]
    }

    /// The state before step t from which it leads to `after`.
    fn step_back(&self, cell: Cell, after: &State, below: &State, t: usize) -> Solution<State> {
        let n = self.w.ncols();
        let refuse =
            |step: usize, reason: String| Err(Unsolvable { block: self.block, step, reason });
        // Pre-activations that the step must have, where there is a choice of one.
        let mut wanted = Vec::new();
        for (u, &h) in after.h.iter().enumerate() {
            wanted.push(match cell {
                Cell::RnnRelu if h < 0.0 => {
                    return refuse(
                        t + 1,
                        format!("unit {u} would have to be {h:.4}, below 0, which relu never is"),
                    );
                }
                Cell::RnnRelu => Some(h),
                Cell::Lstm => match (h, after.c[u].tanh()) {
                    (0.0, 0.0) => None, // any output gate will do
                    (h, tanh_c) => {
                        let o = h / tanh_c;
                        if !(o > 0.0 && o < 1.0) {
                            let c = after.c[u];
                            let gate = format!("takes an output gate of {o:.2}, not between 0 and 1");
                            return refuse(
                                t + 1,
                                format!("unit {u} cannot be reached: h = {h:.4} with c = {c:.4} {gate}"),
                            );
                        }
                        Some((o / (1.0 - o)).ln())
                    }
                },
                _ if h.abs() >= 1.0 => {
                    let (range, by) = ("outside (-1, 1)", h.abs() - 1.0);
                    return refuse(
                        t + 1,
                        format!("unit {u} would have to be {h:.4}, {range} by {by:.4}, where tanh never is"),
                    );
                }
                _ => Some(h.atanh()),
            });
        }
        let first = self.w.nrows() - n; // the rows that decide h
        let chosen: Vec<usize> = (0..n).filter(|&u| wanted[u].is_some()).collect();
        let rest = self.gates(&DVector::zeros(n), below);
        let goal = DVector::from_iterator(
            chosen.len(),
            chosen.iter().map(|&u| wanted[u].unwrap_or_default() - rest[first + u]),
        );
        let w = self.w.rows(first, n).select_rows(&chosen);
        let part; // where some units may be anything
        let inverse = match chosen.len() == n {
            true => &self.inverse,
            false => {
                part = Inverse::new(w.clone());
                &part
            }
        };
        let h = &inverse.matrix * &goal;
        let error = if chosen.is_empty() { 0.0 } else { (&w * &h - &goal).amax() };
        if error.is_nan() || error > TOLERANCE * (1.0 + goal.amax()) {
            let (rank, name) = (inverse.rank, if cell == Cell::Lstm { "W_ho" } else { "W_hh" });
            return refuse(
                t,
                format!(
                    "`{name}` is singular (rank {rank} of {}), off by {error:.1e}",
                    chosen.len()
                ),
            );
        }
        let mut c = after.c.clone();
        if cell == Cell::Lstm {
            let [input, forget, new, _] = self.lstm_gates(&self.gates(&h, below));
            c = (c - input.component_mul(&new)).component_div(&forget);
        }
        Ok(State { h, c })
    }
}
