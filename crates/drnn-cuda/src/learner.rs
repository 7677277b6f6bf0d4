//! One network in training on a GPU.
//!
//! ```text
//! this machine    gather -> stage -> copy ->                         next batch, no waiting
//! the GPU                            forward, loss, backward, norm, clip, Adam     one graph per shape of batch
//! ```
//!
//! The processor waits once per call of [`Engine::train`], when it reads the sums. Which steps were good is decided on the
//! GPU: behind one that is no number the others of the same call change nothing.

use crate::device::Device;
use crate::error::{Error as CudaError, Result as CudaResult};
use crate::forward::Pass;
use crate::plan::{Goal, Plan, Shape, Staged};
use crate::product::{Precision, Products};
use crate::resident::Resident;
use crate::stage::{Step, goal, stage};
use crate::state::DeviceState;
use crate::stream::{Graph, Stream};
use crate::work::Work;
use drnn::{Model, NetSpec};
use drnn_train::{
    AdamOptions, Batches, Engine, Error, Gathered, LossSum, Result, Source, State, Steps, Targets,
};
use std::collections::HashMap;

/// Shapes whose graphs are kept: data of many lengths has many.
const GRAPHS: usize = 64;
/// Batches that [`Engine::train`] is given at once.
const STRIDE: usize = 64;

/// Parameters, optimiser, and memory for a step, all on the GPU.
#[derive(Debug)]
pub struct CudaLearner {
    plan: Plan,
    /// By layer, where its recurrence fits into registers and may.
    resident: Vec<Option<Resident>>,
    /// By whether it is a step, and the batch's shape. Before the buffers that they use.
    graphs: HashMap<(bool, Shape), Graph>,
    products: Products,
    state: DeviceState,
    work: Option<Work>,
    stream: Stream,
    device: Device,
    gathered: Gathered,
    /// Batches staged so far.
    staged: usize,
}

impl CudaLearner {
    /// Parameters as [`Model::init`] draws them. Refused for networks in blocks.
    pub fn new(
        device: &Device,
        precision: Precision,
        spec: &NetSpec,
        adam: AdamOptions,
        seed: u64,
    ) -> CudaResult<CudaLearner> {
        let plan = Plan::new(spec).map_err(CudaError::Unsupported)?;
        device.enter()?;
        device.kernels()?;
        let resident = match precision {
            Precision::F16 => Resident::of(device, &plan)?,
            _ => vec![None; plan.layers.len()],
        };
        let stream = Stream::new(device)?;
        Ok(CudaLearner {
            products: Products::new(device, &stream, precision)?,
            state: DeviceState::new(device, &Model::init(spec, seed).into_params(), adam)?,
            plan,
            resident,
            graphs: HashMap::new(),
            work: None,
            stream,
            device: device.clone(),
            gathered: Gathered::default(),
            staged: 0,
        })
    }

    /// What kind of network it is.
    pub fn spec(&self) -> &NetSpec {
        &self.plan.spec
    }

    /// Memory for a batch; a larger one replaces what was there.
    fn reserve(&mut self, shape: Shape, goal: Goal) -> Result<()> {
        if self.work.as_ref().is_some_and(|work| work.holds(shape, goal)) {
            return Ok(());
        }
        let most = self.plan.spec.units().iter().max().copied().unwrap_or(0);
        let widest = (self.plan.cell.gates() * most).max(self.plan.spec.answer_width());
        if shape.slots().saturating_mul(widest.max(self.plan.widest())) > u32::MAX as usize {
            return Err(Error::Options(format!(
                "{} steps of {} sequences are too many for one batch on a GPU; take smaller batches",
                shape.steps, shape.rows
            )));
        }
        self.stream.wait()?;
        self.graphs.clear();
        let room = match self.work.take() {
            Some(Work { room, .. }) => Shape {
                steps: room.steps.max(shape.steps),
                answers: room.answers.max(shape.answers),
                rows: room.rows.max(shape.rows),
            },
            None => shape,
        };
        self.work = Some(Work::new(&self.device, &self.plan, room, goal)?);
        Ok(())
    }

