//! Runs trained networks on a GPU: whole sequences, from given states.
//!
//! ```text
//! x_s = E token_s, or the vector given; zeros or the padding symbol after the end
//! h_s = recurrence(x_s, h_{s-1})             all steps and layers of equal width: Recurrence
//! y_t = W h_{t+d} + b                        all outputs, or the selected ones
//! ```
//!
//! A batch whose arrays do not fit in free device memory runs in parts, some sequences at a time.
//!
//! | file | what |
//! |---|---|
//! | `part` | the sequences that run at once: inputs, lengths, states and outputs on the host |
//! | `arrays` | their arrays in device memory |
//! | `executed` | tests: executed on the CPU, compared with `drnn` |

mod arrays;
#[cfg(test)]
mod executed;
mod part;

use crate::error::{Error, Result};
use crate::kernels::params::{AddOutputBias, Embed, Gather, ptr, size};
use crate::kernels::{Kernels, RowKernels};
use crate::recurrence::{
    ForwardArguments, LayerArrays, Lengths, Recurrence, RecurrenceOptions, RecurrenceSpec,
};
use crate::runtime::device::Device;
use crate::runtime::gemm::{Form, Gemm, Matrix, Precision};
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use crate::step::pass::{THREADS, matrix};
use crate::step::plan::Plan;
use arrays::Arrays;
use drnn::{
    Batch, Direction, InputSpec, Model, NetSpec, NetSpecBuilder, Outputs, Padding, States,
    WeightFormat,
};
use drnn_tasks::Runner;
use part::{Part, Results};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A trained network in device memory, which runs batches of whole sequences as
/// [`drnn::Model::run`] does on the CPU: delay, padding, lengths, start states and selected outputs
/// included. Refuses the networks that a GPU cannot train, which run on the CPU only.
#[derive(Debug)]
pub struct CudaModel {
    plan: Plan,
    stacks: Vec<Stack>,
    precision: Precision,
    params: Arc<Buffer<f32>>,
    /// One batch at a time.
    running: Mutex<Running>,
    device: Device,
}

/// Consecutive layers of equal width, which one [`Recurrence`] runs.
#[derive(Debug, Clone)]
struct Stack {
    layers: Range<usize>,
    spec: RecurrenceSpec,
}

/// What a batch runs with. The memory is that of the largest part so far.
#[derive(Debug)]
struct Running {
    gemm: Gemm,
    stream: Stream,
    memory: Option<Buffer<u8>>,
}

/// Steps times rows of a batch that are worth waiting for.
const MAX_BATCH_SLOTS: usize = 1 << 18;

impl CudaModel {
    /// Copies a model's parameters to the device. [`Precision::F16`] selects the kernels that run
    /// all steps in one launch, where there are some.
    ///
    /// Weights of f16 and bf16 are computed with as on the CPU. int8 is refused: there states and
    /// inputs are rounded to int8 too, at every step, and without that the outputs would be others.
    pub fn new(device: &Device, model: &Model, precision: Precision) -> Result<CudaModel> {
        if model.weight_format() == WeightFormat::Int8 {
            return Err(Error::Unsupported(
                "models with int8 weights run on the CPU only; a GPU runs the model that they were \
                 quantised from"
                    .into(),
            ));
        }
        device.enter()?;
        let params = Arc::new(Buffer::from(device, model.params())?);
        CudaModel::with_params(device, model.spec(), params, precision)
    }

    fn with_params(
        device: &Device,
        spec: &NetSpec,
        params: Arc<Buffer<f32>>,
        precision: Precision,
    ) -> Result<CudaModel> {
        let plan = Plan::new(spec).map_err(Error::Unsupported)?;
        let stream = Stream::new(device)?;
        let gemm = Gemm::new(device, &stream, precision)?;
        let running = Mutex::new(Running { gemm, stream, memory: None });
        let (stacks, device) = (stacks(&plan), device.clone());
        Ok(CudaModel { plan, stacks, precision, params, running, device })
    }

    fn run_batch(&self, batch: &Batch, start: Option<&States>) -> drnn_tasks::Result<Outputs> {
        let spec = &self.plan.spec;
        batch.check(spec)?;
        if let Some(start) = start {
            start.check("start", spec, batch.rows())?;
        }
        let mut results = Results::new(spec, batch, start);
        let computed = self.run_parts(batch, start, &mut results);
        computed.map_err(|error| drnn_tasks::Error::Device(error.to_string()))?;
        Ok(Outputs::new(results.values, results.last, batch.output_shape(spec))?)
    }

