//! Depth checked against the equations: which inputs an output depends on, and through how much.
//!
//! ```text
//! slope(p, t) = dy_t / dx_p          0, exactly, where there is no way; not 0 where there is one
//! count(p, t) = tanhs on the way     the equations run on numbers that only count
//! ```
//!
//! Both come from [`crate::reference`], which knows equations and nothing of graphs: once run on
//! [`Dual`] numbers, whose slope stays an exact zero where nothing depends on x_p, and once on
//! [`Count`]s.

use crate::depth::{Depth, depths, either};
use crate::random::Rng;
use crate::reference::{Dual, Number, Sequence, run, zero_state};
use crate::spec::blocks::{Blocks, Connections};
use crate::spec::mask::clear_outside;
use crate::spec::params::Layout;
use crate::spec::{Cell, Direction, NetSpec, NetSpecBuilder, Padding};
use core::ops::{Add, Mul, Sub};

/// Units per layer or block while checking: what can reach what does not depend on them.
const UNITS: usize = 4;

/// A pair of input and output for which [`depths`] and the equations disagree.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "input {input} to answer {output}: the graph says {}, the equations {}, and the derivative is {slope:e}",
    show(.graph), show(.counted)
)]
pub struct Mismatch {
    /// Element of the sequence.
    pub input: usize,
    /// Element whose output it is.
    pub output: usize,
    /// By the graph.
    pub graph: Option<Depth>,
    /// By counting.
    pub counted: Option<Depth>,
    /// The largest derivative of the output's values, by size.
    pub slope: f64,
}

fn show(depth: &Option<Depth>) -> String {
    match depth {
        None => "no way".into(),
        Some(Depth { shortest, longest }) if shortest == longest => longest.to_string(),
        Some(Depth { shortest, longest }) => format!("{shortest} to {longest}"),
    }
}

/// Holds [`depths`] against the equations of a small network of the same layers, directions, blocks and
/// delay with random weights, for all inputs and all outputs of a sequence. Returns how many pairs that were.
///
/// Non-linearities are counted in plain cells, see [`crate::depth`]; slopes are those of the cell that
/// it is. After many hundred steps a slope is too small for a number and would be taken for
/// none. Relu may close a way by chance; tanh does not.
pub fn check(spec: &NetSpec, elements: usize) -> Result<usize, Mismatch> {
    check_graph(spec, elements, |output| depths(spec, elements, output))
}

fn check_graph(
    spec: &NetSpec,
    elements: usize,
    graph: impl Fn(usize) -> Vec<Option<Depth>>,
) -> Result<usize, Mismatch> {
    let outputs = spec.output_steps(elements);
    let graph: Vec<_> = (0..outputs).map(graph).collect();
    for input in 0..elements {
        let slopes = slopes(&small(spec, spec.cell()), elements, input);
        let counts = counts(&small(spec, Cell::RnnTanh), elements, input);
        for (output, (&slope, &counted)) in slopes.iter().zip(&counts).enumerate() {
            let graph = graph[output][input];
            if graph != counted || graph.is_some() != (slope > 0.0) {
                return Err(Mismatch { input, output, graph, counted, slope });
            }
        }
    }
    Ok(outputs * elements)
}

/// The same layers, directions, blocks and delay with few units and one float of input.
fn small(spec: &NetSpec, cell: Cell) -> NetSpec {
    let padding = match spec.padding() {
        Padding::LookAhead => Padding::LookAhead,
        Padding::Null | Padding::Symbol(_) => Padding::Null, // constants, both
    };
    let mut builder: NetSpecBuilder = NetSpec::builder(cell).dense(1);
    builder = match spec.blocks() {
        Some(blocks) => builder.blocks(small_blocks(spec.cell(), blocks)),
        None => builder.units(vec![UNITS; spec.layers()]),
    };
    if spec.outputs().is_some() {
        builder = builder.outputs(UNITS);
    }
    let builder = match spec.direction() {
        Direction::Forward => builder.delay(spec.delay(), padding),
        Direction::Bidirectional => builder.bidirectional(),
    };
    builder.build().expect("smaller than a network that was checked")
}

