//! A sweep over the user's series.

use super::Sweep;
use super::task::{Subset, SweepTask};
use crate::Failure;
use crate::args::network::NetworkKind;
use crate::args::series::{Ready, SeriesData};
use crate::args::shape::Shape;
use crate::commands::train::series::{metric, suggested};
use crate::memory::Needs;
use crate::training::place::{Network, Place};
use crate::training::suggested::Given;
use clap::Args;
use drnn::{Cpu, Padding};
use drnn_tasks::series::SeriesTask;
use drnn_train::baseline::Baseline;
use drnn_train::series::{ScoredBaseline, Sequences, Windows};
use drnn_train::{Dataset, Metric, Options, Validation};

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
    /// The training set.
    train: Windows,
    max_delay: usize,
}

/// The default delays.
const DELAYS: [usize; 5] = [0, 1, 2, 5, 10];

impl SeriesSweep {
    pub fn ready(&self, seed: u64) -> Result<Series, Failure> {
        let mut ready = self.data.ready(seed)?;
        let longest = [&ready.train, &ready.valid].map(|part| part.longest()).into_iter().max();
        let max_delay = longest.unwrap_or(1).saturating_sub(1);
        // All networks are trained on the same windows, with look-ahead for the longest delay.
        let ahead = self.sweep.delays(&suggested_delays(max_delay, ready.nearest()));
        ready.explain_delays(&ahead);
        let longest = ahead.into_iter().max().unwrap_or(0);
        let train = ready.windows(longest)?;
        if ready.test.is_none() {
            return Err(Failure::Input("--test 0: a sweep needs a test set".into()));
        }
        ready.warn_of_long_delay(longest);
        Ok(Series { ready, train, max_delay })
    }
}

/// Delays that the data allow, shorter than the nearest horizon of a forecast.
fn suggested_delays(longest: usize, nearest: Option<usize>) -> Vec<usize> {
    let longest = nearest.map_or(longest, |ahead| longest.min(ahead.saturating_sub(1)));
    DELAYS.into_iter().filter(|delay| *delay <= longest).collect()
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

    fn data(&self) -> [&(dyn Dataset + 'static); 3] {
        [&self.train; 3].map(|windows| windows as &dyn Dataset)
    }

    fn sequences(&self) -> [usize; 3] {
        let count = |part: &Sequences| part.len();
        let test = self.ready.test.as_ref().map_or(0, count);
        [self.train.len(), count(&self.ready.valid), test]
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

    fn options(&self, given: Given) -> Options {
        suggested(self.train.len(), given)
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
        let spec = shape.spec(Padding::Null, |builder| self.ready.task.widths(builder))?;
        let needs = place.needs(&spec, &self.data()[..1], options, threads)?;
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
        let spec = shape.spec(Padding::Null, |builder| self.ready.task.widths(builder))?;
        Ok(place.network(cpu, &spec, options)?)
    }

    /// As in use, in the target's own units.
    fn validation(
        &self,
        shape: &Shape,
        part: Subset,
    ) -> Result<Box<dyn Validation<Network> + '_>, Failure> {
        let spec = shape.spec(Padding::Null, |builder| self.ready.task.widths(builder))?;
        let test = match part {
            Subset::Valid => None,
            Subset::Test => self.ready.test_validation(&spec)?,
        };
        Ok(Box::new(test.map_or_else(|| self.ready.validation(&spec), Ok)?))
    }
}
