//! The oracle: the equations in f64, one sequence at a time, naive loops. Only tests and
//! checks use it.
//!
//! Layer by layer (x is the layer's input, h' and c' the state one step before, s the sigmoid):
//!
//! ```text
//! rnn    h = tanh(W_ih x + b_ih + W_hh h' + b_hh)         or max(0, ..)
//! lstm   i, f, o = s(W_ih x + b_ih + W_hh h' + b_hh)      g = tanh(same)
//!        c = f c' + i g                                   h = o tanh(c), projected: W_hr (o tanh(c))
//! gru    r, z = s(W_ih x + b_ih + W_hh h' + b_hh)         n = tanh(W_in x + b_in + r (W_hn h' + b_hn))
//!        h = (1 - z) n + z h'                             or, reset before: n = tanh(.. + W_hn (r h') + b_hn)
//! both ways    layer input of position t = [forward h_t; reverse h_t] of the layer below
//! output       y = W h + b                                or y = h without an output layer
//! delay d      output t is y of step t + d; after the sequence come d elements of padding
//! blocks       one layer; block i keeps its state before step i and after its last, S - (k - 1) + i - 1,
//!              where S is the number of steps; a GRU's n = tanh(.. + W_hu h' + r (W_hn h' + b_hn))
//! ```
//!
//! The equations are written once, over [`Number`]. Run on [`Dual`] numbers they give exact
//! derivatives, so [`gradient`] shares nothing with the backward passes it is there to check.

use crate::spec::blocks::{Blocks, StartState};
use crate::spec::params::Layout;
use crate::spec::{Cell, InputSpec, NetSpec, Padding};
use core::iter::repeat_n;
use core::ops::{Add, Mul, Sub};

/// The operations that the equations need of a number.
pub trait Number:
    Copy + From<f64> + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// `1 / (1 + exp(-x))`
    fn sigmoid(self) -> Self;
    /// `max(0, x)`, with slope 0 at 0 as PyTorch has it; NaN stays NaN.
    fn relu(self) -> Self;
}

impl Number for f64 {
    fn tanh(self) -> f64 {
        f64::tanh(self)
    }
    fn sigmoid(self) -> f64 {
        1.0 / (1.0 + (-self).exp())
    }
    fn relu(self) -> f64 {
        if self <= 0.0 { 0.0 } else { self }
    }
}

/// A value and its derivative along one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dual {
    /// f
    pub value: f64,
    /// df
    pub slope: f64,
}

impl From<f64> for Dual {
    fn from(value: f64) -> Dual {
        Dual { value, slope: 0.0 }
    }
}

impl Add for Dual {
    type Output = Dual;
    fn add(self, b: Dual) -> Dual {
        Dual { value: self.value + b.value, slope: self.slope + b.slope }
    }
}

impl Sub for Dual {
    type Output = Dual;
    fn sub(self, b: Dual) -> Dual {
        Dual { value: self.value - b.value, slope: self.slope - b.slope }
    }
}

impl Mul for Dual {
    type Output = Dual;
    fn mul(self, b: Dual) -> Dual {
        Dual { value: self.value * b.value, slope: self.slope * b.value + self.value * b.slope }
    }
}

impl Number for Dual {
    fn tanh(self) -> Dual {
        let y = self.value.tanh();
        Dual { value: y, slope: (1.0 - y * y) * self.slope }
    }
    fn sigmoid(self) -> Dual {
        let y = self.value.sigmoid();
        Dual { value: y, slope: y * (1.0 - y) * self.slope }
    }
    fn relu(self) -> Dual {
        if self.value <= 0.0 { Dual::from(0.0) } else { self }
    }
}

/// The elements of one sequence: one per output, and d more for [`Padding::LookAhead`].
#[derive(Debug, Clone, PartialEq)]
pub enum Sequence<N = f64> {
    /// Vectors of q numbers.
    Dense(Vec<Vec<N>>),
    /// Symbols.
    Tokens(Vec<u32>),
}

