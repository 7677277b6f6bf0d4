//! Networks unrolled in time: which states are made of which.
//!
//! ```text
//! layers   h of layer l at step t reads h of layer l before (in its direction), and layer l - 1 at t
//! blocks   h of block i at step t reads h of block j at step t - 1, wherever i and j are connected;
//!          one that has not begun is its start state, one that has ended stays as it was
//! ```

use crate::spec::blocks::{Blocks, StartState};
use crate::spec::{Direction, NetSpec};
use core::ops::Range;

/// The state of one direction of one layer, or of one block, at one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    layer: usize,
    direction: usize,
    step: usize,
}

/// A network unrolled in time.
pub(crate) trait Graph {
    /// Number of nodes.
    fn len(&self) -> usize;
    /// The place of a node among them.
    fn index(&self, node: Node) -> usize;
    /// All nodes, each after those that it reads.
    fn computed(&self) -> impl DoubleEndedIterator<Item = Node>;
    /// The states that a node reads.
    fn reads(&self, node: Node) -> impl Iterator<Item = Node>;
    /// The nodes that read x at `step`.
    fn readers(&self, step: usize) -> impl Iterator<Item = Node>;
    /// The nodes that the output of `step` is made of.
    fn outputs(&self, step: usize) -> impl Iterator<Item = Node>;
}

/// Layers of one or two directions.
pub(crate) struct Layers {
    layers: usize,
    directions: usize,
    steps: usize,
}

impl Layers {
    pub fn new(spec: &NetSpec, steps: usize) -> Layers {
        Layers { layers: spec.layers(), directions: spec.direction().count(), steps }
    }

    fn directions(&self, layer: usize, step: usize) -> impl Iterator<Item = Node> + use<> {
        (0..self.directions).map(move |direction| Node { layer, direction, step })
    }
}

impl Graph for Layers {
    fn len(&self) -> usize {
        self.layers * self.directions * self.steps
    }

    fn index(&self, node: Node) -> usize {
        (node.layer * self.directions + node.direction) * self.steps + node.step
    }

    /// The second direction begins at the last step.
    fn computed(&self) -> impl DoubleEndedIterator<Item = Node> {
        let (directions, steps) = (self.directions, self.steps);
        (0..self.len()).map(move |i| {
            let (recurrence, position) = (i / steps, i % steps);
            let (layer, direction) = (recurrence / directions, recurrence % directions);
            let step = if direction == 0 { position } else { steps - 1 - position };
            Node { layer, direction, step }
        })
    }

    fn reads(&self, node: Node) -> impl Iterator<Item = Node> {
        let Node { layer, direction, step } = node;
        let before = match direction {
            0 => step.checked_sub(1),
            _ => Some(step + 1).filter(|&s| s < self.steps),
        };
        let own = before.map(|step| Node { layer, direction, step });
        let below = layer.checked_sub(1).into_iter();
        own.into_iter().chain(below.flat_map(move |layer| self.directions(layer, step)))
    }

    fn readers(&self, step: usize) -> impl Iterator<Item = Node> {
        self.directions(0, step)
    }

    fn outputs(&self, step: usize) -> impl Iterator<Item = Node> {
        self.directions(self.layers - 1, step)
    }
}

/// One layer in blocks.
pub(crate) struct InBlocks<'a> {
    spec: &'a NetSpec,
    blocks: &'a Blocks,
    steps: usize,
}

impl<'a> InBlocks<'a> {
    pub fn new(spec: &'a NetSpec, blocks: &'a Blocks, steps: usize) -> InBlocks<'a> {
        debug_assert_eq!(spec.direction(), Direction::Forward);
        InBlocks { spec, blocks, steps }
    }

    /// Steps at which block i runs.
    fn runs(&self, i: usize) -> Range<usize> {
        let begins = if self.blocks.start_state() == StartState::Held { i } else { 0 };
        begins..self.steps - (self.spec.lag() - i.min(self.spec.lag()))
    }

    /// Where block i's state after `step` was made; None if that is its start state.
    fn state(&self, i: usize, step: usize) -> Option<Node> {
        let runs = self.runs(i);
        let step = step.min(runs.end.checked_sub(1)?);
        runs.contains(&step).then_some(Node { layer: i, direction: 0, step })
    }

    fn is_connected(&self, i: usize, j: usize) -> bool {
        self.blocks.allows(i, j) || (i == j && self.spec.cell().gates() > 1)
    }
}

impl Graph for InBlocks<'_> {
    fn len(&self) -> usize {
        self.blocks.count() * self.steps
    }

    fn index(&self, node: Node) -> usize {
        node.step * self.blocks.count() + node.layer
    }

    fn computed(&self) -> impl DoubleEndedIterator<Item = Node> {
        let k = self.blocks.count();
        (0..self.len()).map(move |i| Node { layer: i % k, direction: 0, step: i / k })
    }

    fn reads(&self, node: Node) -> impl Iterator<Item = Node> {
        let read = move |step: usize| {
            let connected =
                (0..self.blocks.count()).filter(move |&j| self.is_connected(node.layer, j));
            connected.filter_map(move |j| self.state(j, step))
        };
        node.step.checked_sub(1).into_iter().flat_map(read)
    }

    fn readers(&self, step: usize) -> impl Iterator<Item = Node> {
        let reads = move |&i: &usize| self.blocks.reads_input(i) && self.runs(i).contains(&step);
        (0..self.blocks.count()).filter(reads).map(move |i| Node { layer: i, direction: 0, step })
    }

    fn outputs(&self, step: usize) -> impl Iterator<Item = Node> {
        let (k, through_output) = (self.blocks.count(), self.spec.outputs().is_some());
        let is_read =
            move |&i: &usize| i + 1 == k || (through_output && self.blocks.feeds_output(i));
        (0..k).filter(is_read).filter_map(move |i| self.state(i, step))
    }
}
