//! Models from state dicts.

use crate::arrays;
use crate::error::{check_memory, library, type_error, value_error};
use drnn::params::Layout;
use drnn::{Import, Imported, Model, NetSpec};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

/// The entries of a mapping.
fn entries<'py>(dict: &Bound<'py, PyAny>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let wrong = || type_error("a state dict must map names to arrays");
    let items = dict.call_method0("items").map_err(|_| wrong())?;
    items.try_iter()?.map(|item| item?.extract().map_err(|_| wrong())).collect()
}

/// Exactly the tensors of `spec`.
pub fn with_spec(dict: &Bound<'_, PyAny>, spec: &NetSpec) -> PyResult<Model> {
    let layout = Layout::new(spec);
    let entries = entries(dict)?;
    let missing = |name: &String| !entries.iter().any(|(found, _)| found == name);
    if let Some(tensor) = layout.tensors().iter().find(|tensor| missing(&tensor.name)) {
        return Err(value_error(format!("state dict: missing tensor '{}'", tensor.name)));
    }
    check_memory(spec, 3)?;
    let mut params = vec![0.0; layout.len()];
    for (name, value) in &entries {
        let Some(tensor) = layout.find(name) else {
            return Err(value_error(format!("state dict: unexpected tensor '{name}' in {spec}")));
        };
        let array = arrays::floats(name, value)?;
        if array.as_array().shape() != tensor.dims {
            return Err(value_error(format!(
                "`{name}` has shape {:?}, expected {:?}",
                array.as_array().shape(),
                tensor.dims
            )));
        }
        params[tensor.range.clone()].copy_from_slice(array.as_slice()?);
    }
    Model::from_params(spec, params).map_err(library)
}

/// A model that is recognised by names and shapes, as in a file: the dict becomes the bytes of a
/// safetensors file, which is what the importer reads.
pub fn recognised(dict: &Bound<'_, PyAny>, options: &Import) -> PyResult<Model> {
    let (mut header, mut data) = (Map::new(), Vec::<u8>::new());
    for (name, value) in entries(dict)? {
        // Counters, as of batch norm, are no parameters of a recurrence.
        let Ok(array) = arrays::floats(&name, &value) else { continue };
        let start = data.len();
        data.extend(array.as_slice()?.iter().flat_map(|x| x.to_le_bytes()));
        let tensor = json!({
            "dtype": "F32",
            "shape": array.as_array().shape(),
            "data_offsets": [start, data.len()],
        });
        header.insert(name, tensor);
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&data);
    let imported = Imported::from_bytes(&bytes, options).map_err(|error| match error {
        drnn::Error::File(error) => value_error(format!("state dict: {}", error.reason())),
        other => library(other),
    })?;
    Ok(imported.model)
}
