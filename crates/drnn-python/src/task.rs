//! Task models: what `drnn.load` returns is made of this.

use crate::arrays;
use crate::error::{library, tasks, type_error, value_error};
use crate::model::{PyModel, import};
use drnn_cli::builtin;
use drnn_tasks::live::{Element, LiveModel, Predicted};
use drnn_tasks::series::{ColumnKind, InputColumn};
use drnn_tasks::tagger::tokenize;
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use serde_json::Value;
use std::path::PathBuf;

/// A model with its task.
#[pyclass(frozen, name = "LiveModel", module = "drnn._drnn")]
pub struct PyLiveModel(LiveModel);

/// A column of a table: numbers, or text with None where it is missing.
enum Field {
    Numbers(Vec<f64>),
    Text(Vec<Option<String>>),
}

impl Field {
    fn len(&self) -> usize {
        match self {
            Field::Numbers(values) => values.len(),
            Field::Text(values) => values.len(),
        }
    }

    fn encode(&self, column: &InputColumn, row: usize, to: &mut Vec<f32>) -> Result<(), String> {
        let encoded = match self {
            Field::Numbers(values) if column.kind == ColumnKind::Number => {
                let x = values[row] as f32;
                if x.is_infinite() {
                    return Err(format!("column '{}': {} is not finite", column.name, values[row]));
                }
                to.push(x);
                return Ok(());
            }
            Field::Numbers(values) => {
                let x = values[row];
                let whole = x.fract() == 0.0 && x.abs() < 9e15;
                // As a table has it: 3, not 3.0.
                let value = match (whole, matches!(column.kind, ColumnKind::Category { .. })) {
                    (true, true) => Value::from(format!("{}", x as i64)),
                    (true, false) => Value::from(x as i64),
                    _ => serde_json::Number::from_f64(x).map_or(Value::Null, Value::Number),
                };
                column.encode_json(&value, to)
            }
            Field::Text(values) => match &values[row] {
                Some(text) => column.encode(text, to),
                None => column.encode_json(&Value::Null, to),
            },
        };
        encoded.map(|_| ())
    }
}

/// Predictions of values, one row per step, NaN where there is none; or class numbers, -1 where
/// there is none, and probabilities of all classes in the model's order.
type Rows<'py> = (Option<Bound<'py, PyArrayDyn<i64>>>, Bound<'py, PyArrayDyn<f64>>);

#[pymethods]
impl PyLiveModel {
    #[staticmethod]
    #[pyo3(signature = (path, prefix=None, nonlinearity="tanh", embedding=None, output=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        prefix: Option<String>,
        nonlinearity: &str,
        embedding: Option<&Bound<'_, PyAny>>,
        output: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyLiveModel> {
        let options = import(prefix, nonlinearity, embedding, output)?;
        let built_in = builtin::find(&path);
        let loaded = py.detach(|| match built_in {
            Some(bytes) if !path.exists() => LiveModel::from_bytes(&path.to_string_lossy(), bytes),
            _ => LiveModel::import(&path, &options),
        });
        loaded.map(PyLiveModel).map_err(tasks)
    }

    /// A trained series as a task model.
    #[staticmethod]
    fn of(name: &str, model: &PyModel) -> PyResult<PyLiveModel> {
        LiveModel::new(name, drnn::Model::clone(&model.0)).map(PyLiveModel).map_err(tasks)
    }