/// States of all recurrences; that of `layer` and `direction` is at `layer * directions + direction`.
#[derive(Debug, Clone, PartialEq)]
pub struct RefState<N> {
    /// h
    pub h: Vec<Vec<N>>,
    /// c; no entries at all for cells without it.
    pub c: Vec<Vec<N>>,
}

/// What a run gives.
#[derive(Debug, Clone, PartialEq)]
pub struct RefRun<N> {
    /// y, one per output.
    pub outputs: Vec<Vec<N>>,
    /// The state after the last step; a reverse direction's last step reads element 0.
    pub last: RefState<N>,
    /// The states after every step of each recurrence (or block, from the step on that it begins with),
    /// in the order in which it takes them.
    pub steps: RefSteps<N>,
}

/// States by recurrence, then step.
#[derive(Debug, Clone, PartialEq)]
pub struct RefSteps<N> {
    /// h
    pub h: Vec<Vec<Vec<N>>>,
    /// c; no entries at all for cells without it.
    pub c: Vec<Vec<Vec<N>>>,
}

impl<N: Number> RefSteps<N> {
    fn new(recurrences: usize, cell: Cell) -> RefSteps<N> {
        let c = if cell.has_cell_state() { recurrences } else { 0 };
        RefSteps { h: vec![Vec::new(); recurrences], c: vec![Vec::new(); c] }
    }

    fn push(&mut self, recurrence: usize, h: &[N], c: Option<&[N]>) {
        self.h[recurrence].push(h.to_vec());
        if let Some(c) = c {
            self.c[recurrence].push(c.to_vec());
        }
    }
}

/// Derivatives of a loss with respect to everything that [`run`] reads.
#[derive(Debug, Clone, PartialEq)]
pub struct RefGradient {
    /// One per parameter.
    pub params: Vec<f64>,
    /// One vector per element; empty for tokens.
    pub input: Vec<Vec<f64>>,
    /// Of the start state.
    pub start: RefState<f64>,
}

/// The state that is zero everywhere.
pub fn zero_state<N: Number>(spec: &NetSpec) -> RefState<N> {
    let directions = spec.direction().count();
    let zeros = |widths: &[usize]| {
        let each = widths.iter().flat_map(|&n| repeat_n(vec![N::from(0.0); n], directions));
        each.collect()
    };
    RefState { h: zeros(spec.state_widths()), c: zeros(spec.cell_state_widths()) }
}

/// Runs the network over one sequence. A sequence without outputs takes no step.
///
/// # Panics
/// If a shape does not fit the network.
pub fn run<N: Number>(
    spec: &NetSpec,
    params: &[N],
    sequence: &Sequence<N>,
    start: &RefState<N>,
) -> RefRun<N> {
    run_with_factors(spec, params, sequence, start, None)
}

/// What dropout multiplies by: factors of the units of (layer, direction) at a step of its recurrence.
pub type Factors<'a> = dyn Fn((usize, usize), usize, usize) -> Vec<f32> + 'a;

