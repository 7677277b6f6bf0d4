//! A network with its parameters, ready to run.

pub(crate) mod batch;
pub mod memory;
pub(crate) mod weight_format;

use crate::cpu::Cpu;
use crate::cpu::buffer::Shared;
use crate::cpu::sync::{OnceLock, Pool};
use crate::error::{Error, Result, check_shape};
use crate::exec::net::Net;
use crate::exec::params::Params;
use crate::exec::pass::{Lane, LaneWork, forward};
use crate::exec::weights::{Way, Weights};
#[cfg(feature = "flatten")]
use crate::flatten::solve::{Solver, solve_rows};
use crate::io::checksum::rotated_17;
use crate::model::batch::{Batch, States};
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::blocks::StartState;
use crate::spec::params::{Layout, initial};
use crate::spec::{NetSpec, NetSpecBuilder, Padding};
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::fmt;

/// A network with its parameters. Cheap to run from several threads at once.
///
/// ```
/// use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, Steps};
///
/// let spec = NetSpec::builder(Cell::Lstm)
///     .dense(1)
///     .units([16])
///     .delay(2, Padding::Null) // the output for x_t is read after x_{t+2}
///     .outputs(3)
///     .build()?;
/// let model = Model::init(&spec, 7)?;
/// let x = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6]; // (T 4, B 2, q 1)
/// let outputs = model.run(&Batch::dense(&x, Steps(4), Rows(2)).lengths(&[4, 1]), None)?;
/// assert_eq!(outputs.shape(), [4, 2, 3]); // aligned with the input
/// assert_eq!(outputs.at(1, 1), [0.0; 3]); // after the end of the second sequence
/// # Ok::<(), drnn::Error>(())
/// ```
pub struct Model {
    pub(crate) cpu: Cpu,
    pub(crate) spec: NetSpec,
    pub(crate) layout: Layout,
    pub(crate) params: Vec<f32>,
    task: Option<serde_json::Value>,
    pub(crate) weights: Weights,
    format: WeightFormat,
    /// Memory of earlier runs, for the next.
    work: Pool<LaneWork>,
    fingerprint: OnceLock<u64>,
    /// What a solved start is computed from, once it was.
    #[cfg(feature = "flatten")]
    pub(crate) solver: OnceLock<Solver>,
}

/// A copy with memory of its own, on the same threads.
impl Clone for Model {
    fn clone(&self) -> Model {
        let (layout, params) = (self.layout.clone(), self.params.clone());
        let cpu = self.cpu.clone();
        let model = Model::assemble(cpu, &self.spec, layout, params, self.format);
        Model { task: self.task.clone(), ..model }
    }
}

/// Outputs of a run, and the states it ended in.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// (T, B, m), aligned with the input; zeros after each sequence's end. Of a batch with
    /// [selected outputs](Batch::select_outputs): (slots, m).
    pub values: Vec<f32>,
    /// States after the last step, which for a delayed network is d steps after the last element.
    pub last: States,
    shape: [usize; 3],
}

impl Outputs {
    /// Outputs that were computed elsewhere, such as on a GPU; `shape` as [`Batch::output_shape`]
    /// says. An error if it does not fit the number of values.
    pub fn new(values: Vec<f32>, last: States, shape: [usize; 3]) -> Result<Outputs> {
        check_shape("outputs", values.len(), &shape)?;
        Ok(Outputs { values, last, shape })
    }

    /// T, B, m; of a batch with selected outputs: slots, 1, m.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The values (B, T, m): sequence after sequence.
    pub fn to_batch_first(&self) -> Vec<f32> {
        let [steps, rows, m] = self.shape;
        batch::swap_axes(&self.values, steps, rows, m)
    }

    /// The output for element `step` of sequence `row`; of a batch with selected outputs, `at(i, 0)`
    /// is number i of them.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn at(&self, step: usize, row: usize) -> &[f32] {
        let [steps, rows, m] = self.shape;
        assert!(step < steps && row < rows, "no output ({step}, {row}) in {:?}", self.shape);
        &self.values[(step * rows + row) * m..][..m]
    }
}

