//! A sweep over the user's series.

use super::Sweep;
use super::task::{Subset, SweepTask};
use crate::Failure;
use crate::args::series::{Ready, SeriesData};
use crate::args::shape::Shape;
use crate::commands::train::series::{evaluate, metric, suggested};
use crate::memory::Needs;
use crate::training::place::{Network, Place};
use clap::Args;
use drnn::{Cpu, Padding};
use drnn_tasks::series::SeriesTask;
use drnn_train::series::Windows;
use drnn_train::{Dataset, Metric, Options};

/// Sequences of numbers from a table or from arrays: mean squared error, or accuracy
#[derive(Debug, Args)]
pub struct SeriesSweep {
    #[command(flatten)]
    data: SeriesData,
    #[command(flatten)]
    pub sweep: Sweep,
}

/// Data in windows.
pub struct Series {
    ready: Ready,
    /// Training, validation and test set.
    windows: [Windows; 3],
    max_delay: usize,
}

/// The default delays.
const DELAYS: [usize; 5] = [0, 1, 2, 5, 10];

impl SeriesSweep {
    pub fn ready(&self, seed: u64) -> Result<Series, Failure> {
        let ready = self.data.ready(seed)?;
        let longest = [&ready.train, &ready.valid].map(|part| part.longest()).into_iter().max();
        let max_delay = longest.unwrap_or(1).saturating_sub(1);
        // All networks are trained on the same windows, with look-ahead for the longest delay.
        let ahead = self.sweep.delays(&suggested_delays(max_delay));
        let (train, valid, test) = ready.windows(ahead.into_iter().max().unwrap_or(0))?;
        let Some(test) = test else {
            return Err(Failure::Input("--test 0: a sweep needs a test set".into()));
        };
        Ok(Series { ready, windows: [train, valid, test], max_delay })
    }
}

fn suggested_delays(longest: usize) -> Vec<usize> {
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
        self.windows.each_ref().map(|windows| windows as &dyn Dataset)
    }

    fn sequences(&self) -> [usize; 3] {
        self.windows.each_ref().map(Dataset::len)
    }

    fn delays(&self) -> Vec<usize> {
        suggested_delays(self.max_delay)
    }

    fn max_delay(&self) -> usize {
        self.max_delay
    }

    fn options(&self) -> Options {
        suggested(self.ready.batch(&self.windows[0]))
    }

    fn same_size(&self, shape: Shape) -> Result<Shape, Failure> {
        Ok(shape.same_size(|builder| self.ready.task.widths(builder))?)
    }

    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        batch: usize,
        threads: usize,
    ) -> Result<Needs, Failure> {
        let spec = shape.spec(Padding::Null, |builder| self.ready.task.widths(builder))?;
        Ok(place.needs(&spec, &self.data(), batch, threads)?)
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

    /// On whole sequences, in the target's own units.
    fn evaluate(&self, engine: &mut Network, cpu: &Cpu, part: Subset) -> Result<f64, Failure> {
        let data = match part {
            Subset::Valid => &self.ready.valid,
            Subset::Test => self.ready.test.as_ref().unwrap_or(&self.ready.valid),
        };
        Ok(evaluate(engine, cpu, &self.ready.task, data)?.1)
    }
}
