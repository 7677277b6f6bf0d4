//! The models that are served, by name.

use crate::http::api_error::Refusal;
use crate::limits::memory::StreamSize;
use crate::limits::options::Options;
use crate::metrics::Metrics;
use crate::run::runner::Runner;
use crate::stream::stepper::Stepper;
use drnn_tasks::live::LiveModel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Models by their names.
#[derive(Debug, Default)]
pub struct Models {
    by_name: BTreeMap<String, LiveModel>,
}

impl Models {
    /// None yet.
    pub fn new() -> Models {
        Models::default()
    }

    /// One more, under a name that is good in a path, a label and a log, and not taken.
    pub fn add(&mut self, model: LiveModel) -> Result<(), String> {
        let name = model.name();
        let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 100 || !name.chars().all(good) {
            return Err(format!(
                "{name:?} is no name for a model: up to 100 letters, digits, `.`, `_` and `-`; NAME=FILE gives another"
            ));
        }
        if self.by_name.contains_key(name) {
            return Err(format!("two models are called {name}; NAME=FILE gives one another name"));
        }
        self.by_name.insert(name.into(), model);
        Ok(())
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    /// With the threads that run them.
    pub(crate) fn start(self, options: &Options, metrics: &Metrics) -> std::io::Result<AllServed> {
        let mut all = BTreeMap::new();
        for (name, model) in self.by_name {
            let model = Arc::new(model);
            let facts = serde_json::to_string(&model.facts()).map_err(std::io::Error::other)?;
            let stepper = match model.streams() {
                true => Some(Stepper::start(&model, options.wait, metrics.work(&name, "stream"))?),
                false => None,
            };
            let runner = Runner::start(&model, options, metrics.work(&name, "run"))?;
            let longest_answer = model.longest_answer();
            let served = Served { model, facts, longest_answer, stepper, runner };
            all.insert(name, Arc::new(served));
        }
        Ok(AllServed(all))
    }
}

/// A model that is served.
pub struct Served {
    pub model: Arc<LiveModel>,
    /// What clients are told of it, as JSON.
    pub facts: String,
    /// Bytes of its longest answer ([`LiveModel::longest_answer`]).
    pub longest_answer: usize,
    /// None where it does not stream.
    pub stepper: Option<Stepper>,
    pub runner: Runner,
}

/// All of them.
pub struct AllServed(BTreeMap<String, Arc<Served>>);

impl AllServed {
    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Served> {
        self.0.values().map(Arc::as_ref)
    }

    /// The largest that a stream of any of them can be.
    pub fn largest_stream(&self) -> StreamSize {
        let streams = self.iter().filter(|served| served.stepper.is_some());
        streams.fold(StreamSize::default(), |most, Served { model, longest_answer, .. }| {
            StreamSize {
                answer: most.answer.max(*longest_answer),
                delay: most.delay.max(model.latency()),
                state: most.state.max(model.state_bytes()),
            }
        })
    }

    /// By its name, which may be left out where there is one.
    pub fn get(&self, name: Option<&str>) -> Result<Arc<Served>, Refusal> {
        let names = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => self.0.get(name),
            None if self.0.len() == 1 => self.0.values().next(),
            None => {
                return Err(Refusal::malformed(format!("say which model: {}", names())));
            }
        };
        // What was asked for is not repeated: it may be long, or not for logs.
        found.cloned().ok_or_else(|| {
            Refusal::unknown_model(format!("no model has that name; there are: {}", names()))
        })
    }
}
