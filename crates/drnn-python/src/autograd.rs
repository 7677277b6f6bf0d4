//! Forward and backward passes for `drnn.torch`.

use pyo3::prelude::*;

/// Adds the functions of this module.
pub fn register(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