impl Model {
    /// Parameters as PyTorch draws them (its distributions, not its random numbers).
    ///
    /// The model runs on the [global CPU](Cpu::global); an error where `DRNN_THREADS` or `DRNN_ISA`
    /// has a value that is not allowed.
    pub fn init(spec: &NetSpec, seed: u64) -> Result<Model> {
        let (layout, params) = (Layout::new(spec), initial(spec, seed));
        let cpu = Cpu::global()?.clone();
        Ok(Model::assemble(cpu, spec, layout, params, WeightFormat::F32))
    }

    /// Parameters as given, flat, in the order of [`Layout`].
    pub fn from_params(spec: &NetSpec, params: Vec<f32>) -> Result<Model> {
        Model::from_params_on(Cpu::global()?, spec, params)
    }

    /// Replaces all parameters, flat, in the order of [`Layout`]. Where their number is wrong, one
    /// is not finite, or one is not zero where [`Blocks`](crate::Blocks) are not connected, the
    /// model keeps those it has. Weights are rounded to the model's [format](Model::weight_format).
    pub fn set_params(&mut self, params: &[f32]) -> Result<()> {
        Params::from(params).check(&self.spec, &self.layout)?;
        let mut params = params.to_vec();
        self.format.round_params(&self.layout, &mut params)?;
        self.params = params;
        self.weights.set(
            &self.cpu.team,
            Way::Forward,
            true,
            &self.spec,
            &self.layout,
            Params::from(&self.params),
        );
        self.fingerprint = OnceLock::new();
        #[cfg(feature = "flatten")]
        (self.solver = OnceLock::new());
        Ok(())
    }

    /// The same on `cpu`, packed for it alone.
    pub(crate) fn from_params_on(cpu: &Cpu, spec: &NetSpec, params: Vec<f32>) -> Result<Model> {
        let layout = Layout::new(spec);
        Params::from(&params).check(spec, &layout)?;
        Ok(Model::assemble(cpu.clone(), spec, layout, params, WeightFormat::F32))
    }

    /// Another network on the same threads, for the same use, with f32 weights.
    #[cfg(feature = "flatten")]
    pub(crate) fn like(&self, spec: &NetSpec, params: Vec<f32>) -> Result<Model> {
        let model = Model::from_params_on(&self.cpu, spec, params)?;
        Ok(self.task.clone().into_iter().fold(model, Model::with_task))
    }

    fn assemble(
        cpu: Cpu,
        spec: &NetSpec,
        layout: Layout,
        params: Vec<f32>,
        format: WeightFormat,
    ) -> Model {
        let weights = Weights::new(cpu.kernels, format);
        let spec = spec.clone();
        let (work, fingerprint) = Default::default();
        let model = Model {
            cpu,
            spec,
            layout,
            params,
            task: None,
            weights,
            format,
            work,
            fingerprint,
            #[cfg(feature = "flatten")]
            solver: OnceLock::new(),
        };
        model.packed()
    }

    fn packed(mut self) -> Model {
        self.weights = Weights::new(self.cpu.kernels, self.format);
        self.weights.set(
            &self.cpu.team,
            Way::Forward,
            true,
            &self.spec,
            &self.layout,
            Params::from(&self.params),
        );
        self
    }

    /// The same parameters without the delay: the output of step t + d is what this model answers for
    /// element t. It takes sequences piece by piece, from the states that a piece ended in; elements
    /// after the end are the caller's. Refused for a network in [`Blocks`](crate::Blocks), which
    /// begins its blocks one after another.
    pub fn without_delay(&self) -> Result<Model> {
        if self.spec.blocks().is_some() {
            return Err(Error::Spec("a network in blocks cannot do without its delay".into()));
        }
        let spec = NetSpecBuilder::from(self.spec.clone()).delay(0, Padding::Null).build()?;
        let (layout, params) = (Layout::new(&spec), self.params.clone());
        let model = Model::assemble(self.cpu.clone(), &spec, layout, params, self.format);
        Ok(self.task.clone().into_iter().fold(model, Model::with_task))
    }

