//! What a sweep needs from a task.

use crate::Failure;
use crate::args::network::NetworkKind;
use crate::args::shape::Shape;
use crate::memory::Needs;
use crate::report::sweep::Run;
use crate::training::kept::Trained;
use crate::training::place::Place;
use drnn::Cpu;
use drnn_train::baseline::Baseline;
use drnn_train::{
    Engine, Given, MIN_EVAL_ROWS, Metric, Options, Reason, Validation, ValidationRun,
    late_improvement,
};
use std::path::Path;

/// How the networks of a task are measured on a set of data.
pub type Measured<'a, T> = Box<dyn Validation<<T as SweepTask>::Engine> + 'a>;

/// The data that an engine is trained on.
pub type Data<T> = <<T as SweepTask>::Engine as Engine>::Data;

/// A task with its data.
pub trait SweepTask {
    /// The engine that trains its networks.
    type Engine: Engine;

    /// Its name, such as `reversal`.
    fn name(&self) -> &'static str;

    /// Describes task and data; a checkpoint of others is refused.
    fn describe(&self) -> String;

    /// The measure by which networks are compared.
    fn metric(&self) -> Metric;

    /// The training set of a network, as `drnn train` would use it.
    fn train(&self, shape: &Shape) -> &Data<Self>;

    /// The number of sequences of training, validation and test set.
    fn sequences(&self) -> [usize; 3];

    /// The default delays.
    fn delays(&self) -> Vec<usize>;

    /// Whether such a network makes sense for the task; others are left out.
    fn accepts(&self, _kind: NetworkKind) -> bool {
        true
    }

    /// The longest delay: with it the whole sequence is read.
    fn max_delay(&self) -> usize;

    /// The longest delay that makes sense.
    fn useful_delay(&self) -> usize {
        self.max_delay()
    }

    /// The default training options, where the command line gives this much.
    fn options(&self, given: Given) -> Options;

    /// A bidirectional network with no more parameters than the unidirectional one.
    fn same_size(&self, shape: Shape) -> Result<Shape, Failure>;

    /// The memory to train a network.
    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure>;

    /// What simple predictors achieve on the same rows; those with lagged inputs look ahead by the
    /// longest delay.
    fn baselines(&self, _longest_delay: usize) -> Result<Vec<Baseline>, Failure> {
        Ok(Vec::new())
    }

    /// A network to be trained.
    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<Self::Engine, Failure>;

    /// How a network is measured on the validation set, after every epoch.
    fn validation(&self, shape: &Shape) -> Result<Measured<'_, Self>, Failure>;

    /// The same on the test set, in the end; None if there is none.
    fn test(&self, shape: &Shape) -> Result<Option<Measured<'_, Self>>, Failure>;

    /// Writes a trained network as `drnn train` would.
    fn save(&self, engine: &mut Self::Engine, path: &Path) -> Result<(), Failure>;

    /// The scores of a trained network.
    fn score(
        &self,
        trained: &mut Trained<Self::Engine>,
        cpu: &Cpu,
        shape: &Shape,
        repetition: usize,
    ) -> Result<Run, Failure> {
        let (valid, kept_epoch) = (trained.valid(), trained.epoch());
        let Trained { trainer, progress, ended, .. } = trained;
        let options = *trainer.options();
        let engine = trainer.engine();
        let run = ValidationRun { epoch: 0, rows: options.batch.max(MIN_EVAL_ROWS), cpu };
        let test = match (valid, self.test(shape)?) {
            (Some(_), Some(test)) => Some(test.validate(engine, &run)?.score),
            _ => None,
        };
        Ok(Run {
            net: shape.to_string(),
            repetition,
            seed: Some(options.seed),
            delay: shape.latency(),
            compared: !shape.kind.delayed(),
            parameters: engine.state()?.params.len(),
            valid,
            test,
            epochs: progress.history.len(),
            kept_epoch: Some(kept_epoch),
            late_improvement: (*ended == Reason::Epochs)
                .then(|| late_improvement(self.metric(), &progress.history)),
            ended: *ended,
            seconds: progress.seconds,
        })
    }
}
