//! Forward and backward passes for `drnn.torch`, on NumPy views of torch's memory.
//!
//! A [`Recurrence`] is a network shape. Parameters come with every call, as torch's tensors are, so
//! nothing is ever out of date. A call computes one network, or several of one shape together
//! (lanes), whose tensors have an axis of lanes in front. [`Saved`] is what a forward pass saved for
//! its backward pass: memory from a pool, to which it returns when the backward pass is done or the
//! graph is freed.

mod pool;
mod sequences;
mod work;

use drnn::{Blocks, Cell, Dropout, Error, Model, NetSpec, Padding};
use numpy::{PyArray1, PyReadonlyArrayDyn, PyReadwriteArrayDyn};
use pool::{Owner, Pool, Shape, cpu, lock};
use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sequences::Sequences;
use std::sync::{Arc, Mutex};
use work::{Gradients, Results, Weights, Work, set_states, write};

create_exception!(_drnn, NotFinite, PyValueError, "NaN or infinity where drnn computes with none.");

type ReadF32<'py> = PyReadonlyArrayDyn<'py, f32>;
type WriteF32<'py> = PyReadwriteArrayDyn<'py, f32>;

fn to_python(error: Error) -> PyErr {
    let text = error.to_string();
    let cause = match error {
        Error::Lane { error, .. } => *error,
        error => error,
    };
    match cause {
        Error::NotFinite { .. } => NotFinite::new_err(text),
        Error::TooLarge(_) => PyMemoryError::new_err(text),
        Error::Spec(_) | Error::Dropout { .. } | Error::Environment { .. } => {
            PyValueError::new_err(text)
        }
        _ => PyRuntimeError::new_err(text),
    }
}

/// What a pass reads.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Inputs<'py> {
    /// Number of networks.
    lanes: usize,
    /// Weights and both biases of every layer, in PyTorch's order, each of all lanes.
    weights: Vec<ReadF32<'py>>,
    /// (T, B, q), or packed (N, q), of all lanes or of each.
    x: ReadF32<'py>,
    h0: ReadF32<'py>,
    /// Of LSTMs.
    c0: Option<ReadF32<'py>>,
    /// `batch_sizes` of a packed batch.
    sizes: Option<PyReadonlyArrayDyn<'py, i64>>,
}

/// The values of all weights, each of all lanes.
fn values<'a>(weights: &'a [ReadF32], lanes: usize, spec: &NetSpec) -> PyResult<Vec<&'a [f32]>> {
    let weights: Vec<&[f32]> =
        weights.iter().map(|weight| weight.as_slice()).collect::<Result<_, _>>()?;
    let found: usize = weights.iter().map(|weight| weight.len()).sum();
    let expected = spec.parameters().checked_mul(lanes);
    if lanes == 0 || expected != Some(found) {
        return Err(PyRuntimeError::new_err(format!(
            "{found} parameters, expected {} for each of {lanes} lanes",
            spec.parameters(),
        )));
    }
    Ok(weights)
}

impl Inputs<'_> {
    fn weights(&self, spec: &NetSpec) -> PyResult<Vec<&[f32]>> {
        values(&self.weights, self.lanes, spec)
    }

    fn sequences(&self, spec: &NetSpec) -> PyResult<Sequences> {
        let sizes = self.sizes.as_ref().map(|sizes| sizes.as_slice()).transpose()?;
        Sequences::new(spec, &self.x, sizes, self.lanes)
    }
}

/// Arrays that a forward pass fills.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Outputs<'py> {
    outputs: WriteF32<'py>,
    h: WriteF32<'py>,
    c: Option<WriteF32<'py>>,
}

