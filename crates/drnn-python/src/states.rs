//! States of sequences, in PyTorch's shapes.
//!
//! ```text
//! h [layers * directions, B, n]        where all layers are as wide; else one array for each layer
//! (h, c)                               LSTM
//! ```

use crate::arrays;
use crate::error::{type_error, value_error};
use drnn::{NetSpec, States};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// States as Python has them; those of one sequence without the dimension B.
pub fn to_python<'py>(
    py: Python<'py>,
    spec: &NetSpec,
    states: States,
    rows: usize,
    batched: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let h = part(py, spec, states.h, spec.state_widths(), rows, batched)?;
    if !spec.cell().has_cell_state() {
        return Ok(h);
    }
    let c = part(py, spec, states.c, spec.cell_state_widths(), rows, batched)?;
    Ok(PyTuple::new(py, [h, c])?.into_any())
}

fn part<'py>(
    py: Python<'py>,
    spec: &NetSpec,
    values: Vec<f32>,
    widths: &[usize],
    rows: usize,
    batched: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let directions = spec.direction().count();
    let dims = |layers: usize, n: usize| match batched {
        true => vec![layers * directions, rows, n],
        false => vec![layers * directions, n],
    };
    if widths.iter().all(|n| *n == widths[0]) {
        return Ok(arrays::array(py, values, &dims(widths.len(), widths[0]))?.into_any());
    }
    let (list, mut at) = (PyList::empty(py), 0);
    for &n in widths {
        let len = directions * rows * n;
        list.append(arrays::array(py, values[at..at + len].to_vec(), &dims(1, n))?)?;
        at += len;
    }
    Ok(list.into_any())
}

/// States from Python, for `rows` sequences.
pub fn from_python(
    spec: &NetSpec,
    value: &Bound<'_, PyAny>,
    rows: usize,
    batched: bool,
) -> PyResult<States> {
    let (h, c) = match spec.cell().has_cell_state() {
        true => {
            let pair = value.extract::<(Bound<PyAny>, Bound<PyAny>)>();
            let (h, c) =
                pair.map_err(|_| type_error("`state` of an LSTM must be a tuple (h, c)"))?;
            (h, Some(c))
        }
        false => (value.clone(), None),
    };
    let h = flat("state h", spec, &h, spec.state_widths(), rows, batched)?;
    let c = c.map(|c| flat("state c", spec, &c, spec.cell_state_widths(), rows, batched));
    Ok(States { h, c: c.transpose()?.unwrap_or_default() })
}

fn flat(
    name: &str,
    spec: &NetSpec,
    value: &Bound<'_, PyAny>,
    widths: &[usize],
    rows: usize,
    batched: bool,
) -> PyResult<Vec<f32>> {
    let directions = spec.direction().count();
    let dims = |layers: usize, n: usize| match batched {
        true => vec![layers * directions, rows, n],
        false => vec![layers * directions, n],
    };
    let checked = |value: &Bound<'_, PyAny>, expected: Vec<usize>| {
        let array = arrays::floats(name, value)?;
        let array = array.as_array();
        if array.shape() != expected {
            let found = array.shape();
            return Err(value_error(format!(
                "`{name}` has shape {found:?}, expected {expected:?}"
            )));
        }
        Ok(array.iter().copied().collect::<Vec<f32>>())
    };
    if widths.iter().all(|n| *n == widths[0]) {
        return checked(value, dims(widths.len(), widths[0]));
    }
    let parts: Vec<Bound<'_, PyAny>> = value
        .extract()
        .map_err(|_| type_error(format!("`{name}` must be a list of one array per layer")))?;
    if parts.len() != widths.len() {
        let (found, expected) = (parts.len(), widths.len());
        return Err(value_error(format!("`{name}` has {found} arrays, expected {expected}")));
    }
    let mut all = Vec::new();
    for (part, &n) in parts.iter().zip(widths) {
        all.extend(checked(part, dims(1, n))?);
    }
    Ok(all)
}