    fn run_parts(
        &self,
        batch: &Batch,
        start: Option<&States>,
        results: &mut Results,
    ) -> Result<()> {
        self.device.enter()?;
        let running = &mut *self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let rows = batch.rows();
        let mut at_once = rows;
        let mut first = 0;
        while first < rows {
            let part =
                Part::new(&self.plan, batch, first..rows.min(first + at_once)).starting(start);
            if part.shape.step_rows() == 0 {
                first = part.rows.end;
                continue; // too short for an output: states stay as they are
            }
            match self.reserve(&part, running)? {
                None if part.rows.len() == 1 => return Err(Error::OutOfMemory),
                None => at_once = part.rows.len().div_ceil(2),
                Some((planned, arrays)) => {
                    part.send(&self.plan, start, &arrays)?;
                    self.submit(&part, &planned, &arrays, running)?;
                    running.stream.synchronize()?;
                    part.receive(&self.plan, &arrays, results)?;
                    first = part.rows.end;
                }
            }
        }
        Ok(())
    }

    /// Plans a part and places its arrays. `None` if there is no memory for it.
    fn reserve(
        &self,
        part: &Part,
        running: &mut Running,
    ) -> Result<Option<(Vec<Recurrence>, Arrays)>> {
        let format = Default::default();
        let options = RecurrenceOptions { format, precision: self.precision, training: false };
        let sizes = [part.shape.steps, part.shape.rows];
        let plan = |stack: &Stack| Recurrence::plan(&self.device, stack.spec, sizes, options);
        let plan_all = |()| self.stacks.iter().map(plan).collect::<Result<Vec<_>>>();
        let planned = match self.plan.check_batch(sizes[0], sizes[1]).and_then(plan_all) {
            Ok(planned) => planned,
            // More than 32-bit indices reach.
            Err(Error::Unsupported(_)) if part.rows.len() > 1 => return Ok(None),
            Err(error) => return Err(error),
        };
        let place = |base| Arrays::place(&self.device, &self.plan, part, &planned, base);
        let (bytes, _) = place(None)?;
        if running.memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            running.memory = None;
            if bytes > self.device.free_memory()? / 10 * 9 {
                return Ok(None);
            }
            running.memory = Some(Buffer::zeros(&self.device, bytes)?);
        }
        let base = running.memory.as_ref().map(|memory| memory.at(0));
        let (_, arrays) = place(base)?;
        Ok(Some((planned, arrays)))
    }

    /// Submits everything from the inputs to the outputs.
    fn submit(
        &self,
        part: &Part,
        planned: &[Recurrence],
        arrays: &Arrays,
        running: &Running,
    ) -> Result<()> {
        let (kernels, stream) = (self.device.kernels()?, &running.stream);
        self.embed(part, arrays, kernels, stream)?;
        let mut below = arrays.x.at(0);
        for (number, (stack, recurrence)) in self.stacks.iter().zip(planned).enumerate() {
            let y = arrays.y[number % 2].at(0);
            let states = |of: &Buffer<f32>, exist: bool| match exist {
                true => of.at(part.states_before(&self.plan, stack.layers.start)),
                false => 0,
            };
            let (c, given) = (self.plan.cell.has_cell_state(), part.has_start);
            let call = ForwardArguments {
                x: below,
                parameters: &self.parameters(&stack.layers),
                h0: states(&arrays.first[0], given),
                c0: states(&arrays.first[1], given && c),
                lengths: Lengths::I32(arrays.run.at(0)),
                y,
                h_n: states(&arrays.last[0], true),
                c_n: states(&arrays.last[1], c),
                saved: 0,
                workspace: arrays.workspace.at(0),
            };
            // SAFETY: `Arrays` has placed arrays of these sizes, and they live until the caller has
            // synchronised.
            unsafe { recurrence.forward(stream.raw().cast(), &call)? };
            below = y;
        }
        self.outputs(part, below, arrays, kernels, running)
    }

    fn parameters(&self, layers: &Range<usize>) -> Vec<LayerArrays> {
        let recurrences = self.plan.layers[layers.clone()].iter().flatten();
        LayerArrays::in_vector(recurrences, |place| self.params.at(place))
    }

    /// Looks up the embeddings of tokens.
    fn embed(
        &self,
        part: &Part,
        arrays: &Arrays,
        kernels: &Kernels,
        stream: &Stream,
    ) -> Result<()> {
        let InputSpec::Tokens { embedding, .. } = self.plan.spec.input() else { return Ok(()) };
        let slots = part.shape.step_rows();
        let params = Embed {
            tokens: ptr(arrays.tokens.at(0)),
            table: ptr(self.params.at(0)), // embeddings are the first parameters
            x: ptr(arrays.x.at(0)),
            slots: size(slots),
            e: size(embedding),
        };
        let blocks = (slots * embedding).div_ceil(THREADS);
        // SAFETY: the arrays have a place for every slot; tokens are symbols or NONE.
        unsafe { kernels.embed.launch(stream, [blocks, 1], THREADS, &params) }
    }

    /// Outputs from the states `h` (S, B, width) of the last layer.
    fn outputs(
        &self,
        part: &Part,
        h: u64,
        arrays: &Arrays,
        kernels: &Kernels,
        running: &Running,
    ) -> Result<()> {
        let (spec, count) = (&self.plan.spec, part.outputs());
        let (width, m) = (spec.hidden_width(), spec.output_width());
        if count == 0 {
            return Ok(());
        }
        let first = (spec.delay() * part.shape.rows * width * size_of::<f32>()) as u64;
        let mut from = h + first;
        if part.selected.is_some() {
            let RowKernels::F32 { gather, .. } = &kernels.rows else {
                unreachable!("the kernels of f32 rows")
            };
            let (places, to) = (ptr(arrays.places.at(0)), ptr(arrays.chosen.at(0)));
            let (count, width) = (size(count), size(width));
            let params = Gather { h: ptr(h), places, to, count, width };
            let blocks = arrays.chosen.len().div_ceil(THREADS);
            // SAFETY: places are rows of h; as many as are selected fit.
            unsafe { gather.launch(&running.stream, [blocks, 1], THREADS, &params)? };
            from = arrays.chosen.at(0);
        }
        let Some([weight, bias]) = self.plan.output else {
            let bytes = count * width * size_of::<f32>();
            return running.stream.copy_within(from, arrays.outputs.at(0), bytes);
        };
        let factors = [Matrix { at: from, stride: width }, matrix(&self.params, weight, width)];
        let to = matrix(&arrays.outputs, 0, m);
        running.gemm.f32(Form::TimesTransposed, [count, m, width], factors, 0.0, to)?;
        // Selected outputs are rows of a single step, and all exist.
        let (run, delay, rows) = match part.selected {
            Some(_) => (&arrays.exist, 0, count),
            None => (&arrays.run, spec.delay(), part.shape.rows),
        };
        let params = AddOutputBias {
            outputs: ptr(to.at),
            bias: ptr(self.params.at(bias)),
            run: ptr(run.at(0)),
            delay: size(delay),
            rows: size(rows),
            positions: size(count),
            m: size(m),
        };
        let blocks = (count * m).div_ceil(THREADS);
        // SAFETY: the outputs are (count, m), and there is a word of `run` for each row.
        unsafe { kernels.add_output_bias.launch(&running.stream, [blocks, 1], THREADS, &params) }
    }
}

