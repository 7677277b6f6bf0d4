//! Validation of a training on series: what the model does in use, after every epoch.

use super::score::Scorer;
use super::sequences::Sequences;
use crate::error::Result;
use crate::loss::Metric;
use crate::training::{Engine, Epoch, Measure, Validated, Validation, ValidationRun};
use drnn::{Model, NetSpec};
use drnn_tasks::series::SeriesTask;

/// Scores the network on a part of the data, see [`Scorer::score`]: mean squared error in the targets'
/// own units, or accuracy.
///
/// It costs one pass over each sequence from its beginning to the end of the part, on this machine's
/// processor whatever device the engine is on.
#[derive(Debug, Clone)]
pub struct SeriesValidation {
    scorer: Scorer,
    spec: NetSpec,
    measure: Measure,
}

impl SeriesValidation {
    /// For networks of this spec.
    pub fn new(spec: &NetSpec, task: &SeriesTask, part: &Sequences) -> Result<SeriesValidation> {
        let scorer = Scorer::new(task, part)?;
        let names = task.targets.join(", ");
        let metric = scorer.metric();
        let of = match metric {
            Metric::Accuracy => format!("classes of {names}"),
            _ => format!("{names} in own units"),
        };
        Ok(SeriesValidation { scorer, spec: spec.clone(), measure: Measure { metric, of } })
    }

    /// The data, ready to be scored.
    pub fn scorer(&self) -> &Scorer {
        &self.scorer
    }
}

impl<E: Engine> Validation<E> for SeriesValidation {
    fn measure(&self) -> Measure {
        self.measure.clone()
    }

    fn sequences(&self, _: &E) -> usize {
        self.scorer.sequences()
    }

    fn check(&self, _: &E) -> Result<()> {
        self.scorer.fits(&self.spec)
    }

    fn validate(&self, engine: &mut E, run: &ValidationRun) -> Result<Validated> {
        let model = Model::from_params(&self.spec, engine.params()?)?.on(run.cpu);
        let found = self.scorer.score(&model)?;
        Ok(Validated { loss: found.loss, score: found.quality().unwrap_or(f64::NAN) })
    }

    /// Earlier versions validated windows, from zero states.
    fn earlier_score(&self, _: &Epoch) -> Option<f64> {
        None
    }
}
