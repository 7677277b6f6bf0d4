//! How deep a network is in time: the non-linearities between input x_{t+dt} and output y_t.
//!
//! ```text
//! RNN                   1 - dt        dt <= 0
//! k layers              k - dt        dt <= 0
//! delay d           1 + d - dt        dt <= d
//! k layers, delay d k + d - dt        dt <= d
//! both ways           1 + |dt|        every dt
//! both ways, k layers k + |dt|        the shortest way; the longest goes from end to end of the sequence
//! flattened stack     as its stack    for every input and every output
//! ```
//!
//! [`depths`] finds these numbers by walking the unrolled network, not by the formulas, which are there
//! to check it; [`check`] compares them with the network's equations. Nodes are the states h of every
//! layer, direction and step; a state reads the one before it in its own direction and, at its own
//! step, the states of the layer below (layer 0: the input). Each node is one non-linearity. Where a layer
//! comes in blocks ([`crate::Blocks`]) nodes are the states of every block and step, and a block reads those
//! that it is connected to, one step before. So a flattened stack has exactly the depth of its stack, though
//! it runs k - 1 steps longer; freed of its constraints ([`crate::Model::relax`]) it is as deep, and sees
//! k - 1 elements more.
//!
//! ```
//! use drnn::{Cell, NetSpec, Padding, depth::{Depth, check, depths}};
//!
//! let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([8]).delay(2, Padding::Null).build()?;
//! let to_answer_3 = depths(&spec, 7, 3); // one entry for each of 7 elements
//! assert_eq!(to_answer_3[3], Some(Depth { shortest: 3, longest: 3 })); // dt = 0: 1 + d
//! assert_eq!(to_answer_3[5], Some(Depth { shortest: 1, longest: 1 })); // dt = d
//! assert_eq!(to_answer_3[6], None); // later than that it cannot see
//! assert_eq!(check(&spec, 7), Ok(7 * 7));
//! # Ok::<(), drnn::Error>(())
//! ```
//!
//! # The paper's figure, and what it leaves out
//!
//! This is what the paper's figure of non-linearities plots (section "Approximating Bidirectional
//! RNNs") for an RNN, a Bi-RNN and a d-RNN: how many *can be* applied, hence the longest way. In these
//! three all ways are equally long, so the paper need not say which. Note also:
//!
//! - The output activation (the paper's g) is not counted: the text says that a single non-linearity
//!   lies between x_t and y_t of an RNN.
//! - The number "reaches zero" at dt = d + 1, and at dt = 1 for an RNN. Zero means that there is no way at
//!   all, not a linear one; here it is `None`.
//! - To have at least as many as a Bi-RNN for every element, a d-RNN of T elements is said to need "a delay
//!   that is twice the sequence length". It needs 2 (T - 1): the output for the first element and the last element
//!   are T - 1 apart, and 1 + d - dt >= 1 + dt there.
//! - "Stacking Bi-RNNs would be needed" to have more near dt = 0. By the shortest way that takes d + 1
//!   layers. By the longest, two layers have more than enough, but for a detour to an end of the sequence and back:
//!   with elements 0 to T - 1, input p and output t it is `2 + max(p + t, 2 (T - 1) - p - t)`. So there
//!   longest and shortest differ, and the longest is no function of dt alone.
//! - The figure is about plain cells; the paper's experiments are not. A gated cell counts here as one
//!   non-linearity too. Tanh by tanh and sigmoid by sigmoid, a step of LSTM or GRU is two of them by
//!   the longest way (gate, then candidate or output); but c (GRU: h) is also handed on from step to
//!   step through a product with a gate only, so k layers have a way of k non-linearities (LSTM, from
//!   earlier steps: k + 1), however far the input.

mod check;
mod graph;

pub use crate::depth::check::{Mismatch, check};
use crate::depth::graph::{Graph, InBlocks, Layers};
use crate::spec::NetSpec;

/// The number of non-linearities on the paths from one input to one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Depth {
    /// The smallest number on any path.
    pub shortest: usize,
    /// The largest number on any path: how many can be applied.
    pub longest: usize,
}

