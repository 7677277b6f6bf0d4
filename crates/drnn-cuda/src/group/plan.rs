//! Which networks groups support, and the sizes of their buffers and blocks, as
//! `kernels/group/common.cuh` has them.

use crate::step::plan::TargetType;
use drnn::{Cell, InputSpec, NetSpec, Padding};

/// Rows of the batch per `wgmma` product (its n).
const HALF: usize = 56;
/// Limits that registers and shared memory set.
const MAX_UNITS: usize = 128;
const MAX_INPUTS: usize = 8;
const MAX_OUTPUTS: usize = 16;

/// A network that groups support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupNet {
    /// Units of a direction, n.
    pub n: usize,
    /// Width of the input, q.
    pub q: usize,
    /// Width of the output, m.
    pub outputs: usize,
    pub directions: usize,
    pub delay: usize,
    pub parameters: usize,
}

impl GroupNet {
    /// The error says why groups do not support the network.
    pub fn new(spec: &NetSpec) -> Result<GroupNet, String> {
        let refuse = |why: String| Err(format!("no group for {spec}: {why}"));
        if spec.cell() != Cell::Lstm || spec.layers() != 1 || spec.blocks().is_some() {
            return refuse("only LSTMs of one layer".into());
        }
        if spec.projection().is_some() {
            return refuse("only LSTMs without a projection".into());
        }
        let n = spec.units()[0];
        if n > MAX_UNITS {
            return refuse(format!("only up to {MAX_UNITS} units"));
        }
        let InputSpec::Dense(q) = spec.input() else {
            return refuse("only vectors as input".into());
        };
        let outputs = spec.outputs().unwrap_or(0);
        if q > MAX_INPUTS || !(1..=MAX_OUTPUTS).contains(&outputs) {
            return refuse(format!(
                "only up to {MAX_INPUTS} inputs and 1 to {MAX_OUTPUTS} outputs"
            ));
        }
        if spec.delay() > 0 && spec.padding() != Padding::Null {
            return refuse("only zeros after the end".into());
        }
        let (directions, parameters) = (spec.direction().count(), spec.parameters());
        Ok(GroupNet { n, q, outputs, directions, delay: spec.delay(), parameters })
    }

    fn units(&self) -> usize {
        self.n.next_multiple_of(16)
    }

    /// Groups of 8 columns of an h image.
    fn h_groups(&self) -> usize {
        (self.n + 3 * self.q + 2).next_multiple_of(16) / 8
    }

    /// Groups of 8 columns of a d image.
    fn d_groups(&self) -> usize {
        (4 * self.n + self.outputs).next_multiple_of(16) / 8
    }

    fn parts(&self) -> usize {
        (8 * self.h_groups()).div_ceil(HALF)
    }

    fn w_forward(&self) -> usize {
        self.units() / 16 * self.h_groups() * 1024
    }

    fn w_backward(&self) -> usize {
        self.n.div_ceil(64) * self.d_groups() * 1024
    }

    /// Length of the gradient of a direction's weights, with padding.
    pub fn products(&self) -> usize {
        8 * self.d_groups() * HALF * self.parts()
    }
}

/// A group's network and the shape of its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupPlan {
    pub net: GroupNet,
    pub target_type: TargetType,
    /// Elements of a sequence, T, which is also its number of outputs.
    pub elements: usize,
    /// Sequences of a batch, B.
    pub batch: usize,
    /// Products, of 56 rows each, that cover the rows of a block: 1 or 2.
    halves: usize,
    /// Pairs of images in shared memory in the kernel of weight gradients.
    in_turn: usize,
    /// Blocks that the rows of a batch are divided among.
    pub chunks: usize,
}

/// Threads and bytes of shared memory of a kernel's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub threads: usize,
    pub shared: usize,
}

impl GroupPlan {
    /// For devices whose blocks may have `shared` bytes of shared memory; `None` if it does not
    /// fit.
    pub fn new(
        net: GroupNet,
        target_type: TargetType,
        elements: usize,
        batch: usize,
        shared: usize,
    ) -> Option<GroupPlan> {
        let halves = if batch <= HALF { 1 } else { 2 };
        let ways = (1..=halves).rev().flat_map(|halves| [(halves, 3), (halves, 2)]);
        let mut plans = ways.map(|(halves, in_turn)| {
            let chunks = batch.div_ceil(HALF * halves);
            GroupPlan { net, target_type, elements, batch, halves, in_turn, chunks }
        });
        plans.find(|plan| {
            let blocks = [plan.forward(), plan.backward(), plan.gradients()];
            blocks.iter().all(|block| block.shared <= shared)
        })
    }

    /// Rows per block.
    pub fn rows(&self) -> usize {
        self.batch.div_ceil(self.chunks)
    }

    pub fn steps(&self) -> usize {
        self.elements + self.net.delay
    }

    /// Bytes of a group of columns of an image.
    fn group(&self) -> usize {
        ((self.halves * HALF).next_multiple_of(16) + 1) * 16
    }

    pub fn h_image(&self) -> usize {
        self.net.h_groups() * self.group()
    }

    pub fn d_image(&self) -> usize {
        self.net.d_groups() * self.group()
    }

    /// Number of (unit, row) pairs saved per step, with padding.
    pub fn saved(&self) -> usize {
        self.halves * HALF * self.net.n
    }

    pub fn forward(&self) -> Block {
        let items = self.net.units() / 16 * self.halves;
        Block {
            threads: 128 * items.div_ceil(2),
            shared: self.net.w_forward() + 2 * self.h_image(),
        }
    }