impl Outputs<'_> {
    fn results(&mut self) -> PyResult<Results<'_>> {
        Ok(Results {
            outputs: self.outputs.as_slice_mut()?,
            h: self.h.as_slice_mut()?,
            c: self.c.as_mut().map(|c| c.as_slice_mut()).transpose()?,
        })
    }
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
        connections: &str,
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
        let widths = vec![hidden_size; num_layers];
        let builder = NetSpec::builder(cell).dense(input_size);
        let builder = match connections {
            "" => builder.units(widths),
            text => {
                let connections = text.parse().map_err(to_python)?;
                builder.blocks(Blocks::new(widths).connections(connections))
            }
        };
        let builder = if bidirectional { builder.bidirectional() } else { builder };
        let builder = if proj_size > 0 { builder.projection(proj_size) } else { builder };
        let padding = if look_ahead { Padding::LookAhead } else { Padding::Null };
        let builder = if delay > 0 { builder.delay(delay, padding) } else { builder };
        let spec = builder.build().map_err(to_python)?;
        Ok(Recurrence(Arc::new(Shape { spec, work: Pool::default(), models: Pool::default() })))
    }

    /// Number of parameters: weights and both biases.
    #[getter]
    fn parameters(&self) -> usize {
        self.0.spec.parameters()
    }

    /// Which of them training may change: not those that blocks keep at zero.
    fn free_mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_vec(py, self.0.spec.free_mask())
    }

    /// Bytes in the pool, between calls.
    #[getter]
    fn pooled(&self) -> usize {
        self.0.work.sum(Work::bytes)
    }

    /// Frees the pool.
    fn clear(&self) {
        self.0.work.clear();
        self.0.models.clear();
    }

    /// A forward pass of one network without a backward pass.
    fn run(
        &self,
        py: Python,
        threads: usize,
        inputs: Inputs,
        mut outputs: Outputs,
    ) -> PyResult<()> {
        let shape = &*self.0;
        let weights = inputs.weights(&shape.spec)?;
        let mut sequences = inputs.sequences(&shape.spec)?;
        if sequences.lanes() != 1 {
            return Err(PyRuntimeError::new_err("run computes one network"));
        }
        let mut start = Vec::new();
        set_states(&mut start, 1, &inputs.h0, inputs.c0.as_ref())?;
        let (x, results) = (inputs.x.as_slice()?, outputs.results()?);
        sequences.unpack(shape.spec.input().width(), x, Vec::new());
        py.detach(|| {
            let owner = (std::process::id(), threads);
            // One that was packed from the same parameters, or any.
            let same = |model: &Model| {
                let mut rest = model.params();
                weights.iter().all(|weight| match rest.split_at_checked(weight.len()) {
                    Some((own, others)) => {
                        rest = others;
                        own == *weight
                    }
                    None => false,
                })
            };
            let model = match shape.models.take(threads, same) {
                Some(model) if same(&model) => model,
                Some(mut model) => {
                    model.set_params(&weights.concat()).map_err(to_python)?;
                    model
                }
                None => {
                    let model = Model::from_params(&shape.spec, weights.concat());
                    model.map_err(to_python)?.on(&cpu(threads)?)
                }
            };
            let last = model.run_into(&sequences.batch(x, 0), start.first(), results.outputs);
            shape.models.give_back(owner, model);
            let last = last.map_err(to_python)?;
            write("h", results.h, &last.h)?;
            results.c.map_or(Ok(()), |c| write("c", c, &last.c))
        })
    }

    /// A forward pass that can go back. With a dropout rate above 0, factors between layers follow
    /// from `seeds`, one for each lane.
    fn forward(
        &self,
        py: Python,
        threads: usize,
        inputs: Inputs,
        dropout: f32,
        seeds: Vec<u64>,
        mut outputs: Outputs,
    ) -> PyResult<Saved> {
        let shape = &self.0;
        let weights = inputs.weights(&shape.spec)?;
        let sequences = inputs.sequences(&shape.spec)?;
        let dropout = match dropout > 0.0 {
            true => seeds
                .iter()
                .map(|&seed| Ok(Dropout::new(dropout, seed)?.between_layers()))
                .collect(),
            false => Ok(Vec::new()),
        };
        let dropout: Vec<Dropout> = dropout.map_err(to_python)?;
        let owner = (std::process::id(), threads);
        let mut work = match shape.work.take(threads, |_| true) {
            Some(work) => work,
            None => Work::new(&shape.spec, threads)?,
        };
        let run = || {
            let Inputs { x, h0, c0, .. } = &inputs;
            work.set_input(sequences, x, h0, c0.as_ref())?;
            let (x, results) = (x.as_slice()?, outputs.results()?);
            let weights = Weights::new(&weights, inputs.lanes);
            py.detach(|| work.forward(x, &weights, &dropout, results))
        };
        match run() {
            Ok(()) => Ok(Saved { shape: shape.clone(), owner, work: Mutex::new(Some(work)) }),
            Err(error) => {
                shape.work.give_back(owner, work);
                Err(error)
            }
        }
    }
}

/// A forward pass that can go back, once.
#[pyclass(frozen, module = "drnn._drnn")]
struct Saved {
    shape: Arc<Shape>,
    owner: Owner,
    work: Mutex<Option<Work>>,
}

#[pymethods]
impl Saved {
    /// Runs backward, into the arrays given. False, and nothing written, if this pass has gone back
    /// already or had another number of lanes.
    #[pyo3(signature = (lanes, weights, x, d_outputs, d_h, d_c, d_params, d_x, d_h0, d_c0))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn backward(
        &self,
        py: Python,
        lanes: usize,
        weights: Vec<ReadF32>,
        x: ReadF32,
        d_outputs: ReadF32,
        d_h: ReadF32,
        d_c: Option<ReadF32>,
        mut d_params: WriteF32,
        mut d_x: Option<WriteF32>,
        mut d_h0: WriteF32,
        mut d_c0: Option<WriteF32>,
    ) -> PyResult<bool> {
        let Some(mut work) = lock(&self.work).take_if(|work| work.lanes() == lanes) else {
            return Ok(false);
        };
        let mut run = || {
            work.set_last_gradients(&d_h, d_c.as_ref())?;
            let weights = values(&weights, lanes, &self.shape.spec)?;
            let (weights, x) = (Weights::new(&weights, lanes), x.as_slice()?);
            let gradients = Gradients {
                d_outputs: d_outputs.as_slice()?,
                d_params: d_params.as_slice_mut()?,
                d_x: d_x.as_mut().map(|d_x| d_x.as_slice_mut()).transpose()?,
                d_h0: d_h0.as_slice_mut()?,
                d_c0: d_c0.as_mut().map(|d_c0| d_c0.as_slice_mut()).transpose()?,
            };
            if gradients.d_x.as_ref().is_some_and(|d_x| d_x.len() != x.len()) {
                return Err(PyRuntimeError::new_err("d_x has another shape than x"));
            }
            py.detach(|| work.backward(x, &weights, gradients))
        };
        let result = run();
        self.shape.work.give_back(self.owner, work);
        result.map(|()| true)
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Some(work) = lock(&self.work).take() {
            self.shape.work.give_back(self.owner, work);
        }
    }
}

/// Adds the classes of this module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("NotFinite", m.py().get_type::<NotFinite>())?;
    m.add_class::<Recurrence>()?;
    m.add_class::<Saved>()
}
