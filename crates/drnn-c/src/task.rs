//! Live sequences of models with a task: elements as text in, named predictions out.

use crate::exclusive::{Exclusive, free, handle};
use crate::memory::{set_required, utf8};
use crate::model::drnn_model;
use crate::status::drnn_status::DRNN_ERROR_ARGUMENT;
use crate::status::{Result, drnn_status, fail, guard};
use drnn_tasks::live::{LiveModel, LiveStream, Predicted, Prediction};
use std::collections::VecDeque;
use std::ffi::{CString, c_char};
use std::sync::Arc;

/// One live sequence of a model with its task. One thread may use it at a time.
pub struct drnn_task_stream(Exclusive<Live>);

/// The prediction for one element. It belongs to its stream and is valid until the next call with that.
/// Fields may be added at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct drnn_prediction {
    /// Index of the element in its sequence.
    pub position: u64,
    /// What is predicted, as UTF-8: the tag of a word, a character (as it was given, or the most
    /// probable one for a masked one), the class of a series. NULL if values are predicted.
    pub label: *const c_char,
    /// Its probability: 1 for a character that was given, 0 if `label` is NULL.
    pub probability: f64,
    /// The targets of a series in their own units, in the model's order; the outputs of a network
    /// without a task. NULL if a label is predicted.
    pub values: *const f64,
    /// The number of `values`.
    pub values_len: usize,
}

// SAFETY: the pointers are to memory of the `Live` that holds the prediction, and move with it.
unsafe impl Send for drnn_prediction {}

struct Live {
    stream: LiveStream<'static>,
    /// Predictions of a sequence that has ended.
    ended: VecDeque<Prediction<'static>>,
    /// What those two borrow from; they are dropped before it.
    model: Arc<LiveModel>,
    /// What `prediction` points to.
    label: CString,
    values: Vec<f64>,
    prediction: drnn_prediction,
}

impl Live {
    fn new(model: Arc<LiveModel>) -> Result<Live> {
        // SAFETY: the model lives on the heap, does not change, and is kept by `model` until after
        // `stream` and `ended` are dropped; nothing that borrows from it is handed out.
        let stream = LiveStream::new(unsafe { &*Arc::as_ptr(&model) })?;
        let prediction = drnn_prediction {
            position: 0,
            label: std::ptr::null(),
            probability: 0.0,
            values: std::ptr::null(),
            values_len: 0,
        };
        let (ended, label, values) = Default::default();
        Ok(Live { stream, ended, model, label, values, prediction })
    }

    fn push(&mut self, line: &str) -> Result<*const drnn_prediction> {
        if !self.ended.is_empty() {
            return fail(
                DRNN_ERROR_ARGUMENT,
                "the sequence that has ended still has predictions; \
                 call drnn_task_stream_finish until there are none",
            );
        }
        let element = self.model.line(line)?;
        let predicted = self.stream.push(&element)?;
        Ok(self.expose(predicted))
    }

    fn finish(&mut self) -> Result<*const drnn_prediction> {
        if self.ended.is_empty() {
            self.ended = self.stream.flush()?.into();
            // The last call of a sequence finds an empty queue, and then an empty sequence.
        }
        let next = self.ended.pop_front();
        Ok(self.expose(next))
    }

    /// The prediction as C sees it; NULL for none.
    fn expose(&mut self, found: Option<Prediction>) -> *const drnn_prediction {
        let Some(Prediction { position, value }) = found else { return std::ptr::null() };
        self.values.clear();
        let labelled = match value {
            Predicted::Tag { tag, probability, .. } => Some((tag.to_string(), probability)),
            Predicted::Class { class, probability, .. } => Some((class.to_string(), probability)),
            Predicted::Character { character, alternatives, .. } => {
                let probability = alternatives.first().map_or(1.0, |best| best.probability);
                Some((character.to_string(), probability))
            }
            Predicted::Named { values } => {
                self.values.extend(values.iter().map(|(_, value)| *value));
                None
            }
            Predicted::Numbers { values } => {
                self.values.extend(values.iter().map(|value| f64::from(*value)));
                None
            }
            _ => None,
        };
        let (mut label, mut probability) = (std::ptr::null(), 0.0);
        if let Some((text, of_label)) = labelled {
            self.label = CString::new(text.replace('\0', "")).unwrap_or_default();
            (label, probability) = (self.label.as_ptr(), of_label);
        }
        let (values, values_len) = (self.values.as_ptr(), self.values.len());
        let values = if values_len == 0 { std::ptr::null() } else { values };
        self.prediction = drnn_prediction { position, label, probability, values, values_len };
        &raw const self.prediction
    }
}

/// Begins a live sequence of a model with its task; of a network without one, elements are lines of
/// numbers. On success `*stream` is a handle for `drnn_task_stream_free`; on failure it is NULL.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_task_stream_new(
    model: *const drnn_model,
    stream: *mut *mut drnn_task_stream,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and the caller's place for one.
        unsafe {
            set_required(stream, std::ptr::null_mut(), "stream")?;
            let live = Live::new(handle(model, "model")?.live()?)?;
            let new = Box::new(drnn_task_stream(Exclusive::new(live)));
            set_required(stream, Box::into_raw(new), "stream")
        }
    })
}

/// Reads the next element, a text of UTF-8 that ends with NUL:
///
/// | model | element |
/// |---|---|
/// | tagger | a word: "ants" |
/// | masked characters | one character: "a"; "_" for a masked one |
/// | series | its columns: "0.5,1", or "0.5,2016-07-01 13:45,red"; NA or an empty field is missing |
/// | network | its numbers: "0.5 1"; or a token: "7" |
///
/// `*prediction` is the prediction for the element d before it, or NULL if there is none yet. An element
/// that is refused changes nothing.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_task_stream_push(
    stream: *mut drnn_task_stream,
    element: *const c_char,
    prediction: *mut *const drnn_prediction,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, a text that ends with NUL, and the caller's place for a pointer.
        unsafe {
            set_required(prediction, std::ptr::null(), "prediction")?;
            let line = utf8(element, "element")?;
            let found = handle(stream, "stream")?.0.with(|live| live.push(line))?;
            set_required(prediction, found, "prediction")
        }
    })
}

/// Ends the sequence: each call yields the next prediction still due, then NULL. Call it until then;
/// the next element begins a new sequence.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_task_stream_finish(
    stream: *mut drnn_task_stream,
    prediction: *mut *const drnn_prediction,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and the caller's place for a pointer.
        unsafe {
            set_required(prediction, std::ptr::null(), "prediction")?;
            let found = handle(stream, "stream")?.0.with(Live::finish)?;
            set_required(prediction, found, "prediction")
        }
    })
}

/// Frees a stream; NULL is allowed.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_task_stream_free(stream: *mut drnn_task_stream) {
    // SAFETY: a handle or NULL; the caller gives it up.
    unsafe { free(stream) }
}