impl Depth {
    /// Those of both ways taken together.
    pub(crate) fn or(self, other: Depth) -> Depth {
        Depth {
            shortest: self.shortest.min(other.shortest),
            longest: self.longest.max(other.longest),
        }
    }

    /// One non-linearity more.
    pub(crate) fn next(self) -> Depth {
        Depth { shortest: self.shortest + 1, longest: self.longest + 1 }
    }
}

/// Non-linearities between each element of a sequence and the output for element `output`; `None`
/// where the output cannot depend on the element.
///
/// # Panics
/// If a sequence of `elements` elements has no such output (see [`NetSpec::output_steps`]).
pub fn depths(spec: &NetSpec, elements: usize, output: usize) -> Vec<Option<Depth>> {
    let outputs = spec.output_steps(elements);
    assert!(output < outputs, "no answer {output} among the {outputs} to {elements} elements");
    let steps = outputs + spec.delay();
    let output = output + spec.delay();
    match spec.blocks() {
        Some(blocks) => walk(&InBlocks::new(spec, blocks, steps), elements, output),
        None => walk(&Layers::new(spec, steps), elements, output),
    }
}

/// Non-linearities between each of `elements` elements and the output of step `output`.
fn walk(net: &impl Graph, elements: usize, output: usize) -> Vec<Option<Depth>> {
    // From each node to the output, the node itself included.
    let mut ahead: Vec<Option<Depth>> = vec![None; net.len()];
    for last in net.outputs(output) {
        ahead[net.index(last)] = Some(Depth { shortest: 1, longest: 1 });
    }
    // In reverse order of computation, so that a node is settled before those that it reads.
    for node in net.computed().rev() {
        let Some(depth) = ahead[net.index(node)] else { continue };
        for read in net.reads(node) {
            let way = &mut ahead[net.index(read)];
            *way = either(*way, Some(depth.next()));
        }
    }
    let from = |step| net.readers(step).map(|node| ahead[net.index(node)]).fold(None, either);
    (0..elements).map(from).collect()
}