    /// The same network with its matrices rounded to `format`, and run in it: weights of 16 bits are
    /// widened to f32 as they are read; int8 weights are multiplied by activations that are quantised to
    /// int8 at every step. Biases stay f32. From a model that is rounded already, nothing lost comes back.
    ///
    /// ```
    /// use drnn::{Cell, Model, NetSpec, WeightFormat};
    ///
    /// let spec = NetSpec::builder(Cell::Gru).dense(2).units([64]).outputs(1).build()?;
    /// let small = Model::init(&spec, 1)?.quantize(WeightFormat::Int8)?;
    /// assert_eq!(small.weight_format(), WeightFormat::Int8);
    /// assert!(small.to_bytes()?.len() < 17_000); // a quarter of what f32 takes
    /// # Ok::<(), drnn::Error>(())
    /// ```
    ///
    /// Refused where a weight is too large for the format, or a row of a matrix too long for int8.
    pub fn quantize(&self, format: WeightFormat) -> Result<Model> {
        let mut params = self.params.clone();
        format.round_params(&self.layout, &mut params)?;
        let (cpu, layout) = (self.cpu.clone(), self.layout.clone());
        let model = Model::assemble(cpu, &self.spec, layout, params, format);
        Ok(self.task.clone().into_iter().fold(model, Model::with_task))
    }

    /// The number format of its weights.
    pub fn weight_format(&self) -> WeightFormat {
        self.format
    }

    /// The same model on other threads or another instruction set.
    pub fn on(mut self, cpu: &Cpu) -> Model {
        self.cpu = cpu.clone();
        self.packed()
    }

    /// What a program needs to use the model, an alphabet or a scale for instance: any JSON, stored in
    /// the model file and not interpreted here.
    pub fn task(&self) -> Option<&serde_json::Value> {
        self.task.as_ref()
    }

    /// The same model with this [`Model::task`].
    pub fn with_task(mut self, task: serde_json::Value) -> Model {
        self.task = Some(task);
        self
    }

    /// What kind of network it is.
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// Names and places of its tensors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All parameters, flat.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// The parameters, given back.
    pub fn into_params(self) -> Vec<f32> {
        self.params
    }

    /// One tensor by its PyTorch name.
    pub fn tensor(&self, name: &str) -> Option<&[f32]> {
        self.layout.find(name).map(|t| &self.params[t.range.clone()])
    }

