//! Forward and backward passes for `drnn.torch`, on NumPy views of torch's memory.
//!
//! A [`Recurrence`] is a network shape. Parameters come with every call, in one flat vector, so
//! nothing is ever out of date. [`Saved`] is what a forward pass saved for its backward pass:
//! memory from a pool, to which it returns when the backward pass is done or the graph is freed.

use drnn::{
    Batch, Cell, Cpu, Dropout, Error, Gradient, Lane, Model, NetSpec, Padding, Rows, States, Steps,
    Tape,
};
use numpy::{PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

create_exception!(_drnn, NotFinite, PyValueError, "NaN or infinity where drnn computes with none.");

/// Workspaces and models that a network shape holds on to for its next calls.
const MAX_POOLED: usize = 4;

type ReadF32<'py> = PyReadonlyArrayDyn<'py, f32>;
type WriteF32<'py> = PyReadwriteArrayDyn<'py, f32>;

fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::NotFinite { .. } => NotFinite::new_err(text),
        Error::TooLarge(_) => PyMemoryError::new_err(text),
        Error::Spec(_) | Error::Dropout { .. } | Error::Environment { .. } => {
            PyValueError::new_err(text)
        }
        _ => PyRuntimeError::new_err(text),
    }
}

/// The lock, also after a panic elsewhere: what it guards is valid at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The threads of this process, as many as the last call wanted. A forked process has none of its
/// parent's threads and begins its own.
fn cpu(threads: usize) -> PyResult<Cpu> {
    static CPU: Mutex<Option<(u32, Cpu)>> = Mutex::new(None);
    let mut held = lock(&CPU);
    let process = std::process::id();
    if let Some((of, cpu)) = &*held
        && *of == process
        && cpu.threads() == threads
    {
        return Ok(cpu.clone());
    }
    let new = Cpu::from_env().map_err(to_python)?.with_threads(threads);
    if let Some((of, old)) = held.replace((process, new.clone()))
        && of != process
    {
        mem::forget(old); // its threads are the parent's, and cannot be joined
    }
    Ok(new)
}

/// The sequences of a call, as the kernels read them.
#[derive(Default)]
struct Sequences {
    steps: usize,
    rows: usize,
    /// Of a packed batch.
    packed: Option<PackedBatch>,
}

/// torch's `PackedSequence`: rows by length, the longest first, step after step.
#[derive(Default)]
struct PackedBatch {
    sizes: Vec<usize>,
    lengths: Vec<usize>,
    /// Outputs in packed order.
    slots: Vec<u32>,
    /// (T, B, q); what follows a sequence's end is never read.
    x: Vec<f32>,
}

impl PackedBatch {
    fn new(spec: &NetSpec, sizes: &[i64], x: &[f32]) -> PyResult<PackedBatch> {
        let wrong = |why: &str| PyRuntimeError::new_err(format!("batch_sizes {why}"));
        let q = spec.input().width();
        let decreasing = sizes.windows(2).all(|pair| pair[0] >= pair[1]);
        if sizes.is_empty() || !decreasing || sizes.iter().any(|&size| size < 1) {
            return Err(wrong("must be positive and never increase"));
        }
        let sizes: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
        let total = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
        if total.and_then(|total| total.checked_mul(q)) != Some(x.len()) {
            return Err(wrong("must add up to the number of elements"));
        }
        let (steps, rows, ahead) = (sizes.len(), sizes[0], spec.look_ahead());
        if sizes.get(ahead) != Some(&rows) {
            return Err(PyRuntimeError::new_err(format!(
                "every sequence needs more than {ahead} elements: the last {ahead} are only looked \
                 at"
            )));
        }
        if steps.checked_mul(rows).is_none_or(|slots| slots >= u32::MAX as usize) {
            return Err(PyMemoryError::new_err(format!("{rows} sequences of {steps} steps")));
        }
        let mut lengths = vec![0; rows];
        let (mut slots, mut padded) = (Vec::new(), vec![0.0; steps * rows * q]);
        let mut from = x;
        for (t, &size) in sizes.iter().enumerate() {
            lengths[..size].fill(t + 1);
            if t >= ahead {
                let first = (t - ahead) * rows;
                slots.extend((first..first + size).map(|slot| slot as u32));
            }
            let (step, rest) = from.split_at(size * q);
            padded[t * rows * q..][..size * q].copy_from_slice(step);
            from = rest;
        }
        Ok(PackedBatch { sizes, lengths, slots, x: padded })
    }
}