    /// Sends what was gathered and runs it, as a step or forward only. Nothing is waited for, except for a place to put
    /// the batch. Gives the positions, or values, that count.
    fn run(&mut self, train: bool, step: Step) -> Result<usize> {
        let shape = Shape::new(&self.plan.spec, self.gathered.steps, self.gathered.rows);
        let goal = goal(&self.gathered);
        self.reserve(shape, goal)?;
        let work = self.work.as_mut().expect("reserved above");
        let count = work.slots.len();
        let slot = &mut work.slots[self.staged % count];
        self.staged += 1;
        slot.read.wait()?;
        let count = stage(&self.plan, &self.gathered, step, slot.words.as_mut_slice())?;
        let words = Staged::new(&self.plan.spec, shape, goal).words;
        // SAFETY: the slot is left alone until its event has passed.
        unsafe { self.stream.copy(&slot.words, words, &work.batch)? };
        slot.read.record(&self.stream)?;
        if !self.graphs.contains_key(&(train, shape)) {
            if self.graphs.len() >= GRAPHS {
                self.stream.wait()?;
                self.graphs.clear();
            }
            let graph = self.stream.capture(|| self.record(train, shape))?;
            self.graphs.insert((train, shape), graph);
        }
        self.stream.launch(&self.graphs[&(train, shape)])?;
        Ok(count)
    }

    /// Puts a step, or the way forward, into the stream.
    fn record(&self, train: bool, shape: Shape) -> CudaResult<()> {
        let work = self.work.as_ref().expect("reserved before");
        let kernels = self.device.kernels()?;
        let (plan, products, stream, state) =
            (&self.plan, &self.products, &self.stream, &self.state);
        let resident = &self.resident;
        let pass = Pass { plan, resident, shape, kernels, products, stream, state, work };
        if shape.slots() == 0 {
            // No sequence has an answer: nothing to run, and no gradient.
            stream.clear(&state.losses, 0, state.losses.len())?;
            stream.clear(&state.gradient, 0, state.gradient.len())?;
        } else {
            pass.forward()?;
            if train {
                pass.backward()?;
            }
        }
        if train { state.step(kernels, stream, pass.part(0)) } else { Ok(()) }
    }
}

impl Engine for CudaLearner {
    type Data = dyn Source;

    fn describe(&self) -> String {
        self.plan.spec.to_string()
    }

    fn sequences(&self, data: &dyn Source) -> Result<usize> {
        if data.is_empty() {
            return Err(Error::Data("no sequences to train on".into()));
        }
        data.fits(&self.plan.spec)?;
        Ok(data.len())
    }

    fn train(&mut self, data: &dyn Source, batches: &Batches) -> Result<Steps> {
        let Batches { visit, chosen, batch, rate, clip } = *batches;
        self.device.enter()?;
        self.state.begin(&self.stream)?;
        for chosen in chosen.chunks(batch.max(1)) {
            data.gather(visit, chosen, &mut self.gathered);
            self.run(true, Step { rate, clip })?;
        }
        self.stream.wait()?;
        Ok(self.state.found(goal(&self.gathered) == Goal::Values)?)
    }

    fn stride(&self) -> usize {
        STRIDE
    }

    fn evaluate(
        &mut self,
        data: &dyn Source,
        visit: usize,
        rows: usize,
        look: &mut dyn FnMut(&[f32], Targets),
    ) -> Result<LossSum> {
        self.device.enter()?;
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let mut total = LossSum::default();
        for chosen in all.chunks(rows.max(1)) {
            data.gather(visit, chosen, &mut self.gathered);
            let count = self.run(false, Step { rate: 0.0, clip: None })?;
            self.stream.wait()?;
            let values = goal(&self.gathered) == Goal::Values;
            total.add(self.state.losses(count, values)?);
            look(&self.answers()?, self.gathered.targets());
        }
        Ok(total)
    }

    fn state(&mut self) -> Result<State> {
        self.device.enter()?;
        self.stream.wait()?;
        Ok(self.state.get()?)
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        let n = self.plan.spec.parameters();
        let State { params, adam } = &state;
        if [params.len(), adam.mean.len(), adam.square.len()] != [n; 3] {
            let spec = &self.plan.spec;
            return Err(Error::Options(format!("{} parameters for {spec}", params.len())));
        }
        self.device.enter()?;
        self.stream.wait()?;
        if adam.options() != self.state.options() {
            self.graphs.clear(); // they hold Adam's constants
        }
        Ok(self.state.set(&state)?)
    }

    fn memory(&self) -> usize {
        self.work.as_ref().map_or(0, Work::bytes) + self.state.bytes()
    }
}

impl CudaLearner {
    /// Answers to the batch that ran last, (A, B, m).
    fn answers(&self) -> Result<Vec<f32>> {
        let shape = Shape::new(&self.plan.spec, self.gathered.steps, self.gathered.rows);
        let len = shape.positions() * self.plan.spec.answer_width();
        let Some(work) = self.work.as_ref().filter(|_| len > 0) else { return Ok(Vec::new()) };
        Ok(match self.plan.output {
            Some(_) => work.answers.get(0, len)?,
            None => {
                let step = shape.rows * self.plan.spec.hidden_width();
                work.h[self.plan.layers.len() - 1].get((1 + self.plan.spec.delay()) * step, len)?
            }
        })
    }
}
