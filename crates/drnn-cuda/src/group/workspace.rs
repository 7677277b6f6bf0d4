//! Kernels and memory of a group for batches of one shape, and a step as a graph.

use super::plan::{Block, GroupPlan};
use crate::error::Result;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::{Arg, Graph, Kernel, Module, Stream};
use drnn_train::AdamOptions;

/// Blocks of sums, as `kernels/group/step.cu` has them.
const BLOCKS: usize = 32;
const THREADS: usize = 256;
/// Words of `struct Task`, and f64s of `struct Progress`.
pub(crate) const TASK: usize = 12;
pub(crate) const PROGRESS: usize = 6;

macro_rules! source {
    ($name:literal, $defines:expr) => {
        Source {
            name: concat!("group_", $name),
            parts: vec![
                include_str!("../kernels/common/common.cuh"),
                include_str!("../kernels/group/common.cuh"),
                include_str!(concat!("../kernels/group/", $name, ".cu")),
            ],
            defines: $defines,
        }
    };
}

/// The files of kernels for a plan.
pub(crate) fn sources(plan: &GroupPlan) -> [Source; 5] {
    let defines = plan.defines();
    [
        source!("forward", defines.clone()),
        source!("outputs", defines.clone()),
        source!("backward", defines.clone()),
        source!("weights", defines.clone()),
        source!("step", defines),
    ]
}

#[derive(Debug)]
struct Kernels {
    forward: Kernel,
    answers: Kernel,
    backward: Kernel,
    weights: Kernel,
    begin: Kernel,
    squares: Kernel,
    finish: Kernel,
    adam: Kernel,
}

impl Kernels {
    fn new(device: &Device, plan: &GroupPlan) -> Result<Kernels> {
        let modules = sources(plan)
            .iter()
            .map(|source| Module::new(device, source))
            .collect::<Result<Vec<_>>>()?;
        let [forward, answers, backward, weights, step] = &modules[..] else {
            unreachable!("one per source")
        };
        let kernels = Kernels {
            forward: forward.kernel("group_forward")?,
            answers: answers.kernel("group_answers")?,
            backward: backward.kernel("group_backward")?,
            weights: weights.kernel("group_weights")?,
            begin: step.kernel("group_begin")?,
            squares: step.kernel("group_squares")?,
            finish: step.kernel("group_finish")?,
            adam: step.kernel("group_adam")?,
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
        let args = [Arg::At(kept.progress.at(0)), kept.lanes.into()];
        let blocks = kept.lanes.div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { self.work.kernels.begin.launch(stream, [blocks, 1], THREADS, &args) }
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
        let begin = [Arg::At(kept.tasks.at(0)), Arg::At(kept.progress.at(0))];
        let learns = Arg::U32(u32::from(learn));
        let launch = |kernel: &Kernel, grid: [usize; 2], block: Block, args: &[Arg]| {
            let args: Vec<Arg> = begin.iter().chain(args).copied().collect();
            // SAFETY: below, arguments as the sources name them; buffers as long as the plan says.
            unsafe { kernel.launch_with(stream, grid, block.threads, block.shared, &args) }
        };
        let plain = |threads| Block { threads, shared: 0 };
        let shown = if learn { 0 } else { self.answers.at(0) };
        let args = [
            Arg::At(kept.params.at(0)),
            Arg::At(h_images.at(0)),
            Arg::At(gates.at(0)),
            Arg::At(cells.at(0)),
            plan.steps().into(),
            plan.elements.into(),
            learns,
        ];
        launch(&kernels.forward, [directions, plan.chunks], plan.forward(), &args)?;
        let args = [
            Arg::At(kept.params.at(0)),
            Arg::At(h_images.at(0)),
            Arg::At(d_answers.at(0)),
            Arg::At(self.losses.at(0)),
            Arg::At(shown),
            plan.steps().into(),
            plan.elements.into(),
            plan.chunks.into(),
        ];
        launch(&kernels.answers, [BLOCKS, lanes], plain(THREADS), &args)?;
        if learn {
            let args = [
                Arg::At(kept.params.at(0)),
                Arg::At(d_answers.at(0)),
                Arg::At(gates.at(0)),
                Arg::At(cells.at(0)),
                Arg::At(d_images.at(0)),
                plan.steps().into(),
                plan.elements.into(),
            ];
            launch(&kernels.backward, [directions, plan.chunks], plan.backward(), &args)?;
            let args = [
                Arg::At(h_images.at(0)),
                Arg::At(d_images.at(0)),
                Arg::At(self.products.at(0)),
                (plan.steps() + 1).into(),
                plan.chunks.into(),
            ];
            let grid = [directions * plan.gradient_blocks(), 1];
            launch(&kernels.weights, grid, plan.gradients(), &args)?;
            let args = [Arg::At(self.products.at(0)), Arg::At(self.squares.at(0))];
            launch(&kernels.squares, [BLOCKS, lanes], plain(THREADS), &args)?;
        }
        let AdamOptions { beta1, beta2, eps } = kept.adam;
        let args = [
            Arg::At(self.squares.at(0)),
            Arg::At(self.losses.at(0)),
            Arg::At(self.coefficients.at(0)),
            Arg::F32(beta1),
            Arg::F32(beta2),
            learns,
        ];
        launch(&kernels.finish, [lanes, 1], plain(BLOCKS), &args)?;
        if learn {
            let args = [
                Arg::At(self.coefficients.at(0)),
                Arg::At(self.products.at(0)),
                Arg::At(kept.params.at(0)),
                Arg::At(kept.mean.at(0)),
                Arg::At(kept.square.at(0)),
                Arg::F32(beta1),
                Arg::F32(beta2),
                Arg::F32(eps),
            ];
            // SAFETY: arguments as the source names them.
            unsafe { kernels.adam.launch(stream, [BLOCKS, lanes], THREADS, &args)? };
        }
        Ok(())
    }
}
