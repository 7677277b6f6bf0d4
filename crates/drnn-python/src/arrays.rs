//! Arrays of Python as slices, without a copy where that is possible, and back.

use crate::error::{type_error, value_error};
use numpy::{
    PyArray1, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Anything array-like as a NumPy array, not copied where it is one.
fn as_array<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let py = value.py();
    // Tensors of PyTorch: outside of autograd, in main memory, in a type that NumPy has.
    if value.hasattr("detach")? && value.hasattr("numpy")? {
        let tensor = value.call_method0("detach")?.call_method0("cpu")?;
        let tensor = match tensor.getattr("dtype")?.str()?.to_string().as_str() {
            "torch.bfloat16" => tensor.call_method0("float")?,
            _ => tensor,
        };
        return Ok(tensor.call_method0("numpy")?.cast_into::<PyUntypedArray>()?);
    }
    let found = numpy(py)?.call_method1("asarray", (value,));
    let array = found.map_err(|error| {
        let wrong = type_error(format!("`{name}` is not an array of numbers: {error}"));
        wrong.set_cause(py, Some(error));
        wrong
    })?;
    Ok(array.cast_into::<PyUntypedArray>()?)
}

fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let module =
        NUMPY.get_or_try_init(py, || PyResult::Ok(py.import("numpy")?.into_any().unbind()))?;
    Ok(module.bind(py))
}

/// The array in C order with another type of elements.
fn converted<'py>(array: &Bound<'py, PyUntypedArray>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let arguments = PyDict::new(py);
    arguments.set_item("dtype", dtype)?;
    numpy(py)?.call_method("ascontiguousarray", (array,), Some(&arguments))
}

/// Letter of NumPy's for the kind of elements: `f` floats, `i` integers, `u` unsigned, `b` bool.
fn kind(array: &Bound<'_, PyUntypedArray>) -> u8 {
    array.dtype().kind()
}

/// Floats, contiguous in C order.
pub fn floats<'py>(
    name: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
    if let Ok(array) = value.cast::<PyArrayDyn<f32>>()
        && array.is_c_contiguous()
    {
        return borrowed(name, array);
    }
    let array = as_array(name, value)?;
    if !matches!(kind(&array), b'f' | b'i' | b'u' | b'b') {
        let dtype = array.dtype();
        return Err(type_error(format!("`{name}` has dtype {dtype}, expected float32")));
    }
    // An array without dimensions would become one of one dimension.
    let shape = array.shape().to_vec();
    let array = converted(&array, "float32")?.call_method1("reshape", (shape,))?;
    borrowed(name, array.cast::<PyArrayDyn<f32>>()?)
}

fn borrowed<'py>(
    name: &str,
    array: &Bound<'py, PyArrayDyn<f32>>,
) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
    array.try_readonly().map_err(|error| value_error(format!("`{name}`: {error}")))
}

/// Integers with their shape. They are copied, so that nobody can change indices after they were
/// checked.
pub fn integers(name: &str, value: &Bound<'_, PyAny>) -> PyResult<(Vec<i64>, Vec<usize>)> {
    let array = as_array(name, value)?;
    let empty = array.shape().contains(&0);
    if !matches!(kind(&array), b'i' | b'u') && !empty {
        let dtype = array.dtype();
        return Err(type_error(format!("`{name}` has dtype {dtype}, expected integers")));
    }
    let shape = array.shape().to_vec();
    let array = converted(&array, "int64")?;
    let values = array.cast::<PyArrayDyn<i64>>()?.try_readonly();
    let values = values.map_err(|error| value_error(format!("`{name}`: {error}")))?;
    Ok((values.as_slice()?.to_vec(), shape))
}

/// Tokens with their shape.
pub fn tokens(name: &str, value: &Bound<'_, PyAny>) -> PyResult<(Vec<u32>, Vec<usize>)> {
    let (values, shape) = integers(name, value)?;
    let token = |(at, value): (usize, &i64)| {
        u32::try_from(*value)
            .map_err(|_| value_error(format!("`{name}` holds {value} at position {at}, no token")))
    };
    Ok((values.iter().enumerate().map(token).collect::<PyResult<_>>()?, shape))
}

/// Lengths of sequences.
pub fn lengths(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let (values, shape) = integers("lengths", value)?;
    if shape.len() != 1 {
        return Err(value_error(format!("`lengths` has shape {shape:?}, expected one dimension")));
    }
    let length = |value: &i64| {
        usize::try_from(*value)
            .map_err(|_| value_error(format!("`lengths` holds {value}, expected 0 or more")))
    };
    values.iter().map(length).collect()
}

/// A new array that owns `values`.
pub fn array<'py, T: numpy::Element>(
    py: Python<'py>,
    values: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    PyArray1::from_vec(py, values).reshape(shape)
}
