//! Trains one network on a GPU.
//!
//! ```text
//! host     gather -> stage -> copy ->                    next batch, without waiting
//! device                       forward, loss, backward, norm, clip, Adam   a graph per batch shape
//! ```
//!
//! Where the data are vectors in memory that fit on the device ([`Dataset::stored`]), they are copied
//! there once and the host only says where the sequences of a batch lie.
//!
//! The host synchronises once per call of [`Engine::train`], to read the sums. The device itself
//! decides which steps count: after a step with a non-finite loss or gradient, the remaining steps
//! of the same call change nothing.

#[cfg(test)]
mod executed;
mod kernels;
mod submit;

use crate::error::{Error as CudaError, Result as CudaResult};
use crate::persistent::{self, PersistentNet};
use crate::plain::Resident;
use crate::runtime::device::Device;
use crate::runtime::gemm::{Gemm, Precision};
use crate::runtime::stream::{Event, Graph, Stream};
use crate::step::cpu_only;
use crate::step::pass::Until;
use crate::step::plan::{Plan, TargetType};
use crate::step::staging::{Step, shape};
use crate::step::state::DeviceState;
use crate::step::stored::StoredData;
use crate::step::workspace::{Recurrent, Workspace};
use drnn::NetSpec;
use drnn_train::{
    AdamOptions, Batches, Dataset, Engine, Error, Gathered, Inspect, LossSum, Result, State, Steps,
};
use std::collections::HashMap;
use std::sync::Arc;
use submit::{GraphKey, PendingBatches};

/// Cached graphs, at most: data with sequences of many lengths has many batch shapes.
const MAX_GRAPHS: usize = 64;
/// Batches per call of [`Engine::train`]: about a second of work, so that the synchronisation costs
/// nothing, yet progress is reported and an interrupt is noticed soon. A constant, because sums of
/// losses depend on it in their last bits.
const STRIDE: usize = 512;

/// One network in training on a GPU: an [`Engine`] that owns parameters, optimiser state and the
/// workspace of a step, all in device memory. Graphs and workspace grow with the largest batch so
/// far.
#[derive(Debug)]
pub struct CudaLearner {
    plan: Plan,
    /// By layer: the register-resident kernels, if the layer is small enough and precision is f16.
    resident: Vec<Option<Resident>>,
    /// Whether recurrences run in persistent kernels, and those, by rows of the batch.
    persistent: bool,
    persistent_nets: HashMap<usize, PersistentNet>,
    /// Declared, and so dropped, before the buffers they use.
    graphs: HashMap<GraphKey, Graph>,
    /// The number of rows for which the packed weights are up to date; `None` after a step.
    packed: Option<usize>,
    gemm: Gemm,
    state: DeviceState,
    work: Option<Workspace>,
    stream: Stream,
    /// Low priority: weight packing and resets that overlap with `stream`.
    side_stream: Stream,
    /// Batches on their way to the device.
    copies: Stream,
    device: Device,
    gathered: Gathered,
    /// The data trained on last by their key, and their copy on the device if they can have one.
    stored: Option<(u64, Option<Arc<StoredData>>)>,
    pending: Option<PendingBatches>,
    /// Graphs launched so far; selects the staging buffer.
    submitted: usize,
}

impl CudaLearner {
    /// A network with the parameters of [`drnn::Model::init`] and a fresh Adam. Fails with
    /// [`CudaError::Unsupported`] for networks with recurrent blocks, which run on the CPU only.
    pub fn new(
        device: &Device,
        precision: Precision,
        spec: &NetSpec,
        adam: AdamOptions,
        seed: u64,
    ) -> CudaResult<CudaLearner> {
        let plan = Plan::new(spec).map_err(CudaError::Unsupported)?;
        cpu_only::check_adam(&adam)?;
        device.enter()?;
        device.kernels()?;
        let resident = match precision {
            Precision::F16 => Resident::of(device, &plan)?,
            _ => vec![None; plan.layers.len()],
        };
        let persistent = precision == Precision::F16 && persistent::supports(device, &plan)?;
        let stream = Stream::new(device)?;
        Ok(CudaLearner {
            gemm: Gemm::new(device, &stream, precision)?,
            state: DeviceState::new(device, &drnn::params::initial(spec, seed), adam)?,
            plan,
            resident,
            persistent,
            persistent_nets: HashMap::new(),
            graphs: HashMap::new(),
            packed: None,
            work: None,
            stream,
            side_stream: Stream::low_priority(device)?,
            copies: Stream::new(device)?,
            stored: None,
            device: device.clone(),
            gathered: Gathered { look_ahead: spec.look_ahead(), ..Gathered::default() },
            pending: None,
            submitted: 0,
        })
    }

    /// The network's specification.
    pub fn spec(&self) -> &NetSpec {
        &self.plan.spec
    }
}

impl Engine for CudaLearner {
    type Data = dyn Dataset;

    fn identity(&self) -> String {
        self.plan.spec.canonical()
    }

    fn identity_of_0_1(&self) -> String {
        self.plan.spec.display_of_0_1()
    }

    fn sequences(&self, data: &dyn Dataset) -> usize {
        data.len()
    }

