//! What is measured after every epoch: one number that is shown, that chooses the model, and that
//! stops the training.
//!
//! ```text
//! epoch -> Validation::validate -> Validated { loss, score } -> history -> log, best model, patience, schedule
//! ```
//!
//! [`OnData`] measures with the engine itself, on any data set. Tasks whose models are used
//! differently from how they are trained have validations of their own:
//! [`crate::series::SeriesValidation`], [`crate::tagger::TaggerValidation`].

use super::{Engine, Epoch};
use crate::error::Result;
use crate::loss::{LossSum, Metric};
use drnn::Cpu;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Deref;

/// A metric, and what it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// The metric.
    pub metric: Metric,
    /// What it is of and in which unit, such as `y in own units`; empty where the metric says it all.
    pub of: String,
    /// What the losses of epochs are: `squared error, scaled`, `cross-entropy in nats`.
    pub loss: String,
}

impl Measure {
    /// A metric that needs no further words.
    pub fn new(metric: Metric) -> Measure {
        let loss = match metric {
            Metric::Accuracy | Metric::Bits => "cross-entropy in nats",
            Metric::SquaredError => "squared error",
            Metric::Loss => "loss",
        };
        Measure { metric, of: String::new(), loss: loss.into() }
    }

    /// The same, of `of`.
    pub fn of(self, of: impl Into<String>) -> Measure {
        Measure { of: of.into(), ..self }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.of.as_str() {
            "" => write!(f, "{}", self.metric),
            of => write!(f, "{}, {of}", self.metric),
        }
    }
}

/// A model on the validation set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Validated {
    /// Loss as in training: scaled values, natural logarithms.
    pub loss: LossSum,
    /// The measure.
    pub score: f64,
}

/// When and with what a validation runs.
#[derive(Debug, Clone, Copy)]
pub struct ValidationRun<'a> {
    /// The epoch, counted from 0.
    pub epoch: usize,
    /// Maximum number of sequences to evaluate as one batch.
    pub rows: usize,
    /// Threads to compute with; no result depends on them.
    pub cpu: &'a Cpu,
}

/// Measures a model on the validation set, after every epoch.
pub trait Validation<E: Engine>: Send + Sync {
    /// What [`Validated::score`] is.
    fn measure(&self) -> Measure;

    /// Number of sequences: part of what a checkpoint must agree in.
    fn sequences(&self, engine: &E) -> usize;

    /// Whether the data fit the network; the error says why not.
    fn check(&self, engine: &E) -> Result<()>;

    /// Measures the model in its present state. Changes nothing that training depends on.
    fn validate(&self, engine: &mut E, run: &ValidationRun) -> Result<Validated>;

    /// The score of an epoch in a checkpoint of an earlier version, which holds losses only; None
    /// where it does not follow from them.
    fn earlier_score(&self, epoch: &Epoch) -> Option<f64> {
        match self.measure().metric {
            Metric::Accuracy => epoch.valid_accuracy,
            Metric::Bits => Some(epoch.valid_loss / std::f64::consts::LN_2),
            Metric::SquaredError | Metric::Loss => Some(epoch.valid_loss),
        }
    }
}

/// A reference to a validation, or any other owner, is one too.
impl<E: Engine, V: Deref<Target: Validation<E>> + Send + Sync> Validation<E> for V {
    fn measure(&self) -> Measure {
        (**self).measure()
    }

    fn sequences(&self, engine: &E) -> usize {
        (**self).sequences(engine)
    }

    fn check(&self, engine: &E) -> Result<()> {
        (**self).check(engine)
    }

    fn validate(&self, engine: &mut E, run: &ValidationRun) -> Result<Validated> {
        (**self).validate(engine, run)
    }

    fn earlier_score(&self, epoch: &Epoch) -> Option<f64> {
        (**self).earlier_score(epoch)
    }
}

/// A data set, evaluated by the engine as it is trained.
pub struct OnData<'a, D: ?Sized> {
    data: &'a D,
    metric: Metric,
    redrawn: bool,
}

impl<'a, D: ?Sized> OnData<'a, D> {
    /// Measures `metric`. What is drawn at random, such as masks, is the same after every epoch, so
    /// that epochs can be compared.
    pub fn new(data: &'a D, metric: Metric) -> OnData<'a, D> {
        OnData { data, metric, redrawn: false }
    }

    /// Measures the loss. What is drawn at random is drawn anew for every epoch.
    pub fn redrawn_loss(data: &'a D) -> OnData<'a, D> {
        OnData { data, metric: Metric::Loss, redrawn: true }
    }
}

impl<D: ?Sized + Sync, E: Engine<Data = D>> Validation<E> for OnData<'_, D> {
    fn measure(&self) -> Measure {
        Measure::new(self.metric)
    }

    fn sequences(&self, engine: &E) -> usize {
        engine.sequences(self.data)
    }

    fn check(&self, engine: &E) -> Result<()> {
        engine.check(self.data)
    }

    fn validate(&self, engine: &mut E, run: &ValidationRun) -> Result<Validated> {
        let epoch = if self.redrawn { run.epoch } else { 0 };
        let loss = engine.loss(self.data, epoch, run.rows)?;
        Ok(Validated { loss, score: self.metric.of(&loss) })
    }
}
