//! Masked characters of a text.

use super::Sweep;
use super::task::{Measured, SweepTask};
use crate::Failure;
use crate::args::characters::{Characters, CharsArguments};
use crate::args::shape::Shape;
use crate::memory::Needs;
use crate::training::place::{Network, Place};
use clap::Args;
use drnn::Cpu;
use drnn_train::baseline::Baseline;
use drnn_train::{Dataset, Given, Metric, OnData, Options};
use std::path::Path;

/// Fill in masked characters of a text: bits per masked character
#[derive(Debug, Args)]
pub struct CharsTask {
    #[command(flatten)]
    characters: CharsArguments,
    #[command(flatten)]
    pub sweep: Sweep,
}

impl CharsTask {
    pub fn ready(&self, seed: u64) -> Result<Characters, Failure> {
        let characters = Characters::read(&self.characters, seed, None)?;
        characters.print_notes();
        Ok(characters)
    }
}

impl SweepTask for Characters {
    type Engine = Network;

    fn name(&self) -> &'static str {
        "chars"
    }

    fn describe(&self) -> String {
        format!("masked characters; {}", self.what)
    }

    fn metric(&self) -> Metric {
        Metric::Bits
    }

    fn train(&self, _: &Shape) -> &(dyn Dataset + 'static) {
        &self.train
    }

    fn sequences(&self) -> [usize; 3] {
        [self.train.len(), self.valid.len(), self.test.as_ref().map_or(0, Dataset::len)]
    }

    fn delays(&self) -> Vec<usize> {
        let mut delays = vec![0, 1, 2, 3, 5, 8];
        delays.retain(|&d| d <= self.max_delay());
        delays
    }

    fn max_delay(&self) -> usize {
        self.window - 1
    }

    fn options(&self, given: Given) -> Options {
        Characters::options(self, given)
    }

    fn same_size(&self, shape: Shape) -> Result<Shape, Failure> {
        Ok(shape.same_size(Characters::data(self))?)
    }

    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure> {
        Ok(place.needs(&self.spec(shape)?, &self.parts(), options, threads)?)
    }

    fn baselines(&self, _: usize) -> Result<Vec<Baseline>, Failure> {
        Ok(Characters::baselines(self))
    }

    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<Network, Failure> {
        Ok(place.network(cpu, &self.spec(shape)?, options)?)
    }

    fn validation(&self, _: &Shape) -> Result<Measured<'_, Self>, Failure> {
        Ok(Box::new(OnData::new(&self.valid as &dyn Dataset, Metric::Bits)))
    }

    fn test(&self, _: &Shape) -> Result<Option<Measured<'_, Self>>, Failure> {
        let measured = |test| Box::new(OnData::new(test as &dyn Dataset, Metric::Bits)) as _;
        Ok(self.test.as_ref().map(measured))
    }

    fn save(&self, engine: &mut Network, path: &Path) -> Result<(), Failure> {
        Ok(self.task().put_into(engine.model()?)?.save(path)?)
    }
}
