//! `Stream` and `StreamBatch`: live sequences.

use crate::arrays;
use crate::error::{library, type_error, value_error};
use crate::model::{PyModel, is_small};
use drnn::{Element, InputSpec, Model, Stream, StreamBatch, StreamId};
use numpy::{PyArray1, PyArrayDyn, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;

/// One live sequence: an element in, the output for the element `delay` before it out.
///
/// Examples
/// --------
/// >>> import drnn, numpy as np
/// >>> model = drnn.Model.init(drnn.NetSpec("lstm", inputs=2, units=8, delay=2, outputs=1))
/// >>> x = np.ones((5, 2), np.float32)
/// >>> stream = drnn.Stream(model)
/// >>> [stream.push(element) is not None for element in x]
/// [False, False, True, True, True]
/// >>> stream.finish().shape                      # the last two, after two steps of padding
/// (2, 1)
#[pyclass(name = "Stream", module = "drnn")]
pub struct PyStream {
    stream: Stream<Arc<Model>>,
    model: Arc<Model>,
}

/// One element as Python has it.
enum Read<'py> {
    Dense(PyReadonlyArrayDyn<'py, f32>),
    Token(u32),
}

impl<'py> Read<'py> {
    fn new(model: &Model, x: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
        match model.spec().input() {
            InputSpec::Dense(q) => {
                let x = arrays::floats("x", x)?;
                if x.as_array().shape() != [q] {
                    let found = x.as_array().shape().to_vec();
                    return Err(value_error(format!("`x` has shape {found:?}, expected [{q}]")));
                }
                Ok(Read::Dense(x))
            }
            InputSpec::Tokens { .. } => {
                let token = x.extract::<u32>();
                let wrong = |_| type_error("`x` must be a token, an int of 0 or more");
                Ok(Read::Token(token.map_err(wrong)?))
            }
        }
    }

    fn element(&self) -> PyResult<Element<'_>> {
        Ok(match self {
            Read::Dense(x) => Element::Dense(x.as_slice()?),
            Read::Token(token) => Element::Token(*token),
        })
    }
}

/// Several elements as Python has them: [count, q], or tokens [count].
enum ReadMany<'py> {
    Dense(PyReadonlyArrayDyn<'py, f32>, usize),
    Tokens(Vec<u32>),
}

impl<'py> ReadMany<'py> {
    fn new(model: &Model, x: &Bound<'py, PyAny>) -> PyResult<ReadMany<'py>> {
        let refuse = |shape: &[usize], expected: String| {
            Err(value_error(format!("`x` has shape {shape:?}, expected {expected}")))
        };
        match model.spec().input() {
            InputSpec::Dense(q) => {
                let x = arrays::floats("x", x)?;
                match *x.as_array().shape() {
                    [_, width] if width == q => {}
                    ref shape => return refuse(shape, format!("[T, {q}]")),
                }
                Ok(ReadMany::Dense(x, q))
            }
            InputSpec::Tokens { .. } => {
                let (tokens, shape) = arrays::tokens("x", x)?;
                if shape.len() != 1 {
                    return refuse(&shape, "[T]".into());
                }
                Ok(ReadMany::Tokens(tokens))
            }
        }
    }

    fn elements(&self) -> PyResult<Vec<Element<'_>>> {
        Ok(match self {
            ReadMany::Dense(x, q) => x.as_slice()?.chunks_exact(*q).map(Element::Dense).collect(),
            ReadMany::Tokens(tokens) => tokens.iter().map(|token| Element::Token(*token)).collect(),
        })
    }
}

#[pymethods]
impl PyStream {
    #[new]
    fn new(model: &PyModel) -> PyResult<PyStream> {
        let stream = model.stepped().and_then(Stream::new).map_err(library)?;
        Ok(PyStream { stream, model: model.0.clone() })
    }

    /// Reads the next element, [q] or a token. Returns the output [m] for the one `delay` before
    /// it, or None while there is none. An element that is refused changes nothing.
    fn push<'py>(
        &mut self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyArray1<f32>>>> {
        let read = Read::new(&self.model, x)?;
        let element = read.element()?;
        let stream = &mut self.stream;
        let output = match is_small(&self.model) {
            true => stream.push(element),
            false => py.detach(|| stream.push(element)),
        };
        Ok(output.map_err(library)?.map(|y| PyArray1::from_slice(py, y)))
    }

    /// Reads several elements, [T, q] or tokens [T], and returns the outputs that are known by
    /// them, [k, m]. Where one is refused, those before it have been read.
    fn push_many<'py>(
        &mut self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let read = ReadMany::new(&self.model, x)?;
        let (elements, stream) = (read.elements()?, &mut self.stream);
        let outputs = py.detach(|| {
            let mut outputs = Vec::new();
            for element in elements {
                outputs.extend_from_slice(stream.push(element)?.unwrap_or_default());
            }
            Ok(outputs)
        });
        let (outputs, m) = (outputs.map_err(library)?, self.model.spec().output_width());
        let k = outputs.len() / m;
        arrays::array(py, outputs, &[k, m])
    }

    /// Ends the sequence and returns the outputs still due, [k, m]. Then a new one begins.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let stream = &mut self.stream;
        let rest = py.detach(|| stream.finish());
        arrays::array(py, rest.concat(), &[rest.len(), self.model.spec().output_width()])
    }

    /// Elements read since the sequence began
    #[getter]
    fn seen(&self) -> u64 {
        self.stream.seen()
    }

    /// The model
    #[getter]
    fn model(&self) -> PyModel {
        PyModel::shared(self.model.clone())
    }

    /// The state as bytes, to go on later or elsewhere.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.stream.snapshot())
    }

    /// Goes on from a snapshot. Bytes of another network are refused, and nothing changes.
    fn restore(&mut self, snapshot: &[u8]) -> PyResult<()> {
        self.stream.restore(snapshot).map_err(library)
    }

    fn __repr__(&self) -> String {
        format!("<Stream of {}, {} elements read>", self.model.spec(), self.stream.seen())
    }

    #[staticmethod]
    fn _from_parts(model: &PyModel, snapshot: &[u8]) -> PyResult<PyStream> {
        let mut stream = PyStream::new(model)?;
        stream.restore(snapshot)?;
        Ok(stream)
    }

    /// For pickle and copy.
    #[allow(clippy::type_complexity)]
    fn __reduce__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (PyModel, Bound<'py, PyBytes>))> {
        let make = py.get_type::<PyStream>().getattr("_from_parts")?;
        let snapshot = self.snapshot(py);
        Ok((make, (self.model(), snapshot)))
    }
}

