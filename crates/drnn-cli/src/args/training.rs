//! How networks are trained, the same for `train` and `sweep`: epochs, batches, optimiser, and which
//! epoch's model is kept.

use crate::args::regularisation::Regularisation;
use crate::memory::Needs;
use crate::training;
use clap::{Args, ValueEnum};
use drnn_train::{Given, Options, Schedule, Stopping, seed};

/// Options of a training; what is not given follows from the data.
#[derive(Debug, Args)]
pub struct TrainingOptions {
    /// Maximum number of epochs [default: chars 20, series 100, tagger 20, and more where data are few]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub epochs: Option<u32>,
    /// Sequences per batch [default: at most 128 (chars) or 32, and fewer where data are few]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: Option<u32>,
    /// Learning rate of the first epoch [default: chars 0.004, series 0.01, tagger 0.001]
    #[arg(long, value_name = "R", value_parser = training::rate)]
    pub rate: Option<f32>,
    /// Learning-rate schedule [default: chars and series cosine, tagger constant]
    #[arg(long, value_enum)]
    pub schedule: Option<ScheduleName>,
    /// Maximum gradient norm; 0 for no clipping [default: 1]
    #[arg(long, value_name = "NORM", value_parser = clip)]
    pub clip: Option<f64>,
    #[command(flatten)]
    pub regularisation: Regularisation,
    /// Stop after this many epochs in which the measure on the validation set, the one in the log, did
    /// not improve [default: never]
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub patience: Option<u32>,
    /// Which model to keep: that of the last epoch, or the best by the same measure
    #[arg(long, value_enum, default_value = "best")]
    pub keep: Keep,
    /// Trainings of each network, from different seeds; they show how much of a difference is chance
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repeats: u16,
    /// Random seed of data, parameters, batch order and masks
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A learning-rate schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScheduleName {
    Constant,
    Cosine,
    /// Halved after three epochs without improvement on the validation set
    Plateau,
}

/// Which model `--keep` selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    Best,
    Last,
}

fn clip(text: &str) -> Result<f64, String> {
    let norm: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if norm >= 0.0 && norm.is_finite() { Ok(norm) } else { Err("expected 0 or more".into()) }
}

impl TrainingOptions {
    /// The suggested options, with those given on the command line.
    pub fn options(&self, suggested: Options) -> Options {
        let schedule = self.schedule.map_or(suggested.schedule, |name| match name {
            ScheduleName::Constant => Schedule::Constant,
            ScheduleName::Cosine => Schedule::Cosine,
            ScheduleName::Plateau => Schedule::PLATEAU,
        });
        let patience = self.patience.map(|n| n as usize).or(suggested.stopping.patience);
        Options {
            epochs: self.epochs.map_or(suggested.epochs, |n| n as usize),
            batch: self.batch.map_or(suggested.batch, |n| n as usize),
            rate: self.rate.unwrap_or(suggested.rate),
            schedule,
            clip: self.clip.map_or(suggested.clip, |norm| (norm > 0.0).then_some(norm)),
            stopping: Stopping { patience, ..suggested.stopping },
            seed: self.seed,
            ..self.regularisation.apply(suggested)
        }
    }

    /// The options of each of the repeated trainings, which differ in their seeds. The first has
    /// `--seed` itself.
    pub fn repeated(&self, options: Options) -> impl Iterator<Item = Options> + use<> {
        let count = usize::from(self.repeats);
        (0..count).map(move |i| Options { seed: seed::of_training(options.seed, i), ..options })
    }

    /// The memory of all of them, where one needs `one` and `threads` threads train them.
    pub fn needs(&self, one: Needs, threads: usize) -> Needs {
        Needs::side_by_side(std::iter::repeat_n(one, self.repeats.into()), threads)
    }

    /// What the command line gives of batch and epochs.
    pub fn given(&self) -> Given {
        Given { batch: self.batch, epochs: self.epochs }
    }
}
