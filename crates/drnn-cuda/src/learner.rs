//! Trains one network on a GPU.
//!
//! ```text
//! host     gather -> stage -> copy ->                    next batch, without waiting
//! device                       forward, loss, backward, norm, clip, Adam   a graph per batch shape
//! ```
//!
//! The host synchronises once per call of [`Engine::train`], to read the sums. The device itself
//! decides which steps count: after a step with a non-finite loss or gradient, the remaining steps
//! of the same call change nothing.

use crate::error::{Error as CudaError, Result as CudaResult};
use crate::persistent::{self, PersistentNet, PersistentPass};
use crate::plain::{PlainPass, Resident};
use crate::runtime::device::Device;
use crate::runtime::gemm::{Gemm, Precision};
use crate::runtime::stream::{Event, Graph, Stream};
use crate::step::cpu_only;
use crate::step::pass::{Pass, Tensors, Until};
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use crate::step::staging::{Step, shape, stage, target_type};
use crate::step::state::DeviceState;
use crate::step::workspace::{MAX_BATCHES_PER_GRAPH, Recurrent, Workspace};
use drnn::NetSpec;
use drnn_train::{
    AdamOptions, Batches, Dataset, Engine, Error, Gathered, Inspect, LossSum, Result, State, Steps,
};
use std::collections::HashMap;

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
    device: Device,
    gathered: Gathered,
    pending: Option<PendingBatches>,
    /// Graphs launched so far; selects the staging buffer.
    submitted: usize,
}

/// What a graph was captured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct GraphKey {
    until: Until,
    shape: Shape,
    /// Batches, one after another.
    count: usize,
    /// Whether the weights are packed already.
    packed: bool,
}

/// Batches of one shape that are staged and not yet submitted.
#[derive(Debug, Clone, Copy)]
struct PendingBatches {
    until: Until,
    shape: Shape,
    target_type: TargetType,
    count: usize,
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
        let persistent = precision == Precision::F16 && persistent::supports(device, &plan);
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

    /// Makes sure that the workspace fits a batch; a larger one replaces it.
    fn reserve(&mut self, shape: Shape, target_type: TargetType) -> Result<()> {
        if self.work.as_ref().is_some_and(|work| work.fits(shape, target_type)) {
            return Ok(());
        }
        let checked = self.plan.check_batch(shape.steps, shape.rows);
        checked.map_err(|why| Error::Options(why.to_string()))?;
        self.stream.synchronize()?;
        self.graphs.clear();
        self.packed = None;
        let before = self.work.take().map_or(shape, |work| work.capacity);
        let capacity = Shape {
            steps: before.steps.max(shape.steps),
            outputs: before.outputs.max(shape.outputs),
            rows: before.rows.max(shape.rows),
            selected: None,
        };
        self.work =
            Some(Workspace::new(&self.device, &self.plan, capacity, target_type, self.persistent)?);
        Ok(())
    }

    /// Stages the gathered batch after the pending ones, which are submitted first if they have
    /// another shape, and at once if the staging buffer is full. Returns the number of positions,
    /// or values, that count in the loss.
    fn add(&mut self, until: Until, step: Step) -> Result<usize> {
        let shape = shape(&self.plan, &self.gathered);
        let target_type = target_type(&self.gathered);
        let differs = self.pending.is_some_and(|w| w.shape != shape || w.until != until);
        if differs || !self.work.as_ref().is_some_and(|work| work.fits(shape, target_type)) {
            self.submit()?;
            self.reserve(shape, target_type)?;
        }
        let work = self.work.as_mut().expect("reserved above");
        let buffers = work.staging.len();
        let buffer = &mut work.staging[self.submitted % buffers];
        let pending =
            self.pending.get_or_insert(PendingBatches { until, shape, target_type, count: 0 });
        if pending.count == 0 {
            buffer.read.synchronize()?;
        }
        let words = Staged::new(&self.plan.spec, shape, target_type).words;
        let to = &mut buffer.words.as_mut_slice()[pending.count * words..];
        let count = stage(&self.plan, &self.gathered, step, to)?;
        pending.count += 1;
        if pending.count == self.batches_per_graph(shape) {
            self.submit()?;
        }
        Ok(count)
    }

    /// Batches of this shape per graph: graphs stay below a few hundred nodes.
    fn batches_per_graph(&self, shape: Shape) -> usize {
        let recurrences = self.plan.layers.iter().zip(&self.resident);
        let nodes = recurrences.map(|(layer, resident)| match resident {
            Some(_) => 20,
            None if self.persistent => 30,
            None => 4 * shape.steps * layer.len(),
        });
        (200 / nodes.sum::<usize>().max(1)).clamp(1, MAX_BATCHES_PER_GRAPH)
    }