    fn check(&self, data: &dyn Dataset) -> Result<()> {
        cpu_only::check_data(data)?;
        data.check(&self.plan.spec)
    }

    fn train(&mut self, data: &dyn Dataset, batches: &Batches) -> Result<Steps> {
        let Batches { epoch, chosen, batch, rate, clip, .. } = *batches;
        cpu_only::check_batches(batches)?;
        cpu_only::check_data(data)?;
        self.device.enter()?;
        self.state.reset_totals(&self.stream)?;
        self.pending = None; // left over from an error
        let mut last = None;
        for chosen in chosen.chunks(batch.max(1)) {
            let step = Step { rate, clip };
            last = Some(self.stage(data, [epoch, batch], chosen, Until::Step, step)?);
        }
        self.submit()?;
        self.stream.synchronize()?;
        let values = last.is_some_and(|form| form.target_type == TargetType::Values);
        Ok(self.state.steps(values)?)
    }

    fn batches_per_call(&self) -> usize {
        STRIDE
    }

    fn evaluate_batch(
        &mut self,
        data: &dyn Dataset,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        self.device.enter()?;
        self.pending = None;
        data.gather(epoch, chosen, &mut self.gathered);
        let step = Step { rate: 0.0, clip: None };
        let (form, count) = self.stage_gathered(Until::Losses, step)?;
        self.submit()?;
        self.stream.synchronize()?;
        let found = self.state.losses(count, form.target_type == TargetType::Values)?;
        inspect(&self.outputs()?, self.gathered.targets());
        Ok(found)
    }

    fn state(&mut self) -> Result<State> {
        self.device.enter()?;
        self.stream.synchronize()?;
        Ok(self.state.get()?)
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        let n = self.plan.spec.parameters();
        let State { params, adam } = &state;
        if [params.len(), adam.mean.len(), adam.square.len()] != [n; 3] {
            let spec = &self.plan.spec;
            return Err(Error::Options(format!("{} parameters for {spec}", params.len())));
        }
        cpu_only::check_adam(&adam.options())?;
        self.device.enter()?;
        self.stream.synchronize()?;
        self.packed = None;
        if adam.options() != self.state.options() {
            self.graphs.clear(); // they contain Adam's constants
        }
        Ok(self.state.set(&state)?)
    }

    fn memory(&self) -> usize {
        let stored = self.stored.as_ref().and_then(|(_, stored)| stored.as_ref());
        let stored = stored.map_or(0, |stored| stored.bytes());
        self.work.as_ref().map_or(0, Workspace::bytes) + self.state.bytes() + stored
    }
}

impl CudaLearner {
    /// Runs in a row that [`device_seconds`](CudaLearner::device_seconds) measures together.
    pub const LAUNCHES: usize = 4;

    /// Returns `times` measurements of the seconds that a batch takes on the GPU, with CUDA events
    /// around [`LAUNCHES`](CudaLearner::LAUNCHES) runs: as in training, a graph is launched while
    /// another runs. `until` says how much of a step is run; with [`Until::Step`] parameters change.
    /// The first, untimed, run compiles and captures.
    pub fn device_seconds(
        &mut self,
        data: &dyn Dataset,
        chosen: &[u32],
        until: Until,
        times: usize,
    ) -> Result<Vec<f64>> {
        self.device.enter()?;
        self.pending = None;
        let step = Step { rate: 1e-3, clip: Some(1.0) };
        let submit = |learner: &mut CudaLearner| -> Result<GraphKey> {
            let packed = learner.packed.is_some();
            let form = learner.stage(data, [0, chosen.len()], chosen, until, step)?;
            learner.submit()?;
            Ok(GraphKey { form, count: 1, packed })
        };
        // Twice, since the first run may leave the weights packed, which selects another graph.
        submit(self)?;
        let key = submit(self)?;
        let graph = &self.graphs[&key];
        let (begin, end) = (Event::with_timing(&self.device)?, Event::with_timing(&self.device)?);
        let seconds = || -> CudaResult<f64> {
            begin.record(&self.stream)?;
            for _ in 0..Self::LAUNCHES {
                self.stream.launch(graph)?;
            }
            end.record(&self.stream)?;
            Ok(begin.seconds_to(&end)? / Self::LAUNCHES as f64)
        };
        Ok((0..times).map(|_| seconds()).collect::<CudaResult<_>>()?)
    }

    /// Outputs of the latest batch: (A, B, m), or the selected ones, (selected, m).
    fn outputs(&self) -> Result<Vec<f32>> {
        let shape = shape(&self.plan, &self.gathered);
        let outputs = self.gathered.selected.as_ref().map_or(shape.positions(), Vec::len);
        let len = outputs * self.plan.spec.output_width();
        let Some(work) = self.work.as_ref().filter(|_| len > 0) else { return Ok(Vec::new()) };
        Ok(match &work.recurrent {
            // Without an output layer the outputs are hidden states.
            Recurrent::Plain(work) if self.plan.output.is_none() => {
                let (states, first) = work.output_states(&self.plan, shape);
                states.get(first, len)?
            }
            _ => work.outputs.get(0, len)?,
        })
    }
}
