//! A sequence through the model: live where that is possible, so that memory does not grow with its
//! length; whole where the network is bidirectional, or on a GPU.

use crate::Failure;
use crate::training::placed::PlacedLive;
use drnn_tasks::live::{Element, LiveModel, LiveRun, LiveStream, Prediction};

/// Predicts sequences, one after the other. Predictions come in the order of the elements.
pub enum Predictor<'m> {
    Live(Box<LiveStream<'m>>),
    /// With the elements read so far.
    Whole(LiveRun<'m>, Vec<Element>),
}

impl<'m> Predictor<'m> {
    pub fn new(model: &'m LiveModel, placed: &'m PlacedLive) -> Result<Predictor<'m>, Failure> {
        Ok(match model.streams() && !placed.is_on_gpu() {
            true => Predictor::Live(Box::new(LiveStream::new(model)?)),
            false => Predictor::Whole(placed.run(), Vec::new()),
        })
    }

    /// Reads an element; returns the prediction that is known now, of an element before it.
    pub fn push(&mut self, element: Element) -> Result<Option<Prediction<'m>>, Failure> {
        match self {
            Predictor::Live(stream) => Ok(stream.push(&element)?),
            Predictor::Whole(_, elements) => {
                elements.push(element);
                Ok(None)
            }
        }
    }

    /// Ends the sequence: the predictions that are still due.
    pub fn end(&mut self) -> Result<Vec<Prediction<'m>>, Failure> {
        match self {
            Predictor::Live(stream) => Ok(stream.flush()?),
            Predictor::Whole(run, elements) => {
                let mut whole = [run.read(&std::mem::take(elements))?];
                let mut found = Vec::new();
                run.run(&mut whole, |_, prediction| found.push(prediction))?;
                Ok(found)
            }
        }
    }
}