    pub fn backward(&self) -> Block {
        let threads = 128 * self.net.n.div_ceil(64) * self.halves;
        Block { threads, shared: self.net.w_backward() + self.d_image() }
    }

    pub fn gradients(&self) -> Block {
        let share = self.net.d_groups().div_ceil(self.gradient_blocks());
        let shared = self.in_turn * (share + 7 * self.net.parts()) * self.group();
        Block { threads: 128 * share.div_ceil(8), shared }
    }

    /// Blocks that the columns of the d images are divided among.
    pub fn gradient_blocks(&self) -> usize {
        self.net.d_groups().div_ceil(32)
    }

    /// Preprocessor definitions for the kernels.
    pub fn defines(&self) -> Vec<String> {
        let GroupNet { n, q, outputs, directions, .. } = self.net;
        let classes = usize::from(self.target_type == TargetType::Classes);
        let named = [
            ("N", n),
            ("Q", q),
            ("OUT", outputs),
            ("DIRECTIONS", directions),
            ("CLASSES", classes),
            ("ROWS", self.rows()),
            ("ROW_TILES", self.halves),
            ("STAGES", self.in_turn),
        ];
        named.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use drnn::params::Layout;

    const HOPPER: usize = 227 << 10;

    fn net(n: usize, q: usize, outputs: usize) -> GroupNet {
        GroupNet::new(
            &NetSpec::builder(Cell::Lstm).dense(q).units([n]).outputs(outputs).build().unwrap(),
        )
        .unwrap()
    }

    /// Plans of different kinds, and what each is for.
    pub fn plans() -> Vec<(GroupPlan, &'static str)> {
        let plan =
            |net, target_type, batch| GroupPlan::new(net, target_type, 50, batch, HOPPER).unwrap();
        let bidirectional = GroupNet { directions: 2, ..net(70, 4, 4) };
        vec![
            (plan(net(100, 1, 1), TargetType::Values, 100), "the paper's"),
            (plan(bidirectional, TargetType::Classes, 50), "bidirectional"),
            (plan(net(128, 8, 16), TargetType::Classes, 100), "the largest"),
            (plan(net(1, 1, 1), TargetType::Values, 1), "the smallest"),
        ]
    }

    #[test]
    fn unsupported_networks_are_refused_with_a_reason() {
        let lstm = || NetSpec::builder(Cell::Lstm).dense(1).units([20]).outputs(1);
        let refused =
            |builder: drnn::NetSpecBuilder| GroupNet::new(&builder.build().unwrap()).unwrap_err();
        assert!(GroupNet::new(&lstm().bidirectional().build().unwrap()).is_ok());
        assert!(GroupNet::new(&lstm().delay(5, Padding::Null).build().unwrap()).is_ok());
        assert!(refused(lstm().units([20, 20])).contains("one layer"));
        assert!(refused(lstm().units([129])).contains("128 units"));
        assert!(refused(lstm().projection(2)).contains("projection"));
        assert!(refused(lstm().dense(9)).contains("8 inputs"));
        assert!(refused(lstm().outputs(17)).contains("16 outputs"));
        assert!(refused(lstm().delay(1, Padding::LookAhead)).contains("zeros"));
        assert!(
            refused(NetSpec::builder(Cell::Gru).dense(1).units([9]).outputs(1)).contains("LSTM")
        );
        let tokens = NetSpec::builder(Cell::Lstm).tokens(4, 2).units([9]).outputs(1);
        assert!(refused(tokens).contains("vectors"));
    }

    /// The paper's networks need one block for a batch of 100, the largest ones two.
    #[test]
    fn rows_per_block() {
        let plan = |net, batch| GroupPlan::new(net, TargetType::Values, 50, batch, HOPPER);
        let paper = plan(net(100, 1, 1), 100).unwrap();
        assert_eq!((paper.chunks, paper.rows(), paper.halves), (1, 100, 2));
        assert_eq!(
            paper.forward(),
            Block { threads: 896, shared: 7 * 14 * 1024 + 2 * 14 * 113 * 16 }
        );
        assert_eq!(paper.backward(), Block { threads: 512, shared: (2 * 1024 + 113 * 16) * 52 });
        assert_eq!(paper.gradients(), Block { threads: 512, shared: 3 * (26 + 14) * 113 * 16 });
        let large = plan(net(128, 8, 16), 100).unwrap();
        assert_eq!((large.chunks, large.rows(), large.halves), (2, 50, 1));
        assert_eq!(plan(net(100, 1, 1), 5).unwrap().rows(), 5);
        assert_eq!(plan(net(100, 1, 1), 225).unwrap().chunks, 3);
        assert_eq!(GroupPlan::new(net(100, 1, 1), TargetType::Values, 50, 100, 99 << 10), None);
    }

    /// The kernels depend on this layout.
    #[test]
    fn parameters_lie_as_the_kernels_expect() {
        let builder = NetSpec::builder(Cell::Lstm).dense(3).units([7]).bidirectional().outputs(2);
        let spec = builder.build().unwrap();
        let layout = Layout::new(&spec);
        let of_direction = 4 * 7 * (3 + 7 + 2);
        for direction in 0..2 {
            let starts = layout.layer(0, direction).map(|range| range.start);
            let first = direction * of_direction;
            let within = [0, 4 * 7 * 3, 4 * 7 * 10, 4 * 7 * 11].map(|at| first + at);
            assert_eq!(starts, within);
        }
        let [weight, bias] = layout.output().unwrap();
        assert_eq!((weight.start, bias.start), (2 * of_direction, 2 * of_direction + 2 * 14));
        assert_eq!(bias.end, spec.parameters());
    }
}
