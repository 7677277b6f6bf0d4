//! Kernels and device memory of a group for batches of one shape, and a step as a CUDA graph.

use super::plan::{Block, GroupPlan};
use crate::error::Result;
use crate::kernels::params::{
    GroupAdam, GroupBackward, GroupBegin, GroupFinish, GroupForward, GroupOutputs, GroupSquares,
    GroupWeights, ptr, size,
};
use crate::kernels::sources::GroupSources;
use crate::runtime::device::Device;
use crate::runtime::kernel::{Kernel, Module};
use crate::runtime::memory::Buffer;
use crate::runtime::stream::{Graph, Stream};
use drnn_train::AdamOptions;

/// Blocks per lane of reductions, as in `kernels/group/step.cu`.
const BLOCKS: usize = 32;
const THREADS: usize = 256;
/// Length of `struct Task` in words, and of `struct Progress` in f64.
pub(crate) const TASK: usize = 12;
pub(crate) const PROGRESS: usize = 6;

#[derive(Debug)]
struct Kernels {
    forward: Kernel<GroupForward>,
    outputs: Kernel<GroupOutputs>,
    backward: Kernel<GroupBackward>,
    weights: Kernel<GroupWeights>,
    begin: Kernel<GroupBegin>,
    squares: Kernel<GroupSquares>,
    finish: Kernel<GroupFinish>,
    adam: Kernel<GroupAdam>,
}

impl Kernels {
    fn new(device: &Device, plan: &GroupPlan) -> Result<Kernels> {
        let sources = GroupSources::new(&plan.defines());
        let step = Module::new(device, &sources.step)?;
        let kernels = Kernels {
            forward: Module::new(device, &sources.forward)?.kernel()?,
            outputs: Module::new(device, &sources.outputs)?.kernel()?,
            backward: Module::new(device, &sources.backward)?.kernel()?,
            weights: Module::new(device, &sources.weights)?.kernel()?,
            begin: step.kernel()?,
            squares: step.kernel()?,
            finish: step.kernel()?,
            adam: step.kernel()?,
        };
        kernels.forward.allow_shared(plan.forward().shared)?;
        kernels.backward.allow_shared(plan.backward().shared)?;
        kernels.weights.allow_shared(plan.gradients().shared)?;
        Ok(kernels)
    }
}

/// Parameters and optimisers of all lanes, one lane after another; independent of the batch shape.
#[derive(Debug)]
pub(crate) struct GroupState {
    pub lanes: usize,
    pub adam: AdamOptions,
    pub params: Buffer<f32>,
    pub mean: Buffer<f32>,
    pub square: Buffer<f32>,
    /// `struct Progress` of each lane.
    pub progress: Buffer<f64>,
    /// `struct Task` of each lane.
    pub tasks: Buffer<u32>,
}

impl GroupState {
    pub fn new(
        device: &Device,
        adam: AdamOptions,
        lanes: usize,
        parameters: usize,
    ) -> Result<GroupState> {
        let zeros = || Buffer::zeros(device, lanes * parameters);
        Ok(GroupState {
            lanes,
            adam,
            params: zeros()?,
            mean: zeros()?,
            square: zeros()?,
            progress: Buffer::zeros(device, lanes * PROGRESS)?,
            tasks: Buffer::zeros(device, lanes * TASK)?,
        })
    }
}

/// Graphs, kernels and buffers for batches of one shape.
#[derive(Debug)]
pub(crate) struct GroupWorkspace {
    pub plan: GroupPlan,
    /// A training step, and an evaluation. Declared, and so dropped, before the buffers they use.
    pub step: Graph,
    pub evaluation: Graph,
    work: Buffers,
}

/// Kernels and buffers.
#[derive(Debug)]
struct Buffers {
    kernels: Kernels,
    h_images: Buffer<u8>,
    d_images: Buffer<u8>,
    /// Saved for backward: gates, four f16 each, and cell states.
    gates: Buffer<u8>,
    cells: Buffer<u8>,
    d_outputs: Buffer<u8>,
    /// (lanes, A, rows, m), of evaluations.
    outputs: Buffer<f32>,
    products: Buffer<f32>,
    losses: Buffer<f64>,
    squares: Buffer<f64>,
    coefficients: Buffer<u32>,
}

impl GroupWorkspace {
    pub fn new(
        device: &Device,
        stream: &Stream,
        plan: GroupPlan,
        state: &GroupState,
    ) -> Result<GroupWorkspace> {
        let kernels = Kernels::new(device, &plan)?;
        let lanes = state.lanes;
        let directions = lanes * plan.net.directions;
        let (blocks, steps) = (directions * plan.chunks, plan.steps());
        let outputs = lanes * plan.elements * plan.chunks * plan.rows() * plan.net.outputs;
        let bytes = |len| Buffer::<u8>::zeros(device, len);
        let work = Buffers {
            kernels,
            h_images: bytes(blocks * (steps + 1) * plan.h_image())?,
            d_images: bytes(blocks * (steps + 1) * plan.d_image())?,
            gates: bytes(blocks * steps * plan.saved() * 8)?,
            cells: bytes(blocks * steps * plan.saved() * 2)?,
            d_outputs: bytes(2 * outputs)?,
            outputs: Buffer::zeros(device, outputs)?,
            products: Buffer::zeros(device, directions * plan.net.products())?,
            losses: Buffer::zeros(device, lanes * BLOCKS * 3)?,
            squares: Buffer::zeros(device, lanes * BLOCKS)?,
            coefficients: Buffer::zeros(device, lanes * 4)?,
        };
        let step = stream.capture(|| work.record(&plan, state, stream, true))?;
        let evaluation = stream.capture(|| work.record(&plan, state, stream, false))?;
        Ok(GroupWorkspace { plan, step, evaluation, work })
    }