    /// The description as JSON.
    fn info(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.info()).map_err(|error| value_error(error.to_string()))
    }

    /// Names of the columns that a series model reads, its targets, its classes, and its column of
    /// sequences.
    #[allow(clippy::type_complexity)]
    fn columns(&self) -> Option<(Vec<String>, Vec<String>, Option<Vec<String>>, Option<String>)> {
        let task = self.0.series()?;
        let inputs = task.input_columns().iter().map(|column| column.name.clone()).collect();
        Some((inputs, task.targets.clone(), task.classes.clone(), task.sequence.clone()))
    }

    /// Tags of the words of sentences, with probabilities.
    #[allow(clippy::type_complexity)]
    fn tag(
        &self,
        py: Python<'_>,
        sentences: Vec<Vec<String>>,
    ) -> PyResult<Vec<Vec<(String, String, f64)>>> {
        let words = |words: Vec<String>| words.into_iter().map(Element::Word).collect();
        let sentences: Vec<Vec<Element>> = sentences.into_iter().map(words).collect();
        let tagged = py.detach(|| {
            let all = self.0.run(&sentences)?.into_iter().map(|sentence| {
                let tags = sentence.into_iter().filter_map(|one| match one.value {
                    Predicted::Tag { word, tag, probability } => {
                        Some((word, tag.to_string(), probability))
                    }
                    _ => None,
                });
                tags.collect()
            });
            Ok(all.collect())
        });
        tagged.map_err(tasks)
    }

    /// Characters of a text, with the most probable ones for every one that is masked (None).
    #[allow(clippy::type_complexity)]
    fn fill(
        &self,
        py: Python<'_>,
        text: Vec<Option<char>>,
    ) -> PyResult<Vec<(char, Vec<(char, f64)>)>> {
        let element = |one: Option<char>| one.map_or(Element::Mask, Element::Char);
        let text: Vec<Element> = text.into_iter().map(element).collect();
        let filled = py.detach(|| {
            let all = self.0.run(&[text])?.into_iter().flatten().filter_map(|one| {
                let Predicted::Character { character, alternatives, .. } = one.value else {
                    return None;
                };
                let others = alternatives.iter().map(|other| (other.character, other.probability));
                Some((character, others.collect()))
            });
            Ok(all.collect())
        });
        filled.map_err(tasks)
    }

    /// Predictions for tables: columns as they are read, and where each sequence begins and ends.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<Bound<'py, PyAny>>,
        bounds: Vec<(usize, usize)>,
    ) -> PyResult<Rows<'py>> {
        let known = match (self.0.series(), self.0.spec().input()) {
            (Some(task), _) => task.input_columns().into_owned(),
            (None, drnn::InputSpec::Dense(q)) => {
                (0..q).map(|i| InputColumn::number(&format!("x{i}"))).collect()
            }
            _ => return Err(type_error("predict() needs a model that reads numbers")),
        };
        if columns.len() != known.len() {
            let (found, expected) = (columns.len(), known.len());
            return Err(value_error(format!("{found} columns, expected {expected}")));
        }
        let field = |column: Bound<'py, PyAny>| match column.extract::<Vec<f64>>() {
            Ok(numbers) => Ok(Field::Numbers(numbers)),
            Err(_) => Ok(Field::Text(column.extract()?)),
        };
        let fields = columns.into_iter().map(field).collect::<PyResult<Vec<Field>>>()?;
        let rows = fields.first().map_or(0, Field::len);
        let fit = bounds.iter().all(|(start, end)| start <= end && *end <= rows);
        if !fit || fields.iter().any(|field| field.len() != rows) {
            return Err(value_error("columns differ in their lengths"));
        }
        let classes = self.0.series().and_then(|task| task.classes.as_deref());
        let m = classes.map_or(self.0.spec().output_width(), <[String]>::len);
        let live = &self.0;
        let predicted = py.detach(|| -> drnn_tasks::Result<_> {
            let mut sequences = Vec::with_capacity(bounds.len());
            for &(start, end) in &bounds {
                let mut sequence = Vec::with_capacity(end - start);
                for row in start..end {
                    let mut inputs = Vec::new();
                    for (field, column) in fields.iter().zip(&known) {
                        field
                            .encode(column, row, &mut inputs)
                            .map_err(|why| drnn_tasks::Error::Data(format!("row {row}: {why}")))?;
                    }
                    sequence.push(Element::Numbers(inputs));
                }
                sequences.push(sequence);
            }
            let mut values = vec![f64::NAN; rows * m];
            let mut best = vec![-1i64; rows];
            for (&(start, _), found) in bounds.iter().zip(live.run(&sequences)?) {
                for one in found {
                    let row = start + one.position as usize;
                    let to = &mut values[row * m..][..m];
                    match one.value {
                        Predicted::Numbers { values } => {
                            to.iter_mut().zip(values).for_each(|(to, x)| *to = x.into());
                        }
                        Predicted::Named { values } => {
                            to.iter_mut().zip(values).for_each(|(to, (_, x))| *to = x);
                        }
                        Predicted::Class { class, probabilities, .. } => {
                            let number = |name: &str| classes?.iter().position(|c| c == name);
                            best[row] = number(class).map_or(-1, |at| at as i64);
                            for (name, p) in probabilities {
                                if let Some(at) = number(name) {
                                    to[at] = p;
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            Ok((best, values))
        });
        let (best, values) = predicted.map_err(tasks)?;
        let best = classes.map(|_| arrays::array(py, best, &[rows])).transpose()?;
        Ok((best, arrays::array(py, values, &[rows, m])?))
    }
}

/// The tokens of a line of text.
#[pyfunction]
#[pyo3(name = "tokenize")]
pub fn tokens(text: &str) -> Vec<String> {
    tokenize(text).into_iter().map(String::from).collect()
}

/// Names of the models that come with the package.
#[pyfunction]
pub fn built_in_models() -> Vec<&'static str> {
    builtin::ALL.map(|(name, _)| name).to_vec()
}

/// The network of a model with one, with its task.
#[pyfunction]
pub fn load_network(py: Python<'_>, path: PathBuf) -> PyResult<PyModel> {
    let built_in = builtin::find(&path);
    let model = py.detach(|| match built_in {
        Some(bytes) if !path.exists() => drnn::Model::from_bytes(bytes),
        _ => drnn::Model::import(&path, &drnn::Import::default()),
    });
    Ok(PyModel::new(model.map_err(library)?))
}