/// The same where every layer passes its states on times `factors`; not for blocks.
///
/// # Panics
/// If a shape does not fit the network.
pub fn run_with_factors<N: Number>(
    spec: &NetSpec,
    params: &[N],
    sequence: &Sequence<N>,
    start: &RefState<N>,
    factors: Option<&Factors>,
) -> RefRun<N> {
    let net = Named { layout: Layout::new(spec), params };
    assert_eq!(params.len(), net.layout.len(), "length of the flat parameter vector");
    let mut last = start.clone();
    let mut x = padded(spec, &net, sequence);
    let mut steps = RefSteps::new(start.h.len(), spec.cell());
    if x.is_empty() {
        return RefRun { outputs: Vec::new(), last, steps };
    }
    let output = |h: &Vec<N>| match spec.outputs() {
        Some(_) => affine(net.get("output.weight"), h, net.get("output.bias")),
        None => h[h.len() - spec.output_width()..].to_vec(),
    };
    if let Some(blocks) = spec.blocks() {
        x = run_blocks(spec, blocks, &net, &x, &mut last, &mut steps);
        return RefRun { outputs: x[spec.delay()..].iter().map(output).collect(), last, steps };
    }
    let suffixes = &["", "_reverse"][..spec.direction().count()];
    for layer in 0..spec.layers() {
        let mut y = vec![Vec::new(); x.len()];
        for (direction, suffix) in suffixes.iter().enumerate() {
            let weights = net.layer(layer, suffix);
            let lane = layer * suffixes.len() + direction;
            for step in 0..x.len() {
                let t = if direction == 0 { step } else { x.len() - 1 - step };
                weights.step(spec.cell(), &x[t], &mut last, lane);
                let h = last.h[lane].iter().copied();
                match factors.map(|of| of((layer, direction), step, h.len())) {
                    Some(f) => y[t].extend(h.zip(f).map(|(h, f)| h * f64::from(f).into())),
                    None => y[t].extend(h),
                }
                steps.push(lane, &last.h[lane], last.c.get(lane).map(Vec::as_slice));
            }
        }
        x = y;
    }
    RefRun { outputs: x[spec.delay()..].iter().map(output).collect(), last, steps }
}

/// One layer in blocks: the states of all units after each step.
fn run_blocks<N: Number>(
    spec: &NetSpec,
    blocks: &Blocks,
    net: &Named<N>,
    x: &[Vec<N>],
    last: &mut RefState<N>,
    steps: &mut RefSteps<N>,
) -> Vec<Vec<N>> {
    let (weights, start) = (net.layer(0, ""), blocks.start_state());
    let has_c = spec.cell().has_cell_state();
    let c = if has_c { vec![last.c.concat()] } else { Vec::new() };
    let mut state = RefState { h: vec![last.h.concat()], c };
    let mut hidden = Vec::new();
    for (t, x_t) in x.iter().enumerate() {
        let before = state.clone();
        weights.step(spec.cell(), x_t, &mut state, 0);
        let mut unit = 0;
        for (i, &n) in spec.state_widths().iter().enumerate() {
            let (units, k) = (unit..unit + n, blocks.count());
            let begins = if start == StartState::Held { i } else { 0 };
            let ends = if start == StartState::Free { x.len() } else { x.len() - (k - 1) + i };
            if !(begins..ends).contains(&t) {
                state.h[0][units.clone()].copy_from_slice(&before.h[0][units.clone()]);
                if has_c {
                    state.c[0][units.clone()].copy_from_slice(&before.c[0][units.clone()]);
                }
            } else if start == StartState::Free || t >= i {
                let c = state.c.first().map(|c| &c[units.clone()]);
                steps.push(i, &state.h[0][units.clone()], c);
            }
            last.h[i].copy_from_slice(&state.h[0][units.clone()]);
            if has_c {
                last.c[i].copy_from_slice(&state.c[0][units]);
            }
            unit += n;
        }
        hidden.push(state.h[0].clone());
    }
    hidden
}

/// What the first layer reads, padding included: L + d vectors for L outputs, none for none.
fn padded<N: Number>(spec: &NetSpec, net: &Named<N>, sequence: &Sequence<N>) -> Vec<Vec<N>> {
    let q = spec.input().width();
    let embed = |&token: &u32| net.get("embedding.weight")[token as usize * q..][..q].to_vec();
    let mut x: Vec<Vec<N>> = match (spec.input(), sequence) {
        (InputSpec::Dense(_), Sequence::Dense(vectors)) => vectors.clone(),
        (InputSpec::Tokens { .. }, Sequence::Tokens(tokens)) => tokens.iter().map(embed).collect(),
        _ => panic!("the sequence is not of the kind that the network reads"),
    };
    if x.is_empty() {
        return x;
    }
    match spec.padding() {
        Padding::Symbol(id) => x.extend(repeat_n(embed(&id), spec.delay())),
        _ if x.len() <= spec.look_ahead() => x.clear(),
        _ => {
            let steps = spec.delay() - spec.look_ahead();
            x.extend(repeat_n(vec![N::from(0.0); q], steps));
        }
    }
    x
}

