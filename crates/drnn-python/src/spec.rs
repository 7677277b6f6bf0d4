//! `NetSpec`: what a network is.

use crate::error::{library, type_error, value_error};
use drnn::{Cell, Direction, InputSpec, NetSpec, Padding};
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// What a network is: cell, input, layers, delay, output layer.
///
/// Parameters
/// ----------
/// cell : "lstm", "gru", "rnn" (tanh), "rnn-relu" or "gru-reset-before"
/// inputs : width of the input vectors; or `tokens`, the number of symbols, with `embedding`, their
///     dimensions
/// units : hidden units, one number, or a sequence with one for each layer
/// layers : number of layers, where `units` is one number
/// delay : steps by which outputs come late
/// padding : what is read after the end of a sequence during the last `delay` steps: "null"
///     (zeros), "look-ahead" (the last `delay` elements have no outputs), or a token
/// bidirectional : read both ways; such a network can have no delay and cannot stream
/// outputs : width of the output layer; without it, outputs are the last layer's states
/// projection : width that an LSTM's states are projected to, PyTorch's `proj_size`
///
/// Examples
/// --------
/// >>> import drnn
/// >>> spec = drnn.NetSpec("lstm", inputs=3, units=32, delay=5, outputs=1)
/// >>> print(spec)
/// dlstm(32 units, delay 5): outputs 5 steps late; 3 -> 32 -> 1; 4,769 parameters
/// >>> spec.parameters
/// 4769
#[pyclass(frozen, name = "NetSpec", module = "drnn", from_py_object)]
#[derive(Clone)]
pub struct PyNetSpec(pub NetSpec);

/// The cell of that name.
fn cell(name: &str) -> PyResult<Cell> {
    match name {
        "lstm" => Ok(Cell::Lstm),
        "gru" => Ok(Cell::Gru),
        "rnn" | "rnn-tanh" => Ok(Cell::RnnTanh),
        "rnn-relu" => Ok(Cell::RnnRelu),
        "gru-reset-before" => Ok(Cell::GruResetBefore),
        _ => Err(value_error(format!(
            "cell '{name}', expected 'lstm', 'gru', 'rnn', 'rnn-relu' or 'gru-reset-before'"
        ))),
    }
}

/// A padding: a word, or a token.
pub fn padding(value: Option<&Bound<'_, PyAny>>) -> PyResult<Padding> {
    let Some(value) = value else { return Ok(Padding::Null) };
    if let Ok(word) = value.extract::<String>() {
        return match word.as_str() {
            "null" | "zero" => Ok(Padding::Null),
            "look-ahead" | "look_ahead" => Ok(Padding::LookAhead),
            _ => Err(value_error(format!(
                "padding '{word}', expected 'null', 'look-ahead' or a token"
            ))),
        };
    }
    match value.extract::<u32>() {
        Ok(token) if !value.is_instance_of::<PyBool>() => Ok(Padding::Symbol(token)),
        _ => Err(type_error("padding must be 'null', 'look-ahead' or a token, 0 or more")),
    }
}

