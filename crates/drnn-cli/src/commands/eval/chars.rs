//! A model for masked characters on texts: bits per masked character.

use super::{Evaluation, Request};
use crate::Failure;
use crate::args::characters::unknown;
use crate::files::model_file::ModelFile;
use crate::memory::Needs;
use crate::training;
use crate::training::placed::Placed;
use drnn::memory;
use drnn_tasks::chars::CharTask;
use drnn_train::chars::{Masked, Masking, paper_bpc};
use drnn_train::read::Symbols;
use drnn_train::{Dataset, LossSum, Metric};
use std::sync::Arc;

/// Draws the masks: different ones for every text, but the same in every run.
const SEED: u64 = 1;

/// Evaluates all windows of all texts.
pub fn evaluate(request: Request) -> Result<Evaluation, Failure> {
    let in_model = |why: String| Failure::Input(format!("{}: {why}", request.path.display()));
    let ModelFile::One(model) = &request.model else {
        return Err(in_model("a model for characters is one network".into()));
    };
    let task = CharTask::of(model).map_err(|e| in_model(e.to_string()))?;
    let (window, ahead) = (task.window(), model.spec().look_ahead());
    let cpu = training::cpu(None)?;
    let model = model.as_ref().clone().on(&cpu);
    let placed = Placed::new(&request.place, &model)?;
    let (mut found, mut windows, mut notes) = (LossSum::default(), 0, Vec::new());
    for path in request.data {
        let text = Arc::new(Symbols::read(request.reading.open(path)?, task.alphabet())?);
        notes.extend(unknown(path, &text));
        let all = 0..text.len();
        let masking = Masking { window, share: task.masked(), mask: task.mask(), seed: SEED };
        let masked = Masked::new(&path.display().to_string(), text, all, masking)?;
        let size = masked.batch_size(masked.max_eval_rows());
        Needs::new("runs over windows", memory::run(model.spec(), size))
            .check(request.force, "smaller models")?;
        windows += masked.len();
        found.add(drnn_train::evaluate(placed.runner(), &masked, 0)?);
    }
    let bits = Metric::Bits.of(&found);
    Ok(Evaluation {
        metrics: vec![
            ("bits per masked character".into(), bits),
            ("paper_bpc".into(), paper_bpc(bits, window, ahead)),
            ("accuracy".into(), Metric::Accuracy.of(&found)),
        ],
        counts: vec![("windows", windows), ("masked", found.count)],
        judged: Vec::new(),
        notes,
    })
}