/// Parameters by name.
struct Named<'a, N> {
    layout: Layout,
    params: &'a [N],
}

impl<'a, N> Named<'a, N> {
    fn get(&self, name: &str) -> &'a [N] {
        let tensor = self.layout.find(name).unwrap_or_else(|| panic!("no tensor `{name}`"));
        &self.params[tensor.range.clone()]
    }

    fn layer(&self, layer: usize, suffix: &str) -> Weights<'a, N> {
        let get = |name: &str| self.get(&format!("{name}_l{layer}{suffix}"));
        let w_hu = self.layout.find("weight_hu_l0").map(|_| get("weight_hu"));
        let [w_ih, w_hh] = [get("weight_ih"), get("weight_hh")];
        let w_hr = self.layout.find("weight_hr_l0").map(|_| get("weight_hr"));
        Weights { w_ih, w_hh, b_ih: get("bias_ih"), b_hh: get("bias_hh"), w_hu, w_hr }
    }
}

/// The parameters of one recurrence.
struct Weights<'a, N> {
    w_ih: &'a [N],
    w_hh: &'a [N],
    b_ih: &'a [N],
    b_hh: &'a [N],
    w_hu: Option<&'a [N]>,
    w_hr: Option<&'a [N]>,
}

impl<N: Number> Weights<'_, N> {
    /// One step: the state of `lane` after reading x.
    fn step(&self, cell: Cell, x: &[N], state: &mut RefState<N>, lane: usize) {
        let before = state.h[lane].clone();
        let mut from_x = affine(self.w_ih, x, self.b_ih); // gates * n
        if let Some(w_hu) = self.w_hu {
            let candidate = from_x.len() - before.len()..;
            let u = affine(w_hu, &before, &from_x[candidate.clone()]);
            from_x[candidate].copy_from_slice(&u);
        }
        let mut from_h = affine(self.w_hh, &before, self.b_hh); // gates * n
        let n = from_x.len() / cell.gates();
        if cell == Cell::GruResetBefore {
            let gated = |u: usize| (from_x[u] + from_h[u]).sigmoid() * before[u];
            let gated: Vec<N> = (0..n).map(gated).collect();
            let candidate = affine(&self.w_hh[2 * n * n..], &gated, &self.b_hh[2 * n..]);
            from_h[2 * n..].copy_from_slice(&candidate);
        }
        let mut after = vec![N::from(0.0); n];
        for (u, h) in after.iter_mut().enumerate() {
            let sum = |gate: usize| from_x[gate * n + u] + from_h[gate * n + u];
            match cell {
                Cell::RnnTanh => *h = sum(0).tanh(),
                Cell::RnnRelu => *h = sum(0).relu(),
                Cell::Lstm => {
                    let (i, f) = (sum(0).sigmoid(), sum(1).sigmoid());
                    let (g, o) = (sum(2).tanh(), sum(3).sigmoid());
                    let c = &mut state.c[lane][u];
                    *c = f * *c + i * g;
                    *h = o * c.tanh();
                }
                Cell::Gru => {
                    let (r, z) = (sum(0).sigmoid(), sum(1).sigmoid());
                    let n = (from_x[2 * n + u] + r * from_h[2 * n + u]).tanh();
                    *h = (N::from(1.0) - z) * n + z * before[u];
                }
                Cell::GruResetBefore => {
                    let (z, n) = (sum(1).sigmoid(), sum(2).tanh());
                    *h = (N::from(1.0) - z) * n + z * before[u];
                }
            }
        }
        state.h[lane] = match self.w_hr {
            None => after,
            Some(w_hr) => affine(w_hr, &after, &vec![N::from(0.0); before.len()]),
        };
    }
}

