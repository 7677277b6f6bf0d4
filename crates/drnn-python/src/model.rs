//! `Model`: a network with its parameters.

use crate::error::{check_memory, library, type_error, value_error};
use crate::spec::{PyNetSpec, padding};
use crate::{arrays, onnx, state_dict, states};
use drnn::{
    Batch, BatchFirst, Cpu, Import, Imported, InputSpec, Model, Part, Precision, Rows, StartState,
    Steps,
};
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A network with its parameters. It does not change, and any number of threads may run it.
///
/// Examples
/// --------
/// >>> import drnn, numpy as np
/// >>> model = drnn.Model.init(drnn.NetSpec("gru", inputs=3, units=16, delay=2, outputs=1), seed=1)
/// >>> x = np.zeros((50, 8, 3), np.float32)          # T, B, q
/// >>> y, h = model.run(x)
/// >>> y.shape, h.shape
/// ((50, 8, 1), (1, 8, 16))
#[pyclass(frozen, name = "Model", module = "drnn")]
pub struct PyModel(pub Arc<Model>, OnceLock<Arc<Model>>);

/// Parameters up to which a live sequence is stepped by its caller's thread alone. A second thread
/// would save a microsecond or two on an idle machine, and cost a hundred where the two must share a
/// core.
const SMALL: usize = 1 << 20;

impl PyModel {
    pub fn new(model: Model) -> PyModel {
        PyModel::shared(Arc::new(model))
    }

    pub fn shared(model: Arc<Model>) -> PyModel {
        PyModel(model, OnceLock::new())
    }

    /// The model that live sequences step, with the same bits; `is_small` says whether a step is too
    /// short for other threads to take part, or to be given the GIL.
    pub fn stepped(&self) -> drnn::Result<Arc<Model>> {
        if !is_small(&self.0) {
            return Ok(self.0.clone());
        }
        let cpu = Cpu::global()?.with_threads(1);
        Ok(self.1.get_or_init(|| Arc::new(Model::clone(&self.0).on(&cpu))).clone())
    }
}

/// Whether a step takes microseconds.
pub fn is_small(model: &Model) -> bool {
    model.params().len() < SMALL
}

