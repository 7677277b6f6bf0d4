//! Passes on a GPU for `drnn.torch`, in memory and streams of torch's: [`drnn_cuda::Recurrence`].
//!
//! Python hands over addresses, of which nothing can be checked here: `drnn/torch/_cuda_passes.py`
//! makes all arrays, and is the only caller.

use drnn::Cell;
use drnn_cuda::{
    BackwardArguments, Device, Error, Format, ForwardArguments, LayerArrays, Lengths, Precision,
    Recurrence, RecurrenceOptions, RecurrenceSpec, Way,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::ffi::c_void;
use std::path::PathBuf;

fn to_python(error: Error) -> PyErr {
    match error {
        Error::Unsupported(_) | Error::Argument(_) => PyValueError::new_err(error.to_string()),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Addresses of w_ih, w_hh and, with biases, b_ih and b_hh of each of `count` layers and directions,
/// one after another.
fn layers(addresses: &[u64], count: usize) -> PyResult<Vec<LayerArrays>> {
    let each = addresses.len() / count;
    if addresses.len() != each * count || ![2, 4].contains(&each) {
        let found = addresses.len();
        return Err(PyValueError::new_err(format!(
            "{found} addresses of parameters; {} expected, or {} without biases",
            4 * count,
            2 * count
        )));
    }
    let layer = |a: &[u64]| {
        let [b_ih, b_hh] = if each == 4 { [a[2], a[3]] } else { [0; 2] };
        LayerArrays { w_ih: a[0], w_hh: a[1], b_ih, b_hh }
    };
    Ok(addresses.chunks_exact(each).map(layer).collect())
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

    /// Submits a forward pass to a stream. `arrays` are addresses, 0 for an optional one that is not
    /// there: x, h_0, c_0, lengths (i64), y, h_n, c_n, what is saved, the workspace.
    fn forward(
        &self,
        py: Python,
        stream: u64,
        parameters: Vec<u64>,
        arrays: [u64; 9],
    ) -> PyResult<()> {
        let parameters = layers(&parameters, self.recurrences())?;
        let [x, h0, c0, lengths, y, h_n, c_n, saved, workspace] = arrays;
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
        // SAFETY: `_cuda_passes.py` made the arrays as large as the shape demands, and torch keeps
        // their memory until the stream has done the work.
        py.detach(|| unsafe { self.0.forward(stream as *mut c_void, &call) }).map_err(to_python)
    }

    /// Submits a backward pass to a stream. `arrays` are addresses as of a forward pass: gradients of
    /// y, h_n and c_n, those of x, h_0 and c_0, what is saved, the workspace.
    fn backward(
        &self,
        py: Python,
        stream: u64,
        parameters: Vec<u64>,
        gradients: Vec<u64>,
        arrays: [u64; 8],
    ) -> PyResult<()> {
        let count = self.recurrences();
        let (parameters, gradients) = (layers(&parameters, count)?, layers(&gradients, count)?);
        let [d_y, d_h_n, d_c_n, d_x, d_h0, d_c0, saved, workspace] = arrays;
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

impl CudaRecurrence {
    /// Layers times directions.
    fn recurrences(&self) -> usize {
        let spec = self.0.spec();
        spec.layers * if spec.bidirectional { 2 } else { 1 }
    }
}

/// Folders to search for NVRTC and cuBLAS: those of the Python environment.
#[pyfunction]
fn add_cuda_library_folders(folders: Vec<PathBuf>) {
    drnn_cuda::add_library_folders(folders);
}

/// Adds the class and the function of this module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(add_cuda_library_folders, m)?)?;
    m.add_class::<CudaRecurrence>()
}
