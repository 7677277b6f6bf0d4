//! Series that were read and split, ready for training.

use crate::Failure;
use crate::args::network::DEFAULT_DELAY;
use crate::console::{note, warning};
use crate::memory::Needs;
use drnn::memory::{self, BatchSize};
use drnn::text::{counted, grouped};
use drnn::{Direction, NetSpec};
use drnn_tasks::series::SeriesTask;
use drnn_train::series::{
    ScoredBaseline, Sequences, SeriesBaselines, SeriesValidation, Windows, scoring_steps,
    series_baselines,
};

/// The data split into training, validation and test set, with classes and scaling from the
/// training set.
pub struct Ready {
    pub task: SeriesTask,
    /// Describes the data; a checkpoint of other data is refused.
    pub what: String,
    pub train: Sequences,
    pub valid: Sequences,
    pub test: Option<Sequences>,
    /// For stderr and the report.
    pub notes: Vec<String>,
    pub(super) window: usize,
    /// Of the task's classes, in the gradient.
    pub(super) class_weights: Option<Vec<f32>>,
}

impl Ready {
    /// The delay of a delayed network unless the user says another: forecasts have none, because
    /// an output that is late is a forecast of less.
    pub fn default_delay(&self) -> usize {
        match self.task.forecast {
            Some(_) => 0,
            None => DEFAULT_DELAY.min(self.valid.longest().saturating_sub(1)),
        }
    }

    /// The shortest horizon of a forecast.
    pub fn nearest(&self) -> Option<usize> {
        self.task.forecast.as_ref().and_then(|forecast| forecast.ahead.first().copied())
    }

    /// Refuses a network that would read what is to be forecast.
    pub fn check_network(&self, spec: &NetSpec) -> Result<(), Failure> {
        match self.nearest() {
            Some(ahead) if spec.direction() != Direction::Forward => {
                let cell = spec.cell().name();
                Err(Failure::Input(format!(
                    "--ahead {ahead} with --net bi{cell}: a bidirectional network reads the whole \
                     sequence, also what is to be forecast; use a network such as {cell} or d{cell}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Notes what these delays mean for a forecast.
    pub fn explain_delays(&mut self, delays: &[usize]) {
        let horizons = self.task.forecast.iter().flat_map(|forecast| forecast.ahead.clone());
        let mut notes = Vec::new();
        for (ahead, &delay) in horizons.flat_map(|ahead| delays.iter().map(move |d| (ahead, d))) {
            let late = counted(delay, "step");
            if delay >= ahead {
                notes.push(format!(
                    "--ahead {ahead} with a delay of {late} is no forecast: the output comes when \
                     the target is known already; use --delay below {ahead}."
                ));
            } else if delay > 0 && delays.len() == 1 {
                notes.push(format!(
                    "--ahead {ahead} with a delay of {late}: the output comes {late} after its \
                     row, {} before the target.",
                    counted(ahead - delay, "step")
                ));
            }
        }
        notes.iter().for_each(|text| note!("{text}"));
        self.notes.extend(notes);
    }

    /// The training set in windows with `ahead` look-ahead steps.
    pub fn windows(&self, ahead: usize) -> Result<Windows, Failure> {
        let windows = Windows::new(&self.train, &self.task, self.window, ahead)?;
        Ok(match &self.class_weights {
            Some(weights) => windows.with_class_weights(weights.clone()),
            None => windows,
        })
    }

    /// What simple predictors achieve; those with lagged inputs look as far ahead as a network of this
    /// latency.
    pub fn baselines(&self, latency: Option<usize>) -> Result<Vec<ScoredBaseline>, Failure> {
        Ok(series_baselines(&SeriesBaselines {
            task: &self.task,
            train: &self.train,
            valid: &self.valid,
            test: self.test.as_ref(),
            look_ahead: latency,
        })?)
    }

    /// How networks of this spec are scored on the validation set, and on the test set if there is one.
    pub fn validation(&self, spec: &NetSpec) -> Result<SeriesValidation, Failure> {
        Ok(SeriesValidation::new(spec, &self.task, &self.valid)?)
    }

    /// The same on the test set, if there is one.
    pub fn test_validation(&self, spec: &NetSpec) -> Result<Option<SeriesValidation>, Failure> {
        let of = |part: &Sequences| SeriesValidation::new(spec, &self.task, part);
        Ok(self.test.as_ref().map(of).transpose()?)
    }

    /// Warns of a delay for which the data are too short.
    pub fn warn_of_long_delay(&self, delay: usize) {
        self.long_delay(delay).iter().for_each(|text| warning!("{text}"));
    }

    /// What is too short for a delay: windows, or a set whose outputs would all be computed after the
    /// end of the data.
    fn long_delay(&self, delay: usize) -> Vec<String> {
        let mut all = Vec::new();
        let shortest = self.window.min(self.train.longest());
        if delay > shortest {
            all.push(format!(
                "a delay of {} is longer than the windows of {} steps that the network is trained on; \
                 longer windows (--window) or a shorter --delay may be better",
                grouped(delay),
                grouped(shortest)
            ));
        }
        let sets = [
            ("training", Some(&self.train)),
            ("validation", Some(&self.valid)),
            ("test", self.test.as_ref()),
        ];
        for (name, set) in sets.into_iter().filter_map(|(name, set)| Some((name, set?))) {
            let (steps, after) = (set.longest(), set.longest_whole() - set.longest_run());
            if delay >= steps + after {
                all.push(format!(
                    "a delay of {}, but the {name} set has {} and {} after it: all its outputs are \
                     computed after the data have ended",
                    grouped(delay),
                    counted(steps, "step"),
                    grouped(after)
                ));
            }
        }
        all
    }

    /// The memory to evaluate a network.
    pub fn scoring(&self, spec: &NetSpec) -> Needs {
        let sets = [Some(&self.valid), self.test.as_ref()].into_iter().flatten();
        let steps = sets.map(|set| scoring_steps(spec, set)).max().unwrap_or(0);
        let run = memory::run(spec, BatchSize::new(steps, 1));
        Needs::new("scoring", memory::model(spec).saturating_add(run))
    }
}
