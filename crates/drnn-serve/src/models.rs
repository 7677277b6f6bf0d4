//! The models that are served, by name.

use crate::error::ConfigError;
use crate::http::api_error::ApiError;
use crate::limits::memory::StreamSize;
use crate::limits::options::Options;
use crate::metrics::Metrics;
use crate::run::runner::Runner;
use crate::stream::stepper::Stepper;
use drnn_tasks::live::LiveModel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The models to serve, by name.
///
/// ```
/// use drnn::{Cell, Model, NetSpec, Padding};
/// use drnn_tasks::live::LiveModel;
///
/// let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).delay(1, Padding::Null).build()?;
/// let mut models = drnn_serve::Models::new();
/// models.add(LiveModel::new("sensor", Model::init(&spec, 1)?)?)?; // or LiveModel::load(path)?
/// assert_eq!(models.names(), ["sensor"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Models {
    by_name: BTreeMap<String, LiveModel>,
}

impl Models {
    /// No models.
    pub fn new() -> Models {
        Models::default()
    }

    /// Adds a model under its name ([`LiveModel::named`] changes it): up to 100 letters, digits, `.`,
    /// `_` and `-`, different from the names of the others.
    pub fn add(&mut self, model: LiveModel) -> Result<(), ConfigError> {
        let name = model.name();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 100 || !name.chars().all(allowed) {
            return Err(ConfigError::ModelName(name.into()));
        }
        if self.by_name.contains_key(name) {
            return Err(ConfigError::DuplicateModel(name.into()));
        }
        self.by_name.insert(name.into(), model);
        Ok(())
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    /// Starts the threads of all models.
    pub(crate) fn start(
        self,
        options: &Options,
        metrics: &Metrics,
    ) -> std::io::Result<ServedModels> {
        let mut all = BTreeMap::new();
        for (name, model) in self.by_name {
            let model = Arc::new(model);
            let facts = serde_json::to_string(&model.info()).map_err(std::io::Error::other)?;
            let stepper = match model.streams() {
                true => Some(Stepper::start(&model, options.wait, metrics.work(&name, "stream"))?),
                false => None,
            };
            let runner = Runner::start(&model, options, metrics.work(&name, "run"))?;
            let max_prediction = model.max_prediction_bytes();
            let served = Served { model, facts, max_prediction, stepper, runner };
            all.insert(name, Arc::new(served));
        }
        Ok(ServedModels(all))
    }
}

/// A model with its threads.
pub struct Served {
    pub model: Arc<LiveModel>,
    /// Its description for clients, as JSON.
    pub facts: String,
    /// Maximum bytes of a prediction as JSON.
    pub max_prediction: usize,
    /// None for a bidirectional model, which does not stream.
    pub stepper: Option<Stepper>,
    pub runner: Runner,
}

/// All served models, by name.
pub struct ServedModels(BTreeMap<String, Arc<Served>>);

impl ServedModels {
    /// The models, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Served> {
        self.0.values().map(Arc::as_ref)
    }

    /// An upper bound on the size of a stream of any model.
    pub fn largest_stream(&self) -> StreamSize {
        let streams = self.iter().filter(|served| served.stepper.is_some());
        streams.fold(StreamSize::default(), |max, Served { model, max_prediction, .. }| {
            StreamSize {
                prediction: max.prediction.max(*max_prediction),
                delay: max.delay.max(model.latency()),
                state: max.state.max(model.state_bytes()),
            }
        })
    }

    /// The model of this name; the name is optional if there is one model.
    pub fn get(&self, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        let names = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => self.0.get(name),
            None if self.0.len() == 1 => self.0.values().next(),
            None => {
                return Err(ApiError::malformed(format!(
                    "the model is missing; available: {}",
                    names()
                )));
            }
        };
        // The requested name is not repeated: it may be long, or contain secrets.
        found.cloned().ok_or_else(|| {
            ApiError::unknown_model(format!("unknown model; available: {}", names()))
        })
    }
}