    pub(crate) fn net(&self) -> Net<'_> {
        Net::new(&self.cpu, &self.spec, &self.layout).with_format(self.format)
    }

    /// A hash of spec and parameters, by which snapshots recognise their network: of the bytes of
    /// [`NetSpec::canonical`], the format of its weights if it is not f32, and the bits of all parameters, by
    /// [`rotated_17`](crate::io::checksum::rotated_17).
    pub fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| match self.format {
            WeightFormat::F32 => self.hash_with(&self.spec.canonical()),
            format => self.hash_with(&format!("{}; weights {format}", self.spec.canonical())),
        })
    }

    /// The same as snapshots of version 0.1.0 have it.
    pub(crate) fn fingerprint_of_0_1(&self) -> u64 {
        self.hash_with(&self.spec.debug_of_0_1())
    }

    fn hash_with(&self, spec: &str) -> u64 {
        let params = self.params.iter().map(|x| x.to_bits());
        rotated_17(spec.bytes().map(u32::from).chain(params))
    }

    /// Runs a batch of whole sequences, from `start` or from zero states.
    pub fn run(&self, batch: &Batch, start: Option<&States>) -> Result<Outputs> {
        self.run_with(batch, start, false, |_| {})
    }

    /// The same with outputs written to the caller's memory, in the shape of [`Batch::output_shape`].
    /// Returns the last states.
    pub fn run_into(
        &self,
        batch: &Batch,
        start: Option<&States>,
        outputs: &mut [f32],
    ) -> Result<States> {
        check_shape("outputs", outputs.len(), &batch.output_shape(&self.spec))?;
        let target = Some(Shared(outputs.as_mut_ptr()));
        self.pass(batch, start, false, target, |work| work.last(&self.net()))
    }

    /// The same, showing the pass's memory to `look` at its end; with `save` it holds the states of every step.
    pub(crate) fn run_with(
        &self,
        batch: &Batch,
        start: Option<&States>,
        save: bool,
        look: impl FnOnce(&LaneWork),
    ) -> Result<Outputs> {
        self.pass(batch, start, save, None, |work| {
            let shape = batch.output_shape(&self.spec);
            let values = work.outputs.slice(shape.iter().product()).to_vec();
            look(work);
            Outputs { values, last: work.last(&self.net()), shape }
        })
    }

    /// A forward pass, and what `result` makes of its memory. Outputs go to `target`, if there is one,
    /// which is large enough for them.
    fn pass<T>(
        &self,
        batch: &Batch,
        start: Option<&States>,
        save: bool,
        target: Option<Shared>,
        result: impl FnOnce(&LaneWork) -> T,
    ) -> Result<T> {
        batch.check(&self.spec)?;
        if let Some(start) = start {
            start.check("start", &self.spec, batch.rows())?;
        }
        let runs = |row: usize| self.spec.output_steps(batch.length(row)) > 0;
        let solved = self.solved_start(start, batch.rows(), runs)?;
        let start = solved.as_ref().or(start);
        let lanes = [Lane { params: Params::from(&self.params), batch: *batch, start }];
        let mut work = self.work.take().unwrap_or_default();
        memory::probe_run(&self.spec, batch, save, || work.bytes().1)?;
        work.target = target;
        let works = core::slice::from_mut(&mut work);
        forward(&self.net(), &|_| &self.weights, &lanes, works, save);
        let result = result(&work);
        work.target = None;
        self.work.put(work);
        Ok(result)
    }

    /// Where the network's start is to be solved: the state to begin with. A sequence that does not run
    /// keeps the one it has.
    pub(crate) fn solved_start(
        &self,
        start: Option<&States>,
        rows: usize,
        runs: impl Fn(usize) -> bool,
    ) -> Result<Option<States>> {
        match self.spec.blocks() {
            Some(blocks) if blocks.start_state() == StartState::Solved => {
                #[cfg(feature = "flatten")]
                {
                    let zeros = States::zeros(&self.spec, if start.is_some() { 0 } else { rows });
                    solve_rows(self, start.unwrap_or(&zeros), rows, runs).map(Some)
                }
                #[cfg(not(feature = "flatten"))]
                {
                    let _ = (start, rows, runs);
                    let why = "a solved start needs drnn's feature `flatten`; a held one does not";
                    Err(crate::Error::Spec(why.into()))
                }
            }
            _ => Ok(None),
        }
    }
}

/// A model that a stream holds on to: `Model`, `&Model`, `Box<Model>`, `Rc<Model>` or `Arc<Model>`.
///
/// Sealed: a stream's memory fits the model it began with, so it must be the same one every time.
pub trait ModelRef: sealed::Sealed {
    /// The model.
    fn model(&self) -> &Model;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! model_ref {
    ($($holder:ty),*) => {$(
        impl sealed::Sealed for $holder {}
        impl ModelRef for $holder {
            fn model(&self) -> &Model {
                self
            }
        }
    )*};
}

model_ref!(Model, &Model, Box<Model>, Rc<Model>, Arc<Model>);

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Model({})", self.spec)
    }
}