impl Sequences {
    fn new(spec: &NetSpec, x: &ReadF32, sizes: Option<&[i64]>) -> PyResult<Sequences> {
        let values = x.as_slice()?;
        match (sizes, x.shape()) {
            (Some(sizes), [_, _]) => {
                let packed = PackedBatch::new(spec, sizes, values)?;
                let (steps, rows) = (packed.sizes.len(), packed.lengths.len());
                Ok(Sequences { steps, rows, packed: Some(packed) })
            }
            (None, &[steps, rows, _]) if steps > spec.look_ahead() => {
                Ok(Sequences { steps, rows, packed: None })
            }
            (None, &[steps, _, _]) => Err(PyRuntimeError::new_err(format!(
                "{steps} elements, expected more than {}: the last are only looked at",
                spec.look_ahead()
            ))),
            _ => Err(PyRuntimeError::new_err("x has shape (T, B, q), or packed (N, q)")),
        }
    }

    fn batch<'a>(&'a self, x: &'a [f32]) -> Batch<'a> {
        let (steps, rows) = (Steps(self.steps), Rows(self.rows));
        match &self.packed {
            None => Batch::dense(x, steps, rows),
            Some(packed) => {
                let batch = Batch::dense(&packed.x, steps, rows).lengths(&packed.lengths);
                batch.select_outputs(&packed.slots)
            }
        }
    }
}

/// Memory of a pass.
struct Work {
    tape: Tape,
    cpu: (u32, usize),
    sequences: Sequences,
    start: States,
    last: States,
    d_last: States,
    d_start: States,
    /// Gradient of packed input before it is packed.
    d_x: Vec<f32>,
}

/// What calls share: a spec, and memory for the next ones.
struct Shape {
    spec: NetSpec,
    work: Mutex<Vec<Work>>,
    models: Mutex<Vec<((u32, usize), Model)>>,
}

impl Shape {
    /// Memory of an earlier pass on the same threads, or new.
    fn work(&self, threads: usize) -> PyResult<Work> {
        let on = (std::process::id(), threads);
        let mut pool = lock(&self.work);
        if let Some(at) = pool.iter().position(|work| work.cpu == on) {
            return Ok(pool.swap_remove(at));
        }
        let tape = Tape::on(&cpu(threads)?, &self.spec);
        let [start, last, d_last, d_start] = Default::default();
        let sequences = Sequences::default();
        Ok(Work { tape, cpu: on, sequences, start, last, d_last, d_start, d_x: Vec::new() })
    }

    fn give_back(&self, work: Work) {
        give_back(&self.work, work, |work| work.cpu.0);
    }
}

/// Puts `value` into a pool. What a forked process has of its parent's is leaked: it waits for
/// threads that do not exist.
fn give_back<T>(pool: &Mutex<Vec<T>>, value: T, process: impl Fn(&T) -> u32) {
    let mut pool = lock(pool);
    let here = std::process::id();
    let (own, parents) = mem::take(&mut *pool).into_iter().partition(|v| process(v) == here);
    *pool = own;
    mem::forget::<Vec<T>>(parents);
    if process(&value) != here {
        mem::forget(value);
    } else {
        if pool.len() == MAX_POOLED {
            pool.remove(0);
        }
        pool.push(value);
    }
}

fn set_states(states: &mut States, h: &ReadF32, c: Option<&ReadF32>) -> PyResult<()> {
    states.h.clear();
    states.h.extend_from_slice(h.as_slice()?);
    states.c.clear();
    if let Some(c) = c {
        states.c.extend_from_slice(c.as_slice()?);
    }
    Ok(())
}

/// Copies into memory of torch's, which the caller made as large as the result.
fn write(name: &str, to: &mut [f32], from: &[f32]) -> PyResult<()> {
    if to.len() != from.len() {
        let (found, expected) = (to.len(), from.len());
        return Err(PyRuntimeError::new_err(format!("{name}: {found} values, not {expected}")));
    }
    to.copy_from_slice(from);
    Ok(())
}

/// A stack of recurrent layers without its parameters.
#[pyclass(frozen, module = "drnn._drnn")]
struct Recurrence(Arc<Shape>);