/// The ways of both.
pub(crate) fn either(a: Option<Depth>, b: Option<Depth>) -> Option<Depth> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.or(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flatten::flat_spec;
    use crate::spec::{Cell, NetSpecBuilder, Padding};
    use crate::{Blocks, Connections, Model, StartState};

    fn layers(k: usize) -> NetSpecBuilder {
        NetSpec::builder(Cell::RnnTanh).dense(1).units(vec![2; k])
    }

    /// Holds `depths` against a formula of (p, t), for all pairs in sequences of several lengths.
    fn compare(spec: NetSpecBuilder, formula: impl Fn(i64, i64, i64) -> Option<(i64, i64)>) {
        let spec = spec.build().unwrap();
        for elements in 1..=9 {
            for output in 0..spec.output_steps(elements) {
                let found = depths(&spec, elements, output);
                assert_eq!(found.len(), elements);
                for (input, found) in found.into_iter().enumerate() {
                    let expected = formula(input as i64, output as i64, elements as i64);
                    let found = found.map(|d| (d.shortest as i64, d.longest as i64));
                    assert_eq!(found, expected, "{spec}: x_{input} to y_{output} of {elements}");
                }
            }
        }
    }

    #[test]
    fn forward_networks_are_as_the_formulas_say() {
        for k in 1..=4 {
            for d in 0..=5 {
                for padding in [Padding::Null, Padding::LookAhead] {
                    compare(layers(k).delay(d, padding), |p, t, _| {
                        let n = k as i64 + d as i64 - (p - t);
                        (p - t <= d as i64).then_some((n, n))
                    });
                }
            }
        }
    }

    #[test]
    fn bidirectional_networks_are_as_the_formulas_say() {
        compare(layers(1).bidirectional(), |p, t, _| Some((1 + (p - t).abs(), 1 + (p - t).abs())));
        for k in 2..=5 {
            compare(layers(k).bidirectional(), |p, t, elements| {
                // The longest way turns round at an end of the sequence after every layer but the
                // last: k - 2 times from end to end, and once each from the input and to the output.
                let (k, end) = (k as i64, elements - 1);
                let outer = match k % 2 {
                    0 => (p + t).max(2 * end - p - t),
                    _ => end + (p - t).abs(),
                };
                Some((k + (p - t).abs(), k + (k - 2) * end + outer))
            });
        }
    }

    /// Visits stacks of 1 to 4 layers with delays of their own, and all elements of their sequences.
    fn each_stack(mut visit: impl FnMut(&NetSpec, usize, usize)) {
        for k in 1..=4 {
            for (d, padding) in [
                (0, Padding::Null),
                (2, Padding::Null),
                (1, Padding::LookAhead),
                (3, Padding::Symbol(0)),
            ] {
                let stack =
                    NetSpec::builder(Cell::RnnTanh).tokens(2, 2).units(vec![2; k]).outputs(3);
                let stack = stack.delay(d, padding).build().unwrap();
                for elements in 1..=7 {
                    (0..stack.output_steps(elements)).for_each(|t| visit(&stack, elements, t));
                }
            }
        }
    }

    #[test]
    fn a_flattened_stack_is_exactly_as_deep_as_its_stack() {
        each_stack(|stack, elements, output| {
            let expected = depths(stack, elements, output);
            for start in [StartState::Held, StartState::Solved] {
                let flat = flat_spec(stack, start).unwrap();
                assert_eq!(flat.output_steps(elements), stack.output_steps(elements));
                assert_eq!(depths(&flat, elements, output), expected, "{flat}: y_{output}");
            }
        });
    }

    #[test]
    fn freed_of_its_constraints_it_is_as_deep_and_sees_more() {
        each_stack(|stack, elements, output| {
            let flat = Model::init(stack, 1).unwrap().flatten(StartState::Held).unwrap();
            let free = flat.relax(Connections::All).unwrap();
            let found = depths(free.spec(), elements, output);
            for (input, stack) in depths(stack, elements, output).into_iter().enumerate() {
                assert_eq!(found[input].is_some(), input <= output + free.spec().delay());
                let (Some(stack), Some(free)) = (stack, found[input]) else { continue };
                // Blocks that end before the last are read as they were: a shorter way.
                assert!(free.longest == stack.longest && free.shortest <= stack.shortest);
            }
        });
    }

    #[test]
    fn an_unconstrained_delayed_network_has_the_depth_of_a_stack_and_sees_more() {
        for k in 1..=5 {
            let stack = layers(k).build().unwrap();
            let late = layers(1).delay(k - 1, Padding::Null).build().unwrap();
            let (stack, late) = (depths(&stack, 8, 5), depths(&late, 8, 5));
            assert_eq!(stack[..=5], late[..=5]);
            assert_eq!(late[6].is_some(), k > 1);
            // In blocks that all run from the first step it is the same network.
            let blocks = Blocks::new(vec![2; k]).connections(Connections::All);
            let blocks = layers(1).blocks(blocks.start(StartState::Free));
            let blocks = blocks.delay(k - 1, Padding::Null).build().unwrap();
            assert_eq!(depths(&blocks, 8, 5), late);
        }
    }

    #[test]
    fn the_delay_that_matches_a_bidirectional_network() {
        let elements = 6;
        let at_least = |d| {
            let late = layers(1).delay(d, Padding::Null).build().unwrap();
            let both = layers(1).bidirectional().build().unwrap();
            (0..elements).all(|t| {
                let mut pairs =
                    depths(&late, elements, t).into_iter().zip(depths(&both, elements, t));
                pairs.all(|(late, both)| late.map(|d| d.longest) >= both.map(|d| d.longest))
            })
        };
        assert!(at_least(2 * (elements - 1)));
        assert!(!at_least(2 * (elements - 1) - 1));
    }

    #[test]
    #[should_panic(expected = "no answer 3 among the 3 to 5 elements")]
    fn answers_that_there_are_not() {
        depths(&layers(1).delay(2, Padding::LookAhead).build().unwrap(), 5, 3);
    }
}