/// Names a stream of a `StreamBatch`; never used again for another.
#[pyclass(frozen, eq, hash, name = "StreamId", module = "drnn", from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PyStreamId(StreamId);

#[pymethods]
impl PyStreamId {
    fn __repr__(&self) -> String {
        format!("<{:?}>", self.0)
    }
}

/// Many live sequences of one model, stepped together; they join and leave at any time.
///
/// Examples
/// --------
/// >>> import drnn
/// >>> spec = drnn.NetSpec("gru", tokens=5, embedding=3, units=8, delay=1, outputs=5)
/// >>> streams = drnn.StreamBatch(drnn.Model.init(spec))
/// >>> a, b = streams.join(), streams.join()
/// >>> ready, y = streams.step([a, b], [2, 4])            # an element each
/// >>> len(ready)                                         # outputs come one element late
/// 0
/// >>> ready, y = streams.step([b], [1])                  # only b has an element
/// >>> ready == [b], y.shape
/// (True, (1, 5))
/// >>> streams.finish([a])[a].shape                       # padding, last output, leaves
/// (1, 5)
#[pyclass(name = "StreamBatch", module = "drnn")]
pub struct PyStreamBatch {
    streams: StreamBatch<Arc<Model>>,
    model: Arc<Model>,
}

#[pymethods]
impl PyStreamBatch {
    #[new]
    fn new(model: &PyModel) -> PyResult<PyStreamBatch> {
        let model = model.0.clone();
        Ok(PyStreamBatch { streams: StreamBatch::new(model.clone()).map_err(library)?, model })
    }

    /// Begins a sequence.
    fn join(&mut self) -> PyStreamId {
        PyStreamId(self.streams.join())
    }

    /// Ends a sequence without its last outputs.
    fn leave(&mut self, id: PyStreamId) -> PyResult<()> {
        self.streams.leave(id.0).map_err(library)
    }

    /// Reads one element of each stream named: x [len(ids), q], or tokens [len(ids)]. Returns the
    /// streams that have an output, and their outputs [k, m]. Where any element is refused, no
    /// stream has moved.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        ids: Vec<PyStreamId>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<PyStreamId>, Bound<'py, PyArrayDyn<f32>>)> {
        let read = ReadMany::new(&self.model, x)?;
        let elements = read.elements()?;
        if elements.len() != ids.len() {
            let (found, expected) = (elements.len(), ids.len());
            return Err(value_error(format!("`x` has {found} elements for {expected} streams")));
        }
        let elements: Vec<_> = ids.iter().map(|id| id.0).zip(elements).collect();
        let (mut ready, mut outputs) = (Vec::new(), Vec::new());
        let streams = &mut self.streams;
        let stepped = py.detach(|| {
            streams.step(&elements, |id, y| {
                ready.push(PyStreamId(id));
                outputs.extend_from_slice(y);
            })
        });
        stepped.map_err(library)?;
        let shape = [ready.len(), self.model.spec().output_width()];
        Ok((ready, arrays::array(py, outputs, &shape)?))
    }

    /// Ends streams: the outputs still due, [k, m] of each.
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
        ids: Vec<PyStreamId>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let list: Vec<StreamId> = ids.iter().map(|id| id.0).collect();
        let mut outputs: Vec<Vec<f32>> = vec![Vec::new(); ids.len()];
        let streams = &mut self.streams;
        let finished = py.detach(|| {
            streams.finish(&list, |id, y| {
                if let Some(at) = list.iter().position(|other| *other == id) {
                    outputs[at].extend_from_slice(y);
                }
            })
        });
        finished.map_err(library)?;
        let (dict, m) = (PyDict::new(py), self.model.spec().output_width());
        for (id, y) in ids.into_iter().zip(outputs) {
            let k = y.len() / m;
            dict.set_item(id, arrays::array(py, y, &[k, m])?)?;
        }
        Ok(dict)
    }

    /// Elements that a stream has read.
    fn seen(&self, id: PyStreamId) -> PyResult<u64> {
        self.streams.seen(id.0).map_err(library)
    }

    /// A stream's state as bytes; `Stream` reads the same.
    fn snapshot<'py>(&mut self, py: Python<'py>, id: PyStreamId) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.streams.snapshot(id.0).map_err(library)?))
    }

    /// Lets a stream go on from a snapshot.
    fn restore(&mut self, id: PyStreamId, snapshot: &[u8]) -> PyResult<()> {
        self.streams.restore(id.0, snapshot).map_err(library)
    }

    fn __len__(&self) -> usize {
        self.streams.len()
    }

    fn __repr__(&self) -> String {
        format!("<StreamBatch of {}, {} live>", self.model.spec(), self.streams.len())
    }
}