impl Runner for CudaModel {
    fn spec(&self) -> &NetSpec {
        &self.plan.spec
    }

    fn run(&self, batch: &Batch, start: Option<&States>) -> drnn_tasks::Result<Outputs> {
        self.run_batch(batch, start)
    }

    fn without_delay(&self) -> drnn_tasks::Result<Box<dyn Runner + '_>> {
        let builder = NetSpecBuilder::from(self.plan.spec.clone());
        let spec = builder.delay(0, Padding::Null).build()?;
        let params = self.params.clone();
        CudaModel::with_params(&self.device, &spec, params, self.precision)
            .map(|model| Box::new(model) as Box<dyn Runner>)
            .map_err(|error| drnn_tasks::Error::Device(error.to_string()))
    }

    fn max_batch_slots(&self) -> usize {
        MAX_BATCH_SLOTS
    }
}

/// The layers of a network by equal width.
fn stacks(plan: &Plan) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = Vec::new();
    for (layer, directions) in plan.layers.iter().enumerate() {
        let (units, inputs) = (directions[0].n, directions[0].inputs);
        match stacks.last_mut() {
            Some(stack) if stack.spec.units == units => {
                stack.layers.end += 1;
                stack.spec.layers += 1;
            }
            _ => {
                let bidirectional = plan.spec.direction() == Direction::Bidirectional;
                let (cell, layers) = (plan.cell, 1);
                let spec = RecurrenceSpec { cell, inputs, units, layers, bidirectional };
                stacks.push(Stack { layers: layer..layer + 1, spec });
            }
        }
    }
    stacks
}
