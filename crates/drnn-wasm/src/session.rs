//! Models and streams that JavaScript holds by handles: numbers from 1, never used again.

use crate::owned::{OwnedLive, OwnedNetwork};
use crate::sequences::{self, json};
use drnn::{Element, InputSpec, InstructionSet};
use drnn_tasks::live::LiveModel;
use std::collections::HashMap;
use std::rc::Rc;

/// Everything that is held.
#[derive(Default)]
pub struct Session {
    models: HashMap<u32, Rc<LiveModel>>,
    live: HashMap<u32, OwnedLive>,
    networks: HashMap<u32, OwnedNetwork>,
    last: u32,
}

/// A result, or why there is none, in words for people.
pub type Result<T> = std::result::Result<T, String>;

/// Version of drnn and the instruction set of its kernels, as JSON.
pub fn about() -> String {
    let set = InstructionSet::available().first().map_or("portable", |set| set.name());
    format!(r#"{{"version":"{}","instructionSet":"{set}"}}"#, env!("CARGO_PKG_VERSION"))
}

impl Session {
    /// Reads a model of any task from the bytes of its file, drnn's own.
    pub fn load(&mut self, name: &str, bytes: &[u8]) -> Result<u32> {
        let model = LiveModel::from_own_bytes(name, bytes).map_err(|e| e.to_string())?;
        let handle = self.handle()?;
        self.models.insert(handle, Rc::new(model));
        Ok(handle)
    }

    /// Releases what a handle holds. A model that streams still use stays until they are released.
    pub fn free(&mut self, handle: u32) {
        self.models.remove(&handle);
        self.live.remove(&handle);
        self.networks.remove(&handle);
    }

    /// The model's description, as in the server's list of models, and what its network reads and
    /// writes: `{.., "inputs": 7, "outputs": 5, "tokens": false}`.
    pub fn info(&self, model: u32) -> Result<String> {
        let model = self.model(model)?;
        let mut info = serde_json::to_value(model.info()).map_err(|e| e.to_string())?;
        let (inputs, tokens) = match model.spec().input() {
            InputSpec::Dense(q) => (q, false),
            InputSpec::Tokens { symbols, .. } => (symbols, true),
        };
        let outputs = model.spec().output_width();
        info["io"] = serde_json::json!({"inputs": inputs, "tokens": tokens, "outputs": outputs});
        json(&info)
    }

    /// Predictions for whole sequences: see [`sequences::run`].
    pub fn run(&self, model: u32, request: &str) -> Result<String> {
        sequences::run(self.model(model)?, request)
    }

    /// Outputs of the network for whole sequences: see [`sequences::run_network`].
    pub fn run_network(
        &self,
        model: u32,
        bytes: &[u8],
        size: (usize, usize),
        lengths: bool,
    ) -> Result<Vec<f32>> {
        sequences::run_network(self.model(model)?, bytes, size, lengths)
    }

    /// A text with its masks filled in.
    pub fn fill(&self, model: u32, text: &str) -> Result<String> {
        sequences::fill(self.model(model)?, text)
    }

    /// Words with their tags: see [`sequences::tag`].
    pub fn tag(&self, model: u32, text: &str, words: bool) -> Result<String> {
        sequences::tag(self.model(model)?, text, words)
    }

    /// Begins a live sequence of elements.
    pub fn stream(&mut self, model: u32) -> Result<u32> {
        let stream = OwnedLive::live(self.model(model)?)?;
        let handle = self.handle()?;
        self.live.insert(handle, stream);
        Ok(handle)
    }

    /// Reads the next element, as JSON; returns the prediction for the element d before it, if there
    /// is one. A refused element changes nothing.
    pub fn push(&mut self, stream: u32, element: &str) -> Result<Option<String>> {
        self.live(stream)?.with(|stream, model| {
            let element = model.json(element).map_err(|e| e.to_string())?;
            let found = stream.push(&element).map_err(|e| e.to_string())?;
            Ok(found.map(|prediction| prediction.json()))
        })
    }

    /// Ends a sequence: the predictions still due, as a JSON array. A new sequence then begins.
    pub fn flush(&mut self, stream: u32) -> Result<String> {
        self.live(stream)?.with(|stream, _| json(&stream.flush().map_err(|e| e.to_string())?))
    }

    /// Begins a new sequence, without the predictions still due.
    pub fn reset(&mut self, stream: u32) -> Result<()> {
        if let Some(live) = self.live.get_mut(&stream) {
            *live = OwnedLive::live(live.model())?;
        } else {
            let network = self.network(stream)?;
            *network = OwnedNetwork::network(network.model())?;
        }
        Ok(())
    }

    /// Elements read since the sequence of a stream began.
    pub fn position(&mut self, stream: u32) -> Result<u64> {
        match self.live.get_mut(&stream) {
            Some(live) => Ok(live.with(|stream, _| stream.position())),
            None => Ok(self.network(stream)?.with(|stream, _| stream.seen())),
        }
    }

    /// The state of a stream as bytes.
    pub fn snapshot(&mut self, stream: u32) -> Result<Vec<u8>> {
        match self.live.get_mut(&stream) {
            Some(live) => Ok(live.with(|stream, _| stream.snapshot())),
            None => Ok(self.network(stream)?.with(|stream, _| stream.snapshot())),
        }
    }

    /// Goes on from a snapshot; bytes of another model are refused, and nothing changes.
    pub fn restore(&mut self, stream: u32, bytes: &[u8]) -> Result<()> {
        match self.live.get_mut(&stream) {
            Some(live) => live.with(|to, _| to.restore(bytes).map_err(|e| e.to_string())),
            None => {
                self.network(stream)?.with(|to, _| to.restore(bytes).map_err(|e| e.to_string()))
            }
        }
    }

    /// Begins a live sequence of the network itself: plain numbers or tokens, outputs as they are.
    pub fn network_stream(&mut self, model: u32) -> Result<u32> {
        let stream = OwnedNetwork::network(self.model(model)?)?;
        let handle = self.handle()?;
        self.networks.insert(handle, stream);
        Ok(handle)
    }

    /// Reads an element of the network, q numbers; writes the output for the one d before it to `to`
    /// and returns whether there is one.
    pub fn push_numbers(&mut self, stream: u32, x: &[f32], to: &mut Vec<f32>) -> Result<bool> {
        self.push_network(stream, Element::Dense(x), to)
    }

    /// The same for a token.
    pub fn push_token(&mut self, stream: u32, token: u32, to: &mut Vec<f32>) -> Result<bool> {
        self.push_network(stream, Element::Token(token), to)
    }

    fn push_network(&mut self, stream: u32, x: Element, to: &mut Vec<f32>) -> Result<bool> {
        self.network(stream)?.with(|stream, _| {
            let y = stream.push(x).map_err(|e| e.to_string())?;
            to.clear();
            to.extend_from_slice(y.unwrap_or_default());
            Ok(y.is_some())
        })
    }

    /// Ends the sequence of a network: the outputs still due, one after another.
    pub fn finish(&mut self, stream: u32) -> Result<Vec<f32>> {
        Ok(self.network(stream)?.with(|stream, _| stream.finish().concat()))
    }

    fn model(&self, handle: u32) -> Result<&Rc<LiveModel>> {
        self.models.get(&handle).ok_or_else(|| released("model"))
    }

    fn live(&mut self, handle: u32) -> Result<&mut OwnedLive> {
        self.live.get_mut(&handle).ok_or_else(|| released("stream"))
    }

    fn network(&mut self, handle: u32) -> Result<&mut OwnedNetwork> {
        self.networks.get_mut(&handle).ok_or_else(|| released("stream"))
    }

    fn handle(&mut self) -> Result<u32> {
        self.last = self.last.checked_add(1).ok_or("too many models and streams")?;
        Ok(self.last)
    }
}

fn released(what: &str) -> String {
    format!("the {what} was released")
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, Model, NetSpec, Padding};

    fn network() -> (Session, u32) {
        let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).delay(1, Padding::Null);
        let model = Model::init(&spec.build().unwrap(), 1).unwrap();
        let mut session = Session::default();
        let handle = session.load("small", &model.to_bytes().unwrap()).unwrap();
        (session, handle)
    }

    #[test]
    fn a_stream_outlives_its_model_and_equals_a_run() {
        let (mut session, model) = network();
        let x = [0.5f32, 1.0, -0.25, 0.0, 0.75, 0.125];
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let whole = session.run_network(model, &bytes, (3, 1), false).unwrap();
        let stream = session.network_stream(model).unwrap();
        session.free(model);
        assert_eq!(session.info(model).unwrap_err(), "the model was released");
        let (mut live, mut output) = (Vec::new(), Vec::new());
        for (at, x) in x.chunks(2).enumerate() {
            assert_eq!(session.push_numbers(stream, x, &mut output).unwrap(), at > 0);
            live.extend_from_slice(&output);
        }
        live.extend(session.finish(stream).unwrap());
        assert_eq!(live, whole);
        session.free(stream);
        assert_eq!(session.position(stream).unwrap_err(), "the stream was released");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let (mut session, model) = network();
        let stream = session.stream(model).unwrap();
        assert_eq!(session.push(stream, "[1, 2]").unwrap(), None);
        for bad in ["", "[1]", "[1, null]", "\"a\"", "{", "[1e99, 1]"] {
            assert!(session.push(stream, bad).is_err(), "{bad}");
        }
        assert_eq!(session.position(stream).unwrap(), 1);
        let snapshot = session.snapshot(stream).unwrap();
        session.reset(stream).unwrap();
        assert!(session.restore(stream, &snapshot[1..]).is_err());
        session.restore(stream, &snapshot).unwrap();
        assert!(session.push(stream, "[0, 1]").unwrap().unwrap().starts_with("{\"position\":0"));
        assert!(session.run_network(model, &[0; 8], (usize::MAX, 2), true).is_err());
        assert!(session.push_token(stream, 1, &mut Vec::new()).is_err());
    }
}
