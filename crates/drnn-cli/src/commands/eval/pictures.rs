//! What a series model predicts, for pictures: some steps in their order, and pairs of truth and
//! prediction from all of the data.

use crate::Failure;
use crate::report::predictions::{MAX_PICTURED, Stretch};
use crate::report::training_run::Judged;
use drnn::Model;
use drnn_tasks::series::SeriesTask;
use drnn_train::Targets;
use drnn_train::series::Scorer;

/// Steps in a picture over time: more cannot be distinguished.
const STEPS: usize = 240;
/// Pairs in a scatter plot, at most.
const PAIRS: usize = 500;

/// Of each target that is a value; the first few where there are many.
pub fn pictures(
    model: &Model,
    task: &SeriesTask,
    scorer: &Scorer,
    set: &str,
) -> Result<Vec<Judged>, Failure> {
    let Some(scaling) = &task.scaling.targets else { return Ok(Vec::new()) };
    let (steps, every) = (scorer.stretch(STEPS), scorer.steps().div_ceil(PAIRS).max(1));
    let missing = || vec![f64::NAN; steps.len()];
    let mut found: Vec<Stretch> = task
        .targets
        .iter()
        .take(MAX_PICTURED)
        .map(|target| Stretch {
            target: drnn::text::shortened(target, 40),
            set: set.into(),
            first: steps.start,
            truth: missing(),
            predicted: missing(),
            pairs: Vec::new(),
        })
        .collect();
    let mut count = 0;
    scorer.each_prediction(model, |step, y, targets| {
        let Targets::Values(truth) = targets else { return };
        let at = steps.contains(&step).then(|| step - steps.start);
        let paired = count % every == 0;
        count += 1;
        for (k, stretch) in found.iter_mut().enumerate() {
            let (predicted, truth) = (scaling.undo(k, y[k]), scaling.undo(k, truth[k]));
            if let Some(at) = at {
                (stretch.truth[at], stretch.predicted[at]) = (truth, predicted);
            }
            if paired && truth.is_finite() {
                stretch.pairs.push([truth, predicted]);
            }
        }
    })?;
    Ok(found.into_iter().map(Judged::Stretch).collect())
}