/// Which layer around a recurrence belongs to a model: None for what is recognised, False for none,
/// or its name.
fn layer(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Part> {
    match value {
        None => Ok(Part::Recognised),
        Some(value) if value.cast::<PyBool>().is_ok_and(|value| !value.is_true()) => Ok(Part::None),
        Some(value) => match value.extract() {
            Ok(text) => Ok(Part::Named(text)),
            Err(_) => Err(type_error(format!("{name} must be a name, None or False"))),
        },
    }
}

/// What a file of another program does not say.
pub fn import(
    prefix: Option<String>,
    nonlinearity: &str,
    embedding: Option<&Bound<'_, PyAny>>,
    output: Option<&Bound<'_, PyAny>>,
) -> PyResult<Import> {
    let relu = match nonlinearity {
        "tanh" => false,
        "relu" => true,
        _ => {
            let why = format!("nonlinearity '{nonlinearity}', expected 'tanh' or 'relu'");
            return Err(value_error(why));
        }
    };
    let (embedding, output) = (layer("embedding", embedding)?, layer("output", output)?);
    Ok(Import { prefix, relu, embedding, output })
}

#[pymethods]
impl PyModel {
    /// Reads a model file: drnn's own, or a PyTorch state dict (.safetensors, .pt) or ONNX graph.
    ///
    /// `prefix` names the recurrence where there are several ("encoder.lstm"); `nonlinearity` is
    /// "tanh" or "relu" for a plain RNN; `embedding` and `output` name the layers before and after
    /// it, None takes those that are recognised and False none.
    #[staticmethod]
    #[pyo3(signature = (path, *, prefix=None, nonlinearity="tanh", embedding=None, output=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        prefix: Option<String>,
        nonlinearity: &str,
        embedding: Option<&Bound<'_, PyAny>>,
        output: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyModel> {
        let options = import(prefix, nonlinearity, embedding, output)?;
        let read = py.detach(|| Imported::read(&path, &options));
        Ok(PyModel::new(read.map_err(library)?.model))
    }

    /// A model with random parameters, from PyTorch's distributions.
    #[staticmethod]
    #[pyo3(signature = (spec, seed=1))]
    fn init(py: Python<'_>, spec: &PyNetSpec, seed: u64) -> PyResult<PyModel> {
        check_memory(&spec.0, 3)?;
        Ok(PyModel::new(py.detach(|| Model::init(&spec.0, seed)).map_err(library)?))
    }

    /// A model from a state dict: names to NumPy arrays or PyTorch tensors.
    ///
    /// With `spec`, names and shapes must be those of `state_dict()`. Without it, the network is
    /// recognised by them as `load` does.
    ///
    /// >>> import drnn
    /// >>> model = drnn.Model.init(drnn.NetSpec("lstm", inputs=3, units=5, layers=2))
    /// >>> drnn.Model.from_state_dict(model.state_dict()).spec == model.spec
    /// True
    #[staticmethod]
    #[pyo3(signature = (state_dict, *, spec=None, prefix=None, nonlinearity="tanh", embedding=None,
        output=None))]
    fn from_state_dict(
        state_dict: &Bound<'_, PyAny>,
        spec: Option<&PyNetSpec>,
        prefix: Option<String>,
        nonlinearity: &str,
        embedding: Option<&Bound<'_, PyAny>>,
        output: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyModel> {
        let options = import(prefix, nonlinearity, embedding, output)?;
        let model = match spec {
            Some(_) if options != Import::default() => {
                return Err(type_error("spec= says everything; leave the other options out"));
            }
            Some(spec) => state_dict::with_spec(state_dict, &spec.0)?,
            None => state_dict::recognised(state_dict, &options)?,
        };
        Ok(PyModel::new(model))
    }

    /// Writes a model file, as float32 or, half as large, as float16. A quantised model is written
    /// in the format of its weights.
    #[pyo3(signature = (path, *, dtype="float32"))]
    fn save(&self, py: Python<'_>, path: PathBuf, dtype: &str) -> PyResult<()> {
        let precision = match dtype {
            "float32" => Precision::F32,
            "float16" => Precision::F16,
            _ => {
                let why = format!("dtype '{dtype}', expected 'float32' or 'float16'");
                return Err(value_error(why));
            }
        };
        py.detach(|| self.0.save_as(&path, precision)).map_err(library)
    }

    /// The parameters: PyTorch's names to arrays, which are copies.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for tensor in self.0.layout().tensors() {
            let values = self.0.params()[tensor.range.clone()].to_vec();
            dict.set_item(&tensor.name, arrays::array(py, values, &tensor.dims)?)?;
        }
        Ok(dict)
    }

    /// Runs whole sequences: outputs, and the states after the last step.
    ///
    /// Parameters
    /// ----------
    /// x : [T, B, q], or [T, q] for one sequence; tokens [T, B] or [T]. float32 in C order is read
    ///     where it is, anything else is converted.
    /// lengths : elements of each sequence, where they are not all T
    /// state : states to start from, zeros by default: h, for an LSTM (h, c), each
    ///     [layers * directions, B, n]
    /// batch_first : x and outputs are [B, T, ..]
    ///
    /// Outputs [T, B, m] are aligned with the input, whatever the delay; after the end of a
    /// sequence they are zeros. With look-ahead padding there are as many fewer as the delay is long.
    #[pyo3(signature = (x, lengths=None, state=None, *, batch_first=false))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        lengths: Option<&Bound<'py, PyAny>>,
        state: Option<&Bound<'py, PyAny>>,
        batch_first: bool,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f32>>, Bound<'py, PyAny>)> {
        let spec = self.0.spec();
        let lengths = lengths.map(arrays::lengths).transpose()?;
        let (dense, tokens, shape, dims) = match spec.input() {
            InputSpec::Dense(q) => {
                let x = arrays::floats("x", x)?;
                let shape = x.as_array().shape().to_vec();
                let fits = matches!(shape.len(), 2 | 3) && shape.last() == Some(&q);
                if !fits {
                    let axes = if batch_first { "[B, T, " } else { "[T, B, " };
                    return Err(value_error(format!(
                        "`x` has shape {shape:?}, expected {axes}{q}] or [T, {q}]"
                    )));
                }
                (Some(x), None, shape, 3)
            }
            InputSpec::Tokens { symbols, .. } => {
                let is_float = || {
                    let expected = format!("tokens below {symbols}");
                    library(drnn::Error::InputKind { found: "vectors", expected })
                };
                let dtype = x.getattr("dtype").and_then(|dtype| Ok(dtype.str()?.to_string()));
                if dtype.is_ok_and(|dtype| dtype.contains("float")) {
                    return Err(is_float());
                }
                let (tokens, shape) = arrays::tokens("x", x)?;
                if !matches!(shape.len(), 1 | 2) {
                    let axes = if batch_first { "[B, T]" } else { "[T, B]" };
                    return Err(value_error(format!(
                        "`x` has shape {shape:?}, expected tokens {axes} or [T]"
                    )));
                }
                (None, Some(tokens), shape, 2)
            }
        };
        let batched = shape.len() == dims;
        let (steps, rows) = match (batched, batch_first) {
            (false, _) => (shape[0], 1),
            (true, false) => (shape[0], shape[1]),
            (true, true) => (shape[1], shape[0]),
        };
        let state =
            state.map(|state| states::from_python(spec, state, rows, batched)).transpose()?;
        let swapped = batched && batch_first;
        let values = dense.as_ref().map(|x| x.as_slice()).transpose()?;
        let model = &self.0;
        let run = || {
            let (steps, rows) = (Steps(steps), Rows(rows));
            let first = match (values, &tokens) {
                (Some(x), _) if swapped => Some(BatchFirst::dense(x, rows, steps)?),
                (None, Some(tokens)) if swapped => Some(BatchFirst::tokens(tokens, rows, steps)?),
                _ => None,
            };
            let batch = match (&first, values, &tokens) {
                (Some(first), ..) => first.batch(),
                (None, Some(x), _) => Batch::dense(x, steps, rows),
                (None, None, tokens) => {
                    Batch::tokens(tokens.as_deref().unwrap_or_default(), steps, rows)
                }
            };
            let batch = match &lengths {
                Some(lengths) => batch.lengths(lengths),
                None => batch,
            };
            let mut outputs = model.run(&batch, state.as_ref())?;
            if swapped {
                outputs.values = outputs.to_batch_first();
            }
            Ok(outputs)
        };
        let outputs = py.detach(run).map_err(library)?;
        let [t, b, m] = outputs.shape();
        let shape = match (batched, batch_first) {
            (false, _) => vec![t, m],
            (true, false) => vec![t, b, m],
            (true, true) => vec![b, t, m],
        };
        let last = states::to_python(py, spec, outputs.last, rows, batched)?;
        Ok((arrays::array(py, outputs.values, &shape)?, last))
    }

    /// The stack as one layer whose outputs come k - 1 steps later, with the same outputs and
    /// states. `start` is "held" or "solved": how the blocks come to begin one after another.
    #[pyo3(signature = (start="held"))]
    fn flatten(&self, py: Python<'_>, start: &str) -> PyResult<PyModel> {
        let start = match start {
            "held" => StartState::Held,
            "solved" => StartState::Solved,
            _ => return Err(value_error(format!("start '{start}', expected 'held' or 'solved'"))),
        };
        check_memory(&drnn::flatten::flat_spec(self.0.spec(), start).map_err(library)?, 3)?;
        Ok(PyModel::new(py.detach(|| self.0.flatten(start)).map_err(library)?))
    }

    /// The stack that this one layer is: of blocks of these widths, or of those that it has.
    #[pyo3(signature = (widths=None))]
    fn unflatten(&self, py: Python<'_>, widths: Option<Vec<usize>>) -> PyResult<PyModel> {
        let stack = py.detach(|| self.0.unflatten(widths.as_deref()));
        Ok(PyModel::new(stack.map_err(library)?))
    }

    /// The same parameters, with outputs read `delay` steps late.
    #[pyo3(signature = (delay, padding=None))]
    fn delayed(&self, delay: usize, padding: Option<&Bound<'_, PyAny>>) -> PyResult<PyModel> {
        let padding = self::padding(padding)?;
        Ok(PyModel::new(self.0.delayed(delay, padding).map_err(library)?))
    }

    /// The same network with weights of another number format: "f16" and "bf16" take half the
    /// memory of "f32", "int8" a quarter. Streams of wide networks are faster by about as much.
    ///
    /// >>> import drnn
    /// >>> model = drnn.Model.init(drnn.NetSpec("lstm", inputs=3, units=64))
    /// >>> model.quantize("int8").weight_format
    /// 'int8'
    fn quantize(&self, py: Python<'_>, weights: &str) -> PyResult<PyModel> {
        let format = weights.parse().map_err(library)?;
        Ok(PyModel::new(py.detach(|| self.0.quantize(format)).map_err(library)?))
    }

    /// The number format of the weights: "f32", "f16", "bf16" or "int8"
    #[getter]
    fn weight_format(&self) -> &'static str {
        self.0.weight_format().name()
    }

    /// Writes an ONNX graph of whole sequences, or of one step. A trained series takes and gives
    /// the units of its data.
    #[pyo3(signature = (path, *, step=false))]
    fn export_onnx(&self, py: Python<'_>, path: PathBuf, step: bool) -> PyResult<()> {
        py.detach(|| onnx::export(&self.0, &path, step))
    }

    /// What kind of network it is
    #[getter]
    fn spec(&self) -> PyNetSpec {
        PyNetSpec(self.0.spec().clone())
    }

    fn __repr__(&self) -> String {
        format!("<Model {}>", self.0.spec())
    }

    /// A model does not change, so a copy is itself.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    #[staticmethod]
    fn _from_bytes(bytes: &[u8]) -> PyResult<PyModel> {
        Ok(PyModel::new(Model::from_bytes(bytes).map_err(library)?))
    }

    /// For pickle.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = py.get_type::<PyModel>().getattr("_from_bytes")?;
        Ok((make, (PyBytes::new(py, &self.0.to_bytes().map_err(library)?),)))
    }
}