    /// Resets the sums and batch counters of all lanes.
    pub fn begin(&self, stream: &Stream, state: &GroupState) -> Result<()> {
        let params = GroupBegin { progress: ptr(state.progress.at(0)), lanes: size(state.lanes) };
        let blocks = state.lanes.div_ceil(THREADS);
        // SAFETY: there is progress of every lane.
        unsafe { self.work.kernels.begin.launch(stream, [blocks, 1], THREADS, &params) }
    }

    /// A lane's outputs of the latest evaluation, (A, rows, m). The stream must have been
    /// synchronised.
    pub fn outputs(&self, lane: usize) -> Result<Vec<f32>> {
        let plan = &self.plan;
        let each = plan.elements * plan.chunks * plan.rows() * plan.net.outputs;
        self.work.outputs.get(lane * each, each)
    }

    pub fn bytes(&self) -> usize {
        let w = &self.work;
        let bytes = [&w.h_images, &w.d_images, &w.gates, &w.cells, &w.d_outputs];
        bytes.iter().map(|b| b.bytes()).sum::<usize>() + w.products.bytes() + w.outputs.bytes()
    }
}

impl Buffers {
    /// Submits a training step or an evaluation of all lanes; blocks of lanes without a batch exit.
    fn record(
        &self,
        plan: &GroupPlan,
        state: &GroupState,
        stream: &Stream,
        train: bool,
    ) -> Result<()> {
        let Buffers { kernels, h_images, d_images, gates, cells, d_outputs, .. } = self;
        let lanes = state.lanes;
        let directions = lanes * plan.net.directions;
        let (tasks, progress) = (ptr(state.tasks.at(0)), ptr(state.progress.at(0)));
        let (params, trains) = (ptr(state.params.at(0)), u32::from(train));
        let (steps, elements, chunks) =
            (size(plan.steps()), size(plan.elements), size(plan.chunks));
        let forward = GroupForward {
            tasks,
            progress,
            params,
            h_images: ptr(h_images.at(0)),
            gates: ptr(gates.at(0)),
            cells: ptr(cells.at(0)),
            steps,
            elements,
            save: trains,
        };
        let outputs = GroupOutputs {
            tasks,
            progress,
            params,
            h_images: ptr(h_images.at(0)),
            d_outputs: ptr(d_outputs.at(0)),
            losses: ptr(self.losses.at(0)),
            outputs: ptr(if train { 0 } else { self.outputs.at(0) }),
            steps,
            elements,
            chunks,
        };
        let backward = GroupBackward {
            tasks,
            progress,
            params,
            d_outputs: ptr(d_outputs.at(0)),
            gates: ptr(gates.at(0)),
            cells: ptr(cells.at(0)),
            d_images: ptr(d_images.at(0)),
            steps,
            elements,
        };
        let weights = GroupWeights {
            tasks,
            progress,
            h_images: ptr(h_images.at(0)),
            d_images: ptr(d_images.at(0)),
            products: ptr(self.products.at(0)),
            images: steps + 1,
            chunks,
        };
        let squares = GroupSquares {
            tasks,
            progress,
            products: ptr(self.products.at(0)),
            partial: ptr(self.squares.at(0)),
        };
        let AdamOptions { beta1, beta2, eps, .. } = state.adam;
        let finish = GroupFinish {
            tasks,
            progress: ptr(state.progress.at(0)),
            squares: ptr(self.squares.at(0)),
            losses: ptr(self.losses.at(0)),
            coefficients: ptr(self.coefficients.at(0)),
            beta1,
            beta2,
            learn: trains,
        };
        let adam = GroupAdam {
            coefficients: ptr(self.coefficients.at(0)),
            products: ptr(self.products.at(0)),
            params: ptr(state.params.at(0)),
            mean: ptr(state.mean.at(0)),
            square: ptr(state.square.at(0)),
            beta1,
            beta2,
            eps,
        };
        let by_row_chunk = [directions, plan.chunks];
        let by_share = [directions * plan.gradient_blocks(), 1];
        let Block { threads, shared } = plan.forward();
        // SAFETY: the workspace is as large as the plan says.
        unsafe {
            kernels.forward.launch_with(stream, by_row_chunk, threads, shared, &forward)?;
            kernels.outputs.launch(stream, [BLOCKS, lanes], THREADS, &outputs)?;
            if train {
                let Block { threads, shared } = plan.backward();
                kernels.backward.launch_with(stream, by_row_chunk, threads, shared, &backward)?;
                let Block { threads, shared } = plan.gradients();
                kernels.weights.launch_with(stream, by_share, threads, shared, &weights)?;
                kernels.squares.launch(stream, [BLOCKS, lanes], THREADS, &squares)?;
            }
            kernels.finish.launch(stream, [lanes, 1], BLOCKS, &finish)?;
            if train {
                kernels.adam.launch(stream, [BLOCKS, lanes], THREADS, &adam)?;
            }
        }
        Ok(())
    }
}
