//! A sweep over the user's series.

use super::Sweep;
use super::task::{Measured, SweepTask};
use crate::Failure;
use crate::args::network::NetworkKind;
use crate::args::series::{Ready, SeriesData};
use crate::args::shape::Shape;
use crate::commands::train::series::metric;
use crate::memory::Needs;
use crate::training::place::{Network, Place};
use clap::Args;
use drnn::{Cpu, NetSpec, Padding};
use drnn_tasks::series::SeriesTask;
use drnn_train::baseline::Baseline;
use drnn_train::series::{ScoredBaseline, Sequences, Windows, suggested};
use drnn_train::{Dataset, Given, Metric, Options};
use std::path::Path;

/// Sequences of numbers from a table or from arrays: mean squared error, or accuracy
#[derive(Debug, Args)]
pub struct SeriesSweep {
    #[command(flatten)]
    data: SeriesData,
    #[command(flatten)]
    pub sweep: Sweep,
}

/// Data, the training set in windows.
pub struct Series {
    ready: Ready,
    /// The training set for each delay, which differ in their look-ahead.
    train: Vec<(usize, Windows)>,
    max_delay: usize,
}

/// The default delays.
const DELAYS: [usize; 5] = [0, 1, 2, 5, 10];

impl SeriesSweep {
    pub fn ready(&self, seed: u64) -> Result<Series, Failure> {
        let mut ready = self.data.ready(seed, None)?;
        let longest = [&ready.train, &ready.valid].map(|part| part.longest()).into_iter().max();
        let max_delay = longest.unwrap_or(1).saturating_sub(1);
        let delays = self.sweep.delays(&suggested_delays(max_delay, ready.nearest()));
        ready.explain_delays(&delays);
        let longest = delays.iter().copied().max().unwrap_or(0);
        // Networks without a delay read no more than the windows.
        let windows = ready.windows(0)?;
        let with = |delay: usize| (delay, windows.with_look_ahead(delay));
        let train = [0].into_iter().chain(delays).map(with).collect();
        ready.warn_of_long_delay(longest);
        Ok(Series { ready, train, max_delay })
    }
}

/// The longest delay that makes sense: shorter than the nearest horizon of a forecast.
fn useful_delay(longest: usize, nearest: Option<usize>) -> usize {
    nearest.map_or(longest, |ahead| longest.min(ahead.saturating_sub(1)))
}

/// Delays that the data allow.
fn suggested_delays(longest: usize, nearest: Option<usize>) -> Vec<usize> {
    let longest = useful_delay(longest, nearest);
    DELAYS.into_iter().filter(|delay| *delay <= longest).collect()
}

impl Series {
    /// The training set for a network's delay.
    fn windows(&self, shape: &Shape) -> &Windows {
        let found = self.train.iter().find(|(delay, _)| *delay == shape.delay);
        &found.unwrap_or(&self.train[0]).1
    }

    fn spec(&self, shape: &Shape) -> drnn::Result<NetSpec> {
        shape.spec(Padding::Null, |builder| self.ready.task.widths(builder))
    }
}

impl SweepTask for Series {
    type Engine = Network;

    fn name(&self) -> &'static str {
        SeriesTask::NAME
    }

    fn describe(&self) -> String {
        self.ready.what.clone()
    }

    fn metric(&self) -> Metric {
        metric(&self.ready.task)
    }

    fn train(&self, shape: &Shape) -> &(dyn Dataset + 'static) {
        self.windows(shape)
    }

    fn sequences(&self) -> [usize; 3] {
        let count = |part: &Sequences| part.len();
        let test = self.ready.test.as_ref().map_or(0, count);
        [self.train[0].1.len(), count(&self.ready.valid), test]
    }

    fn delays(&self) -> Vec<usize> {
        suggested_delays(self.max_delay, self.ready.nearest())
    }

    /// Forecasts leave bidirectional networks out, which read what is to be forecast.
    fn accepts(&self, kind: NetworkKind) -> bool {
        self.ready.nearest().is_none() || !kind.bidirectional()
    }

    fn max_delay(&self) -> usize {
        self.max_delay
    }

    fn useful_delay(&self) -> usize {
        useful_delay(self.max_delay, self.ready.nearest())
    }

    fn options(&self, given: Given) -> Options {
        suggested(self.train[0].1.len(), given)
    }

    fn same_size(&self, shape: Shape) -> Result<Shape, Failure> {
        Ok(shape.same_size(|builder| self.ready.task.widths(builder))?)
    }

    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure> {
        let spec = self.spec(shape)?;
        let needs = place.needs(&spec, &[self.train(shape)], options, threads)?;
        Ok(needs.join(self.ready.scoring(&spec)))
    }

    fn baselines(&self, longest_delay: usize) -> Result<Vec<Baseline>, Failure> {
        let scored = self.ready.baselines(Some(longest_delay))?;
        Ok(scored.iter().map(ScoredBaseline::summary).collect())
    }

    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<Network, Failure> {
        let spec = self.spec(shape)?;
        Ok(place.network(cpu, &spec, options)?)
    }

    /// As in use, in the target's own units.
    fn validation(&self, shape: &Shape) -> Result<Measured<'_, Self>, Failure> {
        Ok(Box::new(self.ready.validation(&self.spec(shape)?)?))
    }

    fn test(&self, shape: &Shape) -> Result<Option<Measured<'_, Self>>, Failure> {
        let test = self.ready.test_validation(&self.spec(shape)?)?;
        Ok(test.map(|test| Box::new(test) as _))
    }

    fn save(&self, engine: &mut Network, path: &Path) -> Result<(), Failure> {
        Ok(engine.model()?.with_task(self.ready.task.to_value()?).save(path)?)
    }
}