/// The same blocks with few units. A gated cell hands its own state on past all matrices; so that a plain
/// cell in its place does, each block is connected to itself.
fn small_blocks(cell: Cell, blocks: &Blocks) -> Blocks {
    let k = blocks.count();
    let connections = match blocks.connected() {
        Connections::List(list) if cell.gates() > 1 => {
            Connections::List(list.iter().copied().chain((0..k).map(|i| (i, i))).collect())
        }
        other => other.clone(),
    };
    Blocks::new(vec![UNITS; k]).connections(connections).start(blocks.start_state())
}

/// Random parameters; zero is only what blocks keep at zero.
fn draw(spec: &NetSpec, rng: &mut Rng) -> Vec<f32> {
    let mut params: Vec<f32> = (0..spec.parameters()).map(|_| rng.symmetric(0.8)).collect();
    clear_outside(spec, &Layout::new(spec), &mut params);
    params
}

/// The largest |dy_t / dx_input| of each output, exact but for rounding.
fn slopes(spec: &NetSpec, elements: usize, input: usize) -> Vec<f64> {
    let mut rng = Rng::new(1);
    let params: Vec<Dual> = draw(spec, &mut rng).iter().map(|&p| f64::from(p).into()).collect();
    let mut element = || vec![Dual::from(f64::from(rng.symmetric(0.8)))];
    let mut x: Vec<Vec<Dual>> = (0..elements).map(|_| element()).collect();
    x[input][0].slope = 1.0;
    let found = run(spec, &params, &Sequence::Dense(x), &zero_state(spec));
    let largest = |y: &Vec<Dual>| y.iter().fold(0.0, |a: f64, y| a.max(y.slope.abs()));
    found.outputs.iter().map(largest).collect()
}

/// Non-linearities between x_input and each output, by the equations.
fn counts(spec: &NetSpec, elements: usize, input: usize) -> Vec<Option<Depth>> {
    let weight = |&p: &f32| if p == 0.0 { Count::Zero } else { Count::CONSTANT };
    let params: Vec<Count> = draw(spec, &mut Rng::new(1)).iter().map(weight).collect();
    let mut x = vec![vec![Count::CONSTANT]; elements];
    x[input][0] = Count::Of(Some(Depth { shortest: 0, longest: 0 }));
    let found = run(spec, &params, &Sequence::Dense(x), &zero_state(spec));
    let all = |y: &Vec<Count>| y.iter().map(|y| y.depth()).fold(None, either);
    found.outputs.iter().map(all).collect()
}

/// A number that knows only how many non-linearities lie between it and one input, if it depends
/// on that at all.
#[derive(Debug, Clone, Copy)]
enum Count {
    /// A weight that is kept at zero: nothing passes through it.
    Zero,
    Of(Option<Depth>),
}

impl Count {
    const CONSTANT: Count = Count::Of(None);

    fn depth(self) -> Option<Depth> {
        match self {
            Count::Zero => None,
            Count::Of(depth) => depth,
        }
    }
    fn or(self, other: Count) -> Count {
        Count::Of(either(self.depth(), other.depth()))
    }
    fn next(self) -> Count {
        Count::Of(self.depth().map(Depth::next))
    }
}

impl From<f64> for Count {
    fn from(_: f64) -> Count {
        Count::CONSTANT
    }
}

impl Add for Count {
    type Output = Count;
    fn add(self, other: Count) -> Count {
        self.or(other)
    }
}

impl Sub for Count {
    type Output = Count;
    fn sub(self, other: Count) -> Count {
        self.or(other)
    }
}

impl Mul for Count {
    type Output = Count;
    fn mul(self, other: Count) -> Count {
        match (self, other) {
            (Count::Zero, _) | (_, Count::Zero) => Count::Zero,
            _ => self.or(other),
        }
    }
}

