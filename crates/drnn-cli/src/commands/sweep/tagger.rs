//! A sweep over the delay of a tagger's word network.

use super::Sweep;
use super::task::{Measured, SweepTask};
use crate::Failure;
use crate::args::class_weights::ClassWeights;
use crate::args::network::NetworkKind;
use crate::args::reading::Reading;
use crate::args::shape::Shape;
use crate::commands::train::tagger::suggested;
use crate::memory::Needs;
use crate::training::place::Place;
use crate::training::tagger::TaggerInTraining;
use crate::training::treebank::{Treebank, WordSource};
use clap::Args;
use drnn::{Cpu, Precision};
use drnn_tasks::tagger::{Counting, Limits, TaggerNet};
use drnn_train::baseline::Baseline;
use drnn_train::read::MAX_CLASSES;
use drnn_train::tagger::{Sentences, Sizes, TaggerValidation};
use drnn_train::{Given, Metric, Options, PaperNet};
use std::path::{Path, PathBuf};

/// Tag words: accuracy against the delay of the word network
#[derive(Debug, Args)]
pub struct TaggerSweep {
    /// Training set: CoNLL-U or two columns, plain or compressed
    #[arg(long, value_name = "FILE")]
    train: PathBuf,
    /// Validation set
    #[arg(long, value_name = "FILE")]
    dev: PathBuf,
    /// Test set
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// Character network, the same in all trainings: lstm, bilstm, dlstm-D
    #[arg(long = "char", value_name = "NET", default_value = "dlstm-1")]
    chars: PaperNet,
    /// Maximum number of tags
    #[arg(long, value_name = "N", default_value_t = MAX_CLASSES as u32, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    max_tags: u32,
    /// How much each tag counts in training: balanced (rare ones as much as frequent ones),
    /// TAG=WEIGHT,.. (others 1), or a file with a tag and its weight in each line
    #[arg(long, value_name = "balanced|LIST|FILE")]
    class_weights: Option<ClassWeights>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    pub sweep: Sweep,
}

/// A treebank, read.
pub struct Ready {
    bank: Treebank,
    chars: PaperNet,
}

impl TaggerSweep {
    pub fn ready(&self) -> Result<Ready, Failure> {
        let files = [Some(&self.train), Some(&self.dev), self.test.as_ref()];
        let files = files.map(|path| path.map(PathBuf::as_path));
        let limits = Limits { tags: self.max_tags as usize, ..Limits::default() };
        let words = WordSource::TrainingSet(&limits);
        let bank = Treebank::read(files, Counting::Words, None, false, words, self.reading)?
            .weighted(self.class_weights.as_ref(), self.reading)?;
        Ok(Ready { bank, chars: self.chars })
    }
}

/// All of the paper's sizes in proportion.
fn sizes(shape: &Shape) -> Sizes {
    let paper = Sizes::default();
    let of = |size: usize| (shape.units[0] * size).div_ceil(paper.words);
    Sizes {
        words: of(paper.words),
        both_words: of(paper.both_words),
        chars: of(paper.chars),
        both_chars: of(paper.both_chars),
        ..paper
    }
}

/// The network over words.
fn words(shape: &Shape) -> Result<PaperNet, Failure> {
    match shape.kind {
        NetworkKind::Lstm => Ok(PaperNet::Lstm),
        NetworkKind::Bilstm => Ok(PaperNet::BiLstm),
        NetworkKind::Dlstm if shape.delay == 0 => Ok(PaperNet::Lstm),
        NetworkKind::Dlstm => Ok(PaperNet::DLstm(shape.delay)),
        _ => {
            Err(Failure::Input(format!("--nets: {shape}: a tagger has LSTMs: lstm, bilstm, dlstm")))
        }
    }
}

impl Ready {
    fn net(&self, shape: &Shape) -> Result<TaggerNet, Failure> {
        self.bank.net([self.chars, words(shape)?], &sizes(shape))
    }
}

impl SweepTask for Ready {
    type Engine = TaggerInTraining;

    fn name(&self) -> &'static str {
        "tagger"
    }

    fn describe(&self) -> String {
        format!("{}, {} over characters", self.bank.describe(), self.chars)
    }

    fn metric(&self) -> Metric {
        Metric::Accuracy
    }

    fn train(&self, _: &Shape) -> &Sentences {
        &self.bank.train
    }

    fn sequences(&self) -> [usize; 3] {
        let Treebank { train, dev, test, .. } = &self.bank;
        [train.len(), dev.len(), test.as_ref().map_or(0, Sentences::len)]
    }

    fn delays(&self) -> Vec<usize> {
        vec![0, 1, 2, 3]
    }

    fn max_delay(&self) -> usize {
        let lengths = (0..self.bank.train.len()).map(|i| self.bank.train.get(i).len());
        lengths.max().unwrap_or(1).max(2) - 1
    }

    fn options(&self, given: Given) -> Options {
        suggested(self.bank.train.len(), given)
    }

    /// The paper's ratio makes them so.
    fn same_size(&self, shape: Shape) -> Result<Shape, Failure> {
        match shape.units.len() {
            1 => words(&shape).map(|_| shape),
            layers => {
                Err(Failure::Input(format!("--layers {layers}: a tagger's networks have one")))
            }
        }
    }

    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure> {
        self.bank.needs(place, &self.net(shape)?, options, threads)
    }

    fn validation(&self, _: &Shape) -> Result<Measured<'_, Self>, Failure> {
        Ok(Box::new(TaggerValidation::new(&self.bank.vocabulary, &self.bank.dev)))
    }

    fn test(&self, _: &Shape) -> Result<Option<Measured<'_, Self>>, Failure> {
        let test = self.bank.test.as_ref();
        Ok(test.map(|test| Box::new(TaggerValidation::new(&self.bank.vocabulary, test)) as _))
    }

    fn baselines(&self, _: usize) -> Result<Vec<Baseline>, Failure> {
        Ok(vec![self.bank.baseline(self.bank.test.as_ref())])
    }

    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<TaggerInTraining, Failure> {
        self.bank.engine(place, cpu, self.net(shape)?, options)
    }

    fn save(&self, engine: &mut TaggerInTraining, path: &Path) -> Result<(), Failure> {
        Ok(self.bank.tagger(engine)?.save(path, Precision::F32)?)
    }
}
