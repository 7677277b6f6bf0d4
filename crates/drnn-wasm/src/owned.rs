//! Streams that keep their model alive: JavaScript may release the two in any order.

use drnn::{Model, Stream};
use drnn_tasks::live::{LiveModel, LiveStream};
use std::rc::Rc;

/// A stream that borrows from a model, and that model. The stream is declared, and so dropped, first.
pub(crate) struct Owned<S> {
    stream: S,
    model: Rc<LiveModel>,
}

/// A live sequence of a model with its task.
pub(crate) type OwnedLive = Owned<LiveStream<'static>>;
/// A live sequence of a model's network: plain numbers or tokens.
pub(crate) type OwnedNetwork = Owned<Stream<&'static Model>>;

impl<S> Owned<S> {
    fn new<E: ToString>(
        model: &Rc<LiveModel>,
        make: impl FnOnce(&'static LiveModel) -> Result<S, E>,
    ) -> Result<Owned<S>, String> {
        let model = model.clone();
        // SAFETY: the model is on the heap and never moved or changed; `model` keeps it alive until
        // the stream, the only one that holds this reference, is dropped. `get` shortens it again.
        let forever: &'static LiveModel = unsafe { &*Rc::as_ptr(&model) };
        let stream = make(forever).map_err(|e| e.to_string())?;
        Ok(Owned { stream, model })
    }

    /// The stream and its model. What a stream returns may borrow from its model, so it must be used
    /// up before the stream is dropped: `with` returns nothing that borrows.
    pub fn with<T: 'static>(&mut self, act: impl FnOnce(&mut S, &LiveModel) -> T) -> T {
        act(&mut self.stream, &self.model)
    }

    pub fn model(&self) -> &Rc<LiveModel> {
        &self.model
    }
}

impl OwnedLive {
    pub fn live(model: &Rc<LiveModel>) -> Result<OwnedLive, String> {
        Owned::new(model, LiveStream::new)
    }
}

impl OwnedNetwork {
    pub fn network(model: &Rc<LiveModel>) -> Result<OwnedNetwork, String> {
        Owned::new(model, |model| Stream::new(model.network()))
    }
}