impl Number for Count {
    fn tanh(self) -> Count {
        self.next()
    }
    fn sigmoid(self) -> Count {
        self.next()
    }
    fn relu(self) -> Count {
        self.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::blocks::StartState;

    fn specs(cell: Cell) -> Vec<NetSpec> {
        let start = || NetSpec::builder(cell).tokens(5, 2).outputs(3);
        let mut specs = Vec::new();
        for k in 1..=3 {
            specs.push(start().units(vec![7; k]).bidirectional());
            for padding in [Padding::Null, Padding::Symbol(2), Padding::LookAhead] {
                specs.extend([0, 1, 4].map(|d| start().units(vec![7; k]).delay(d, padding)));
            }
        }
        specs.into_iter().map(|spec| spec.build().unwrap()).collect()
    }

    #[test]
    fn answers_depend_on_what_the_graph_says() {
        for cell in [Cell::RnnTanh, Cell::Lstm, Cell::Gru, Cell::GruResetBefore] {
            for spec in specs(cell) {
                for elements in [0, 1, 6] {
                    let pairs = elements * spec.output_steps(elements);
                    assert_eq!(check(&spec, elements), Ok(pairs), "{spec}");
                }
            }
        }
    }

    /// Blocks with every kind of connections, start and output.
    fn in_blocks(cell: Cell) -> Vec<NetSpec> {
        let list = Connections::List(vec![(0, 2), (1, 0), (2, 1)]);
        let all = [Connections::Lower, Connections::Upper, Connections::All, list];
        let relaxed =
            |start| all.clone().map(|c| Blocks::new([3, 1, 2]).connections(c).start(start));
        let mut kinds = vec![Blocks::new([5])];
        kinds.extend([StartState::Held, StartState::Free].into_iter().flat_map(relaxed));
        kinds.push(Blocks::new([3, 1, 2]));
        kinds.push(Blocks::new([3, 1, 2]).start(StartState::Free));
        if !cell.is_gru() {
            kinds.push(Blocks::new([3, 1, 2]).start(StartState::Solved));
        }
        let mut specs = Vec::new();
        for blocks in kinds {
            for (d, padding) in
                [(2, Padding::Null), (4, Padding::Symbol(2)), (3, Padding::LookAhead)]
            {
                let start = || {
                    let net = NetSpec::builder(cell).tokens(5, 2).blocks(blocks.clone());
                    net.delay(d, padding)
                };
                specs.extend([start().build().unwrap(), start().outputs(3).build().unwrap()]);
            }
        }
        specs
    }

    #[test]
    fn answers_depend_on_what_the_graph_of_blocks_says() {
        for cell in [Cell::RnnTanh, Cell::Lstm, Cell::Gru, Cell::GruResetBefore] {
            for spec in in_blocks(cell) {
                for elements in [0, 1, 5] {
                    let pairs = elements * spec.output_steps(elements);
                    assert_eq!(check(&spec, elements), Ok(pairs), "{spec} {:?}", spec.blocks());
                }
            }
        }
    }

    #[test]
    fn far_away_is_not_taken_for_none() {
        let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([1; 10]);
        let spec = spec.delay(100, Padding::Null).build().unwrap();
        assert_eq!(check(&spec, 101), Ok(101 * 101));
    }

    #[test]
    fn a_wrong_graph_is_found_out() {
        let delay = |d| NetSpec::builder(Cell::RnnTanh).dense(1).units([1]).delay(d, Padding::Null);
        let (spec, other) = (delay(2).build().unwrap(), delay(3).build().unwrap());
        let found = check_graph(&spec, 5, |output| depths(&other, 5, output)).unwrap_err();
        let message =
            "input 0 to answer 0: the graph says 4, the equations 3, and the derivative is ";
        assert!(found.to_string().starts_with(message), "{found}");
        let found = check_graph(&spec, 5, |_| vec![None; 5]).unwrap_err();
        assert_eq!((found.input, found.output, found.graph), (0, 0, None));
    }

    #[test]
    fn gates_counted_one_by_one() {
        // To y_5, through one and two layers. What an LSTM remembers must get into c and out of it.
        for (cell, remembered) in [(Cell::Lstm, 1), (Cell::Gru, 0)] {
            for k in 1..=2 {
                let spec = NetSpec::builder(cell).dense(1).units(vec![2; k]).build().unwrap();
                for input in 0..6 {
                    let shortest = if input < 5 { k + remembered } else { k };
                    let expected = Depth { shortest, longest: 2 * (k + 5 - input) };
                    assert_eq!(counts(&spec, 6, input)[5], Some(expected), "{cell:?} {input}");
                }
            }
        }
    }
}