#[pymethods]
impl PyNetSpec {
    #[new]
    #[pyo3(signature = (cell="lstm", *, inputs=None, tokens=None, embedding=None, units,
        layers=None, delay=0, padding=None, bidirectional=false, outputs=None, projection=None))]
    #[allow(clippy::too_many_arguments)] // all by name
    fn new(
        cell: &str,
        inputs: Option<usize>,
        tokens: Option<usize>,
        embedding: Option<usize>,
        units: &Bound<'_, PyAny>,
        layers: Option<usize>,
        delay: usize,
        padding: Option<&Bound<'_, PyAny>>,
        bidirectional: bool,
        outputs: Option<usize>,
        projection: Option<usize>,
    ) -> PyResult<PyNetSpec> {
        let units = match (units.extract::<usize>(), layers) {
            // A longer stack is refused below, before anything is made of its length.
            (Ok(n), layers) => vec![n; layers.unwrap_or(1).min(10_000)],
            (Err(_), None) => units
                .extract::<Vec<usize>>()
                .map_err(|_| type_error("units must be a positive int, or one for each layer"))?,
            (Err(_), Some(_)) => {
                return Err(type_error("layers= goes with one number of units for all of them"));
            }
        };
        let builder = NetSpec::builder(self::cell(cell)?).units(units);
        let builder = match (inputs, tokens, embedding) {
            (Some(q), None, None) => builder.dense(q),
            (None, Some(symbols), Some(embedding)) => builder.tokens(symbols, embedding),
            _ => {
                return Err(type_error("give inputs=, or tokens= and embedding=: one of the two"));
            }
        };
        let builder = builder.delay(delay, self::padding(padding)?);
        let builder = if bidirectional { builder.bidirectional() } else { builder };
        let builder = outputs.into_iter().fold(builder, |builder, m| builder.outputs(m));
        let builder = projection.into_iter().fold(builder, |builder, p| builder.projection(p));
        Ok(PyNetSpec(builder.build().map_err(library)?))
    }

    /// "lstm", "gru", "rnn", "rnn-relu" or "gru-reset-before"
    #[getter]
    fn cell(&self) -> &'static str {
        match self.0.cell() {
            Cell::RnnTanh => "rnn",
            Cell::RnnRelu => "rnn-relu",
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
            Cell::GruResetBefore => "gru-reset-before",
        }
    }

    /// Width of the input vectors; None for tokens
    #[getter]
    fn inputs(&self) -> Option<usize> {
        match self.0.input() {
            InputSpec::Dense(q) => Some(q),
            InputSpec::Tokens { .. } => None,
        }
    }

    /// Number of symbols; None for vectors
    #[getter]
    fn tokens(&self) -> Option<usize> {
        match self.0.input() {
            InputSpec::Dense(_) => None,
            InputSpec::Tokens { symbols, .. } => Some(symbols),
        }
    }

    /// Dimensions of the embedding; None for vectors
    #[getter]
    fn embedding(&self) -> Option<usize> {
        match self.0.input() {
            InputSpec::Dense(_) => None,
            InputSpec::Tokens { embedding, .. } => Some(embedding),
        }
    }

    /// Hidden units of each layer
    #[getter]
    fn units(&self) -> Vec<usize> {
        self.0.units().to_vec()
    }

    /// Number of layers
    #[getter]
    fn layers(&self) -> usize {
        self.0.layers()
    }

    /// Steps by which outputs come late
    #[getter]
    fn delay(&self) -> usize {
        self.0.delay()
    }

    /// "null", "look-ahead" or a token
    #[getter]
    fn padding(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self.0.padding() {
            Padding::Symbol(token) => token.into_pyobject(py)?.into_any().unbind(),
            Padding::LookAhead => "look-ahead".into_pyobject(py)?.into_any().unbind(),
            _ => "null".into_pyobject(py)?.into_any().unbind(),
        })
    }

    /// Whether it reads both ways
    #[getter]
    fn bidirectional(&self) -> bool {
        self.0.direction() == Direction::Bidirectional
    }

    /// Width of the output layer; None where there is none
    #[getter]
    fn outputs(&self) -> Option<usize> {
        self.0.outputs()
    }

    /// Width that states are projected to; None where they are not
    #[getter]
    fn projection(&self) -> Option<usize> {
        self.0.projection()
    }

    /// Values of each output
    #[getter]
    fn output_width(&self) -> usize {
        self.0.output_width()
    }

    /// Number of parameters
    #[getter]
    fn parameters(&self) -> usize {
        self.0.parameters()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<NetSpec {}>", self.0)
    }

    fn __eq__(&self, other: &PyNetSpec) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    #[staticmethod]
    fn _from_json(text: &str) -> PyResult<PyNetSpec> {
        let spec = serde_json::from_str(text).map_err(|error| value_error(error.to_string()))?;
        Ok(PyNetSpec(spec))
    }

    /// For pickle: the function that makes it again, and its arguments.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let make = py.get_type::<PyNetSpec>().getattr("_from_json")?;
        let text = serde_json::to_string(&self.0).map_err(|e| value_error(e.to_string()))?;
        Ok((make, (text,)))
    }
}
