//! Validation of a training on series: what the model does in use, after every epoch.

use super::score::Scorer;
use super::sequences::Sequences;
use crate::error::Result;
use crate::loss::Metric;
use crate::training::{Engine, Epoch, Measure, Validated, Validation, ValidationRun};
use drnn::text::shortened;
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
        let names = named(&task.targets);
        let measure = Measure::new(scorer.metric());
        let measure = match measure.metric {
            Metric::Accuracy => measure.of(format!("classes of {names}")),
            _ => Measure {
                loss: format!("squared error, {names} scaled"),
                ..measure.of(format!("{names} in own units"))
            },
        };
        Ok(SeriesValidation { scorer, spec: spec.clone(), measure })
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

/// Names of targets, of many only their number.
fn named(targets: &[String]) -> String {
    match targets {
        [] | [_] | [_, _] | [_, _, _] => {
            targets.iter().map(|name| shortened(name, 40)).collect::<Vec<_>>().join(", ")
        }
        _ => format!("{} targets", targets.len()),
    }
}
