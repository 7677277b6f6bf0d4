//! The loss of a model on data, without an engine: as the model runs, with weights of any format.

use crate::data::{Dataset, Gathered};
use crate::error::Result;
use crate::loss::{LossSum, loss};
use drnn_tasks::Runner;

/// The loss of `model` on all sequences of `data`, as drawn for `epoch`. For weights of f32 it is that of
/// an engine with the same parameters.
pub fn evaluate(model: &dyn Runner, data: &dyn Dataset, epoch: usize) -> Result<LossSum> {
    let spec = model.spec();
    data.check(spec)?;
    let mut gathered = Gathered { look_ahead: spec.look_ahead(), ..Gathered::default() };
    let (mut total, mut d_outputs) = (LossSum::default(), Vec::new());
    let all: Vec<u32> = (0..data.len() as u32).collect();
    for chosen in all.chunks(data.max_eval_rows().max(1)) {
        data.gather(epoch, chosen, &mut gathered);
        let outputs = model.run(&gathered.batch(), None)?.values;
        d_outputs.resize(outputs.len(), 0.0);
        total.add(loss(&outputs, spec.output_width(), gathered.targets(), &mut d_outputs));
    }
    Ok(total)
}
