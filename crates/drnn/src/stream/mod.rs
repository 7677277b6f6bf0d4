//! One live sequence: an element in, an output out, d elements late.

pub(crate) mod batch;
mod compute;
pub(crate) mod snapshot;
pub(crate) mod step;

use crate::error::Result;
use crate::model::ModelRef;
use crate::prelude::*;
use crate::stream::step::{Element, Steps};

/// A live sequence of one model, which may be borrowed or shared ([`ModelRef`]). A push
/// allocates nothing.
///
/// ```
/// use drnn::{Cell, Model, NetSpec, Padding, Stream};
///
/// let spec = NetSpec::builder(Cell::Gru).dense(1).units([8]).delay(2, Padding::Null).build()?;
/// let model = Model::init(&spec, 1)?;
/// let mut stream = Stream::new(&model)?;
/// assert!(stream.push(&[0.1])?.is_none()); // the output for this one ..
/// assert!(stream.push(&[0.2])?.is_none());
/// assert!(stream.push(&[0.3])?.is_some()); // .. is known here
/// assert_eq!(stream.finish().len(), 2); // the last two, after two padding steps
/// # Ok::<(), drnn::Error>(())
/// ```
pub struct Stream<M> {
    model: M,
    steps: Steps,
}

impl<M: ModelRef> Stream<M> {
    /// A sequence that has not begun. Bidirectional networks cannot stream.
    pub fn new(model: M) -> Result<Stream<M>> {
        let mut steps = Steps::new(model.model())?;
        steps.grow(&model.model().net(), 1);
        Ok(Stream { model, steps })
    }

    /// Reads the next element; returns the output for the one d before it, once there is one. An element that is
    /// refused changes nothing.
    pub fn push<'a>(&mut self, element: impl Into<Element<'a>>) -> Result<Option<&[f32]>> {
        let (model, element) = (self.model.model(), element.into());
        element.check(model.spec(), self.steps.seen(0), 0)?;
        let net = model.net();
        self.steps.clear();
        self.steps.add(&net, 0, element);
        self.steps.run(&net, model);
        Ok(self.steps.outputs(model.spec()).next().map(|(_, output)| output))
    }

    /// Ends the sequence: the outputs still due, in order. The stream is then as new.
    ///
    /// With [`crate::Padding::LookAhead`] there are none, because the last d elements were there to be looked at;
    /// but for a flattened stack's lag of k - 1 steps.
    pub fn finish(&mut self) -> Vec<Vec<f32>> {
        let model = self.model.model();
        let net = model.net();
        let mut rest = Vec::new();
        let slots = core::iter::once(0);
        self.steps.drain(&net, model, slots, |_, output| rest.push(output.to_vec()));
        self.steps.reset(&net, 0);
        rest
    }

    /// Elements pushed since the sequence began.
    pub fn seen(&self) -> u64 {
        self.steps.seen(0)
    }

    /// The state as bytes, to go on later or elsewhere.
    pub fn snapshot(&mut self) -> Vec<u8> {
        let model = self.model.model();
        snapshot::save(&model.net(), model, &mut self.steps, 0)
    }

    /// Goes on from a snapshot. Bytes of another network are refused, and nothing changes.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let model = self.model.model();
        snapshot::load(&model.net(), model, &mut self.steps, 0, bytes)
    }
}