/// `W x + b`, W row by row.
fn affine<N: Number>(w: &[N], x: &[N], b: &[N]) -> Vec<N> {
    assert_eq!(w.len(), b.len() * x.len(), "W is not [{}, {}]", b.len(), x.len());
    let row =
        |(j, &b): (usize, &N)| x.iter().zip(&w[j * x.len()..]).fold(b, |sum, (&x, &w)| sum + w * x);
    b.iter().enumerate().map(row).collect()
}

/// The derivative of `sum(d_outputs * outputs) + sum(d_last * last)` with respect to the
/// parameters, the (dense) sequence and the start state: one [`Dual`] run per coordinate.
///
/// # Panics
/// If a shape does not fit the network.
pub fn gradient(
    spec: &NetSpec,
    params: &[f64],
    sequence: &Sequence,
    start: &RefState<f64>,
    d_outputs: &[Vec<f64>],
    d_last: &RefState<f64>,
) -> RefGradient {
    gradient_with_factors(spec, params, sequence, start, (d_outputs, d_last), None)
}

/// The same with dropout's factors.
///
/// # Panics
/// If a shape does not fit the network.
pub fn gradient_with_factors(
    spec: &NetSpec,
    params: &[f64],
    sequence: &Sequence,
    start: &RefState<f64>,
    (d_outputs, d_last): (&[Vec<f64>], &RefState<f64>),
    factors: Option<&Factors>,
) -> RefGradient {
    let mut at = Point {
        params: params.iter().map(|&p| p.into()).collect(),
        sequence: match sequence {
            Sequence::Dense(x) => Sequence::Dense(lift(x)),
            Sequence::Tokens(tokens) => Sequence::Tokens(tokens.clone()),
        },
        start: RefState { h: lift(&start.h), c: lift(&start.c) },
    };
    let mut slopes =
        Point { params: params.to_vec(), sequence: sequence.clone(), start: start.clone() };
    for (i, slope) in slopes.coordinates().enumerate() {
        at.set_direction(i, 1.0);
        let found = run_with_factors(spec, &at.params, &at.sequence, &at.start, factors);
        *slope = slope_along(d_outputs, &found.outputs)
            + slope_along(&d_last.h, &found.last.h)
            + slope_along(&d_last.c, &found.last.c);
        at.set_direction(i, 0.0);
    }
    let input = match slopes.sequence {
        Sequence::Dense(d_input) => d_input,
        Sequence::Tokens(_) => Vec::new(),
    };
    RefGradient { params: slopes.params, input, start: slopes.start }
}

/// Everything a run reads.
struct Point<N> {
    params: Vec<N>,
    sequence: Sequence<N>,
    start: RefState<N>,
}

impl<N> Point<N> {
    /// All numbers in it, always in the same order.
    fn coordinates(&mut self) -> impl Iterator<Item = &mut N> {
        let input = match &mut self.sequence {
            Sequence::Dense(x) => x.as_mut_slice(),
            Sequence::Tokens(_) => &mut [],
        };
        let vectors = input.iter_mut().chain(&mut self.start.h).chain(&mut self.start.c);
        self.params.iter_mut().chain(vectors.flatten())
    }
}

impl Point<Dual> {
    fn set_direction(&mut self, coordinate: usize, slope: f64) {
        self.coordinates().nth(coordinate).expect("a coordinate").slope = slope;
    }
}

fn lift(vectors: &[Vec<f64>]) -> Vec<Vec<Dual>> {
    vectors.iter().map(|v| v.iter().map(|&x| x.into()).collect()).collect()
}

fn slope_along(weights: &[Vec<f64>], found: &[Vec<Dual>]) -> f64 {
    assert_eq!(weights.len(), found.len(), "one upstream vector per output or state");
    let dot = |(w, y): (&Vec<f64>, &Vec<Dual>)| {
        assert_eq!(w.len(), y.len(), "width of an upstream vector");
        w.iter().zip(y).map(|(w, y)| w * y.slope).sum::<f64>()
    };
    weights.iter().zip(found).map(dot).sum()
}

#[cfg(test)]
mod tests;