    /// Copies the pending batches to the device and launches their graph, asynchronously.
    fn submit(&mut self) -> Result<()> {
        let Some(PendingBatches { until, shape, target_type, count }) = self.pending.take() else {
            return Ok(());
        };
        let Some(work) = &self.work else { return Ok(()) };
        let buffer = &work.staging[self.submitted % work.staging.len()];
        self.submitted += 1;
        let words = Staged::new(&self.plan.spec, shape, target_type).words;
        // SAFETY: the staging buffer is not touched until its event has happened.
        unsafe { self.stream.copy(&buffer.words, count * words, &work.batch)? };
        buffer.read.record(&self.stream)?;
        let changes = until == Until::Step;
        let packed = self.packed.take().is_some_and(|rows| !changes && rows == shape.rows);
        let key = GraphKey { until, shape, count, packed };
        if !self.graphs.contains_key(&key) {
            if self.persistent && !self.persistent_nets.contains_key(&shape.rows) {
                let net = PersistentNet::new(&self.device, &self.plan, shape.rows)?;
                self.persistent_nets.insert(shape.rows, net);
            }
            if self.graphs.len() >= MAX_GRAPHS {
                self.stream.synchronize()?;
                self.graphs.clear();
            }
            let record = || (0..count).try_for_each(|i| self.record(key, i * words));
            let graph = self.stream.capture(record)?;
            self.graphs.insert(key, graph);
        }
        self.stream.launch(&self.graphs[&key])?;
        self.packed = (self.persistent && !changes && shape.step_rows() > 0).then_some(shape.rows);
        Ok(())
    }

    /// Submits a step, or a forward pass, to the stream.
    fn record(&self, key: GraphKey, first_word: usize) -> CudaResult<()> {
        let GraphKey { until, shape, packed, .. } = key;
        let train = until == Until::Step;
        let work = self.work.as_ref().expect("reserved by `add`");
        let kernels = self.device.kernels()?;
        let CudaLearner { plan, gemm, stream, side_stream, state, .. } = self;
        let pass = Pass {
            plan,
            shape,
            first_word,
            kernels,
            gemm,
            stream,
            side_stream,
            params: Tensors::Vector(&state.params),
            gradient: Tensors::Vector(&state.gradient),
            partial_losses: state.losses.at(0),
            work,
        };
        if shape.step_rows() == 0 {
            // No sequence is long enough for an output: nothing to run, and no gradient.
            stream.clear(&state.losses, 0, state.losses.len())?;
            stream.clear(&state.gradient, 0, state.gradient.len())?;
        } else {
            match &work.recurrent {
                Recurrent::Persistent(work) => {
                    let pass = PersistentPass {
                        pass,
                        net: &self.persistent_nets[&shape.rows],
                        work,
                        states: None,
                    };
                    pass.forward(until, packed)?;
                    if train {
                        pass.backward()?;
                    }
                    stream.wait_for(side_stream)?;
                }
                Recurrent::Plain(work) => {
                    let pass = PlainPass {
                        pass,
                        work,
                        resident: &self.resident,
                        cells: &kernels.cells,
                        from_states: false,
                    };
                    pass.forward(until)?;
                    if train {
                        pass.backward()?;
                    }
                }
            }
        }
        if train { state.step(kernels, stream, pass.part(0)) } else { Ok(()) }
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
        for chosen in chosen.chunks(batch.max(1)) {
            data.gather(epoch, chosen, &mut self.gathered);
            self.add(Until::Step, Step { rate, clip })?;
        }
        self.submit()?;
        self.stream.synchronize()?;
        Ok(self.state.steps(target_type(&self.gathered) == TargetType::Values)?)
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
        let count = self.add(Until::Losses, Step { rate: 0.0, clip: None })?;
        self.submit()?;
        self.stream.synchronize()?;
        let values = target_type(&self.gathered) == TargetType::Values;
        let found = self.state.losses(count, values)?;
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
        self.work.as_ref().map_or(0, Workspace::bytes) + self.state.bytes()
    }
}

impl CudaLearner {
    /// Runs one batch `times` times and returns the seconds that each run took on the GPU, measured
    /// with CUDA events. `until` says how much of a step is run; with [`Until::Step`] parameters
    /// change. The first, untimed, run compiles and captures.
    pub fn device_seconds(
        &mut self,
        data: &dyn Dataset,
        chosen: &[u32],
        until: Until,
        times: usize,
    ) -> Result<Vec<f64>> {
        self.device.enter()?;
        self.pending = None;
        data.gather(0, chosen, &mut self.gathered);
        // Twice, since the first run may leave the weights packed, which selects another graph.
        let mut packed = false;
        for _ in 0..2 {
            packed = self.packed.is_some();
            self.add(until, Step { rate: 1e-3, clip: Some(1.0) })?;
            self.submit()?;
        }
        let shape = shape(&self.plan, &self.gathered);
        let graph = &self.graphs[&GraphKey { until, shape, count: 1, packed }];
        let (begin, end) = (Event::with_timing(&self.device)?, Event::with_timing(&self.device)?);
        let seconds = || -> CudaResult<f64> {
            begin.record(&self.stream)?;
            self.stream.launch(graph)?;
            end.record(&self.stream)?;
            begin.seconds_to(&end)
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
