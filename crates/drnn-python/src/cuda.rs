//! Passes on a GPU for `drnn.torch`, in memory and streams of torch's: [`drnn_cuda::Recurrence`].
//!
//! Python hands over addresses, of which nothing can be checked here: `drnn/torch/_cuda.py` makes all
//! arrays, and is the only caller.

use drnn::Cell;
use drnn_cuda::{
    BackwardArguments, Device, Error, Format, ForwardArguments, LayerArrays, Lengths, Precision,
    Recurrence, RecurrenceOptions, RecurrenceSpec, Way,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::ffi::c_void;

fn to_python(error: Error) -> PyErr {
    match error {
        Error::Unsupported(_) | Error::Argument(_) => PyValueError::new_err(error.to_string()),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Addresses of a layer's arrays: w_ih, w_hh, b_ih, b_hh.
type Addresses = [u64; 4];

fn layers(addresses: Vec<Addresses>) -> Vec<LayerArrays> {
    let layer = |[w_ih, w_hh, b_ih, b_hh]: Addresses| LayerArrays { w_ih, w_hh, b_ih, b_hh };
    addresses.into_iter().map(layer).collect()
}

/// Addresses of arrays of a forward pass; 0 for an optional one that is not there.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Forward {
    parameters: Vec<Addresses>,
    x: u64,
    h0: u64,
    c0: u64,
    /// i64; 0 where all sequences have T steps.
    lengths: u64,
    y: u64,
    h_n: u64,
    c_n: u64,
    saved: u64,
    workspace: u64,
}

/// Those of a backward pass.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Backward {
    parameters: Vec<Addresses>,
    gradients: Vec<Addresses>,
    d_y: u64,
    d_h_n: u64,
    d_c_n: u64,
    d_x: u64,
    d_h0: u64,
    d_c0: u64,
    saved: u64,
    workspace: u64,
}

/// A stack of layers for batches of one shape on one GPU.
#[pyclass(frozen, module = "drnn._drnn")]
struct CudaRecurrence(Recurrence);

#[pymethods]
impl CudaRecurrence {
    /// `format` is that of x and y: float32, float16 or bfloat16.
    #[new]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn new(
        device: usize,
        cell: &str,
        input_size: usize,
        hidden_size: usize,
        num_layers: usize,
        bidirectional: bool,
        steps: usize,
        rows: usize,
        format: &str,
        training: bool,
    ) -> PyResult<CudaRecurrence> {
        let cell = match cell {
            "LSTM" => Cell::Lstm,
            "GRU" => Cell::Gru,
            "RNN_TANH" => Cell::RnnTanh,
            "RNN_RELU" => Cell::RnnRelu,
            _ => return Err(PyValueError::new_err(format!("no cell `{cell}`"))),
        };
        let format = match format {
            "float32" => Format::F32,
            "float16" => Format::F16,
            "bfloat16" => Format::Bf16,
            _ => return Err(PyValueError::new_err(format!("no format `{format}`"))),
        };
        let device = Device::at(device).map_err(to_python)?;
        let (inputs, units, layers) = (input_size, hidden_size, num_layers);
        let spec = RecurrenceSpec { cell, inputs, units, layers, bidirectional };
        let options = RecurrenceOptions { format, precision: Precision::F16, training };
        let planned = Recurrence::plan(&device, spec, [steps, rows], options);
        planned.map(CudaRecurrence).map_err(to_python)
    }

    /// Whether all steps run in one launch; otherwise a step is a product and a kernel.
    #[getter]
    fn is_persistent(&self) -> bool {
        self.0.way() == Way::Persistent
    }

    /// Bytes that a forward pass writes for its backward pass
    #[getter]
    fn saved_bytes(&self) -> usize {
        self.0.saved_bytes()
    }

    /// Bytes of scratch memory of a pass
    #[getter]
    fn workspace_bytes(&self) -> usize {
        self.0.workspace_bytes()
    }

    /// Compiles and loads the kernels.
    fn warm_up(&self, py: Python) -> PyResult<()> {
        py.detach(|| self.0.warm_up()).map_err(to_python)
    }

    /// Submits a forward pass to a stream.
    fn forward(&self, py: Python, stream: u64, arrays: Forward) -> PyResult<()> {
        let parameters = layers(arrays.parameters);
        let Forward { x, h0, c0, lengths, y, h_n, c_n, saved, workspace, .. } = arrays;
        let lengths = if lengths == 0 { Lengths::Full } else { Lengths::I64(lengths) };
        let call = ForwardArguments {
            x,
            parameters: &parameters,
            h0,
            c0,
            lengths,
            y,
            h_n,
            c_n,
            saved,
            workspace,
        };
        // SAFETY: `_cuda.py` made the arrays as large as the shape demands, and torch keeps their
        // memory until the stream has done the work.
        py.detach(|| unsafe { self.0.forward(stream as *mut c_void, &call) }).map_err(to_python)
    }

    /// Submits a backward pass to a stream.
    fn backward(&self, py: Python, stream: u64, arrays: Backward) -> PyResult<()> {
        let (parameters, gradients) = (layers(arrays.parameters), layers(arrays.gradients));
        let Backward { d_y, d_h_n, d_c_n, d_x, d_h0, d_c0, saved, workspace, .. } = arrays;
        let call = BackwardArguments {
            parameters: &parameters,
            d_y,
            d_h_n,
            d_c_n,
            d_x,
            d_h0,
            d_c0,
            gradients: &gradients,
            saved,
            workspace,
        };
        // SAFETY: as forward.
        py.detach(|| unsafe { self.0.backward(stream as *mut c_void, &call) }).map_err(to_python)
    }
}

/// Adds the class of this module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<CudaRecurrence>()
}