#[pymethods]
impl Recurrence {
    #[new]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn new(
        cell: &str,
        input_size: usize,
        hidden_size: usize,
        num_layers: usize,
        bidirectional: bool,
        proj_size: usize,
        delay: usize,
        look_ahead: bool,
    ) -> PyResult<Recurrence> {
        let cell = match cell {
            "LSTM" => Cell::Lstm,
            "GRU" => Cell::Gru,
            "RNN_TANH" => Cell::RnnTanh,
            "RNN_RELU" => Cell::RnnRelu,
            _ => return Err(PyValueError::new_err(format!("no cell `{cell}`"))),
        };
        if num_layers > 1000 {
            return Err(PyValueError::new_err(format!("{num_layers} layers (at most 1000)")));
        }
        let builder = NetSpec::builder(cell).dense(input_size).units(vec![hidden_size; num_layers]);
        let builder = if bidirectional { builder.bidirectional() } else { builder };
        let builder = if proj_size > 0 { builder.projection(proj_size) } else { builder };
        let padding = if look_ahead { Padding::LookAhead } else { Padding::Null };
        let builder = if delay > 0 { builder.delay(delay, padding) } else { builder };
        let spec = builder.build().map_err(to_python)?;
        let (work, models) = Default::default();
        Ok(Recurrence(Arc::new(Shape { spec, work, models })))
    }

    /// Length of the flat vector of parameters: weights and both biases, in PyTorch's order.
    #[getter]
    fn parameters(&self) -> usize {
        self.0.spec.parameters()
    }

    /// Bytes in the pool, between calls.
    #[getter]
    fn pooled(&self) -> usize {
        let bytes = |work: &Work| {
            let memory = work.tape.memory();
            memory.saved + memory.extra + memory.fixed
        };
        lock(&self.0.work).iter().map(bytes).sum()
    }

    /// Frees the pool.
    fn clear(&self) {
        for work in mem::take(&mut *lock(&self.0.work)) {
            if work.cpu.0 != std::process::id() {
                mem::forget(work);
            }
        }
        for model in mem::take(&mut *lock(&self.0.models)) {
            if model.0.0 != std::process::id() {
                mem::forget(model);
            }
        }
    }

    /// A forward pass without a backward pass.
    #[pyo3(signature = (threads, params, x, h0, c0, sizes, outputs, h, c))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn run(
        &self,
        py: Python,
        threads: usize,
        params: ReadF32,
        x: ReadF32,
        h0: ReadF32,
        c0: Option<ReadF32>,
        sizes: Option<PyReadonlyArrayDyn<i64>>,
        mut outputs: WriteF32,
        mut h: WriteF32,
        mut c: Option<WriteF32>,
    ) -> PyResult<()> {
        let shape = &*self.0;
        let sizes = sizes.as_ref().map(|sizes| sizes.as_slice()).transpose()?;
        let sequences = Sequences::new(&shape.spec, &x, sizes)?;
        let mut start = States::default();
        set_states(&mut start, &h0, c0.as_ref())?;
        let (params, x, outputs) = (params.as_slice()?, x.as_slice()?, outputs.as_slice_mut()?);
        let (h, c) = (h.as_slice_mut()?, c.as_mut().map(|c| c.as_slice_mut()).transpose()?);
        py.detach(|| {
            let on = (std::process::id(), threads);
            // One that was packed from the same parameters, or any.
            let pooled = {
                let mut pool = lock(&shape.models);
                let same = pool.iter().position(|(of, m)| *of == on && m.params() == params);
                let any = || pool.iter().position(|(of, _)| *of == on);
                same.or_else(any).map(|at| pool.swap_remove(at).1)
            };
            let model = match pooled {
                Some(model) if model.params() == params => model,
                Some(mut model) => {
                    model.set_params(params).map_err(to_python)?;
                    model
                }
                None => {
                    let model = Model::from_params(&shape.spec, params.to_vec());
                    model.map_err(to_python)?.on(&cpu(threads)?)
                }
            };
            let found = model.run(&sequences.batch(x), Some(&start)).map_err(to_python);
            give_back(&shape.models, (on, model), |(of, _)| of.0);
            let found = found?;
            write("outputs", outputs, &found.values)?;
            write("h", h, &found.last.h)?;
            c.map_or(Ok(()), |c| write("c", c, &found.last.c))
        })
    }

    /// A forward pass that can go back. With a dropout rate above 0, factors between layers follow
    /// from `seed`.
    #[pyo3(signature = (threads, params, x, h0, c0, sizes, dropout, seed, outputs, h, c))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn forward(
        &self,
        py: Python,
        threads: usize,
        params: ReadF32,
        x: ReadF32,
        h0: ReadF32,
        c0: Option<ReadF32>,
        sizes: Option<PyReadonlyArrayDyn<i64>>,
        dropout: f32,
        seed: u64,
        mut outputs: WriteF32,
        mut h: WriteF32,
        mut c: Option<WriteF32>,
    ) -> PyResult<Saved> {
        let shape = &self.0;
        let sizes = sizes.as_ref().map(|sizes| sizes.as_slice()).transpose()?;
        let sequences = Sequences::new(&shape.spec, &x, sizes)?;
        let dropout = match dropout > 0.0 {
            true => Some(Dropout::new(dropout, seed).map_err(to_python)?.between_layers()),
            false => None,
        };
        let mut work = shape.work(threads)?;
        work.sequences = sequences;
        set_states(&mut work.start, &h0, c0.as_ref())?;
        let (params, x, outputs) = (params.as_slice()?, x.as_slice()?, outputs.as_slice_mut()?);
        let (h, c) = (h.as_slice_mut()?, c.as_mut().map(|c| c.as_slice_mut()).transpose()?);
        let result = py.detach(|| work.forward(params, x, dropout, outputs, h, c));
        match result {
            Ok(()) => Ok(Saved { shape: shape.clone(), work: Mutex::new(Some(work)) }),
            Err(error) => {
                shape.give_back(work);
                Err(error)
            }
        }
    }
}

