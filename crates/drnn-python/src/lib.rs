//! The module `drnn._drnn` of Python: see docs/PYTHON.md.
//!
//! | file | what |
//! |---|---|
//! | `spec`, `model`, `stream` | `NetSpec`, `Model`, `Stream` and `StreamBatch` |
//! | `task` | task models: taggers, masked characters, series |
//! | `training` | training of series |
//! | `autograd` | forward and backward passes for `drnn.torch` |
//! | `cuda` | the same on a GPU, in torch's memory |
//! | `arrays`, `states`, `state_dict` | arrays of Python as slices, and back |
//! | `onnx` | export |
//! | `error` | errors as exceptions |

use pyo3::prelude::*;
use std::ffi::OsString;

mod arrays;
mod autograd;
mod cuda;
mod error;
mod model;
mod onnx;
mod spec;
mod state_dict;
mod states;
mod stream;
mod task;
mod training;

/// Runs the program `drnn` with these arguments, its name first. Returns the exit code.
#[pyfunction]
fn run_program(py: Python, arguments: Vec<OsString>) -> u8 {
    py.detach(|| drnn_cli::run(arguments))
}

#[pymodule]
fn _drnn(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<spec::PyNetSpec>()?;
    m.add_class::<model::PyModel>()?;
    m.add_class::<stream::PyStream>()?;
    m.add_class::<stream::PyStreamId>()?;
    m.add_class::<stream::PyStreamBatch>()?;
    m.add_class::<task::PyLiveModel>()?;
    m.add_class::<training::PySeriesData>()?;
    m.add_function(wrap_pyfunction!(task::tokens, m)?)?;
    m.add_function(wrap_pyfunction!(task::built_in_models, m)?)?;
    m.add_function(wrap_pyfunction!(task::load_network, m)?)?;
    m.add_function(wrap_pyfunction!(training::recommended, m)?)?;
    m.add_function(wrap_pyfunction!(training::training_seed, m)?)?;
    m.add_function(wrap_pyfunction!(run_program, m)?)?;
    autograd::register(m)?;
    cuda::register(m)
}
