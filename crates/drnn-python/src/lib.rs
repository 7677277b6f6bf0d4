//! The module `drnn._drnn` of Python: see docs/PYTHON.md.

use pyo3::prelude::*;

mod autograd;

#[pymodule]
fn _drnn(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    autograd::register(m)
}