impl Work {
    fn forward(
        &mut self,
        params: &[f32],
        x: &[f32],
        dropout: Option<Dropout>,
        outputs: &mut [f32],
        h: &mut [f32],
        c: Option<&mut [f32]>,
    ) -> PyResult<()> {
        let Work { tape, sequences, start, last, .. } = self;
        let lanes = [Lane { params, batch: sequences.batch(x), start: Some(start) }];
        let pass = match dropout {
            Some(dropout) => tape.forward_with_dropout(&lanes, &[dropout]),
            None => tape.forward(&lanes),
        };
        let pass = pass.map_err(to_python)?;
        write("outputs", outputs, pass.outputs(0))?;
        pass.last_into(0, last);
        write("h", h, &last.h)?;
        c.map_or(Ok(()), |c| write("c", c, &last.c))
    }

    fn backward(
        &mut self,
        params: &[f32],
        x: &[f32],
        d_outputs: &[f32],
        d_params: &mut [f32],
        d_x: Option<&mut [f32]>,
    ) -> PyResult<()> {
        let Work { tape, sequences, start, d_last, d_start, d_x: padded, .. } = self;
        let (d_h, d_c) = (start.h.len(), start.c.len());
        d_start.h.resize(d_h, 0.0);
        d_start.c.resize(d_c, 0.0);
        let lanes = [Lane { params, batch: sequences.batch(x), start: Some(start) }];
        let (input, packed) = match (&sequences.packed, d_x) {
            (Some(packed), Some(d_x)) => {
                padded.resize(packed.x.len(), 0.0);
                (Some(&mut **padded), Some((packed, d_x)))
            }
            (_, d_x) => (d_x, None),
        };
        let pass = tape.resume(&lanes).map_err(to_python)?;
        pass.backward(&mut [Gradient {
            outputs: d_outputs,
            last: Some(d_last),
            params: d_params,
            input,
            start: Some(d_start),
        }])
        .map_err(to_python)?;
        if let Some((packed, d_x)) = packed {
            let (q, rows) = (padded.len() / (packed.sizes.len() * sequences.rows), sequences.rows);
            let mut to = d_x;
            for (t, &size) in packed.sizes.iter().enumerate() {
                let (step, rest) = mem::take(&mut to).split_at_mut(size * q);
                step.copy_from_slice(&padded[t * rows * q..][..size * q]);
                to = rest;
            }
        }
        Ok(())
    }
}

/// A forward pass that can go back, once.
#[pyclass(frozen, module = "drnn._drnn")]
struct Saved {
    shape: Arc<Shape>,
    work: Mutex<Option<Work>>,
}

#[pymethods]
impl Saved {
    /// Runs backward, into the arrays given. False, and nothing written, if this pass has gone back
    /// already.
    #[pyo3(signature = (params, x, d_outputs, d_h, d_c, d_params, d_x, d_h0, d_c0))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn backward(
        &self,
        py: Python,
        params: ReadF32,
        x: ReadF32,
        d_outputs: ReadF32,
        d_h: ReadF32,
        d_c: Option<ReadF32>,
        mut d_params: WriteF32,
        mut d_x: Option<WriteF32>,
        mut d_h0: WriteF32,
        mut d_c0: Option<WriteF32>,
    ) -> PyResult<bool> {
        let Some(mut work) = lock(&self.work).take() else { return Ok(false) };
        let mut run = || {
            set_states(&mut work.d_last, &d_h, d_c.as_ref())?;
            let (params, x) = (params.as_slice()?, x.as_slice()?);
            let (d_outputs, d_params) = (d_outputs.as_slice()?, d_params.as_slice_mut()?);
            let d_x = d_x.as_mut().map(|d_x| d_x.as_slice_mut()).transpose()?;
            if d_x.as_ref().is_some_and(|d_x| d_x.len() != x.len()) {
                return Err(PyRuntimeError::new_err("d_x has another shape than x"));
            }
            py.detach(|| work.backward(params, x, d_outputs, d_params, d_x))?;
            write("d_h0", d_h0.as_slice_mut()?, &work.d_start.h)?;
            match &mut d_c0 {
                Some(d_c0) => write("d_c0", d_c0.as_slice_mut()?, &work.d_start.c),
                None => Ok(()),
            }
        };
        let result = run();
        self.shape.give_back(work);
        result.map(|()| true)
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Some(work) = lock(&self.work).take() {
            self.shape.give_back(work);
        }
    }
}

/// Adds the classes of this module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("NotFinite", m.py().get_type::<NotFinite>())?;
    m.add_class::<Recurrence>()?;
    m.add_class::<Saved>()
}
