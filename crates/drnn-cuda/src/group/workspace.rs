//! Kernels and memory of a group for batches of one shape, and a step as a graph.

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

/// Blocks of sums, as `kernels/group/step.cu` has them.
const BLOCKS: usize = 32;
const THREADS: usize = 256;
/// Words of `struct Task`, and f64s of `struct Progress`.
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

/// What stays whatever the shape of batches: parameters and optimiser of all lanes, one lane behind the other.
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

/// Everything for batches of one shape.
#[derive(Debug)]
pub(crate) struct GroupWorkspace {
    pub plan: GroupPlan,
    /// A step, and a batch that is only looked at. Before the buffers that they use.
    pub step: Graph,
    pub look: Graph,
    work: Work,
}

#[derive(Debug)]
struct Work {
    kernels: Kernels,
    h_images: Buffer<u8>,
    d_images: Buffer<u8>,
    /// Gates, four f16 each, and cells.
    gates: Buffer<u8>,
    cells: Buffer<u8>,
    d_answers: Buffer<u8>,
    /// (lanes, A, rows, m), of a batch that is only looked at.
    answers: Buffer<f32>,
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
        kept: &GroupState,
    ) -> Result<GroupWorkspace> {
        let kernels = Kernels::new(device, &plan)?;
        let lanes = kept.lanes;
        let directions = lanes * plan.net.directions;
        let (places, steps) = (directions * plan.chunks, plan.steps());
        let answers = lanes * plan.elements * plan.chunks * plan.rows() * plan.net.outputs;
        let bytes = |len| Buffer::<u8>::zeros(device, len);
        let work = Work {
            kernels,
            h_images: bytes(places * (steps + 1) * plan.h_image())?,
            d_images: bytes(places * (steps + 1) * plan.d_image())?,
            gates: bytes(places * steps * plan.saved() * 8)?,
            cells: bytes(places * steps * plan.saved() * 2)?,
            d_answers: bytes(2 * answers)?,
            answers: Buffer::zeros(device, answers)?,
            products: Buffer::zeros(device, directions * plan.net.products())?,
            losses: Buffer::zeros(device, lanes * BLOCKS * 3)?,
            squares: Buffer::zeros(device, lanes * BLOCKS)?,
            coefficients: Buffer::zeros(device, lanes * 4)?,
        };
        let step = stream.capture(|| work.record(&plan, kept, stream, true))?;
        let look = stream.capture(|| work.record(&plan, kept, stream, false))?;
        Ok(GroupWorkspace { plan, step, look, work })
    }

    /// Forgets what lanes had come to.
    pub fn begin(&self, stream: &Stream, kept: &GroupState) -> Result<()> {
        let params = GroupBegin { progress: ptr(kept.progress.at(0)), lanes: size(kept.lanes) };
        let blocks = kept.lanes.div_ceil(THREADS);
        // SAFETY: there is progress of every lane.
        unsafe { self.work.kernels.begin.launch(stream, [blocks, 1], THREADS, &params) }
    }

    /// A lane's answers to the batch that was looked at last, (A, rows, m). It must have finished.
    pub fn answers(&self, lane: usize) -> Result<Vec<f32>> {
        let plan = &self.plan;
        let each = plan.elements * plan.chunks * plan.rows() * plan.net.outputs;
        self.work.answers.get(lane * each, each)
    }

    pub fn bytes(&self) -> usize {
        let w = &self.work;
        let bytes = [&w.h_images, &w.d_images, &w.gates, &w.cells, &w.d_answers];
        bytes.iter().map(|b| b.bytes()).sum::<usize>() + w.products.bytes() + w.answers.bytes()
    }
}

impl Work {
    /// Puts a step, or a look, into the stream: all lanes that have a batch.
    fn record(
        &self,
        plan: &GroupPlan,
        kept: &GroupState,
        stream: &Stream,
        learn: bool,
    ) -> Result<()> {
        let Work { kernels, h_images, d_images, gates, cells, d_answers, .. } = self;
        let lanes = kept.lanes;
        let directions = lanes * plan.net.directions;
        let (tasks, progress) = (ptr(kept.tasks.at(0)), ptr(kept.progress.at(0)));
        let (params, learns) = (ptr(kept.params.at(0)), u32::from(learn));
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
            save: learns,
        };
        let outputs = GroupOutputs {
            tasks,
            progress,
            params,
            h_images: ptr(h_images.at(0)),
            d_outputs: ptr(d_answers.at(0)),
            losses: ptr(self.losses.at(0)),
            outputs: ptr(if learn { 0 } else { self.answers.at(0) }),
            steps,
            elements,
            chunks,
        };
        let backward = GroupBackward {
            tasks,
            progress,
            params,
            d_outputs: ptr(d_answers.at(0)),
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
        let AdamOptions { beta1, beta2, eps } = kept.adam;
        let finish = GroupFinish {
            tasks,
            progress: ptr(kept.progress.at(0)),
            squares: ptr(self.squares.at(0)),
            losses: ptr(self.losses.at(0)),
            coefficients: ptr(self.coefficients.at(0)),
            beta1,
            beta2,
            learn: learns,
        };
        let adam = GroupAdam {
            coefficients: ptr(self.coefficients.at(0)),
            products: ptr(self.products.at(0)),
            params: ptr(kept.params.at(0)),
            mean: ptr(kept.mean.at(0)),
            square: ptr(kept.square.at(0)),
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
            if learn {
                let Block { threads, shared } = plan.backward();
                kernels.backward.launch_with(stream, by_row_chunk, threads, shared, &backward)?;
                let Block { threads, shared } = plan.gradients();
                kernels.weights.launch_with(stream, by_share, threads, shared, &weights)?;
                kernels.squares.launch(stream, [BLOCKS, lanes], THREADS, &squares)?;
            }
            kernels.finish.launch(stream, [lanes, 1], BLOCKS, &finish)?;
            if learn {
                kernels.adam.launch(stream, [BLOCKS, lanes], THREADS, &adam)?;
            }
        }
        Ok(())
    }
}
