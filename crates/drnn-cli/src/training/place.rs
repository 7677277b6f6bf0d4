//! Where networks are trained: on the processor, or on a GPU.

use crate::Failure;
use crate::console::progress;
use crate::memory::Needs;
use clap::{Args, ValueEnum};
use drnn::memory::{self, BatchSize};
use drnn::{Cpu, Model, NetSpec};
use drnn_cuda::{CudaLearner, Device, Precision};
use drnn_train::{Dataset, Engine, Error, Estimate, Learner, MIN_EVAL_ROWS, Options, Result};
use std::ops::{Deref, DerefMut};

/// Lets trainings that share a GPU really run side by side: CUDA puts their work into 8 queues unless it is told otherwise
/// before it starts, and 32 is the most. To be called before there are threads.
pub fn prepare() {
    const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    if std::env::var_os(QUEUES).is_none() {
        // SAFETY: called first of all, so no other thread reads the environment.
        unsafe { std::env::set_var(QUEUES, "32") };
    }
}

/// Where, on the command line.
#[derive(Debug, Clone, Copy, Args)]
pub struct PlaceArguments {
    /// Where networks are trained: cpu, cuda (an NVIDIA GPU), or auto, which takes a GPU where there is one
    #[arg(long, value_enum, value_name = "WHERE", default_value = "cpu")]
    device: Name,
    /// On a GPU, what the factors of products are rounded to; sums, states and parameters are f32. f16 and tf32 keep three
    /// digits and are faster: f16 takes LSTMs through all steps in one go (up to 128 units; up to 1024 on Hopper), and is
    /// tf32 for others
    #[arg(long, value_enum, value_name = "P", default_value = "f16")]
    precision: Rounding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rounding {
    F32,
    Tf32,
    F16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Cpu,
    Cuda,
    Auto,
}

impl PlaceArguments {
    /// Finds it. What is missing is an error where a GPU was asked for, and told where it was not.
    pub fn find(self) -> std::result::Result<Place, Failure> {
        let precision = match self.precision {
            Rounding::F32 => Precision::F32,
            Rounding::Tf32 => Precision::Tf32,
            Rounding::F16 => Precision::F16,
        };
        match (self.device, Device::find as fn() -> _) {
            (Name::Cpu, _) => Ok(Place::Cpu),
            (Name::Cuda, find) => match find() {
                Ok(device) => Ok(Place::Cuda(device, precision)),
                Err(why) => Err(Failure::Input(format!("--device cuda: {why}"))),
            },
            (Name::Auto, find) => match find() {
                Ok(device) => {
                    progress!("on {device}");
                    Ok(Place::Cuda(device, precision))
                }
                Err(why) => {
                    progress!("on the CPU ({why})");
                    Ok(Place::Cpu)
                }
            },
        }
    }

    /// For what has no other engine.
    pub fn only_cpu(self, what: &str) -> std::result::Result<Place, Failure> {
        match self.device {
            Name::Cuda => {
                Err(Failure::Input(format!("--device cuda: {what} are trained on the CPU only")))
            }
            _ => Ok(Place::Cpu),
        }
    }
}

/// Where networks are trained.
#[derive(Debug, Clone)]
pub enum Place {
    Cpu,
    Cuda(Device, Precision),
}

impl Place {
    /// A network to be trained there.
    pub fn network(&self, cpu: &Cpu, spec: &NetSpec, options: &Options) -> Result<Network> {
        let (adam, seed) = (options.adam, options.seed);
        let engine: Box<dyn Engine<Data = dyn Dataset>> = match self {
            Place::Cpu => Box::new(Learner::new(cpu, spec, adam, seed)),
            Place::Cuda(device, precision) => {
                let learner = CudaLearner::new(device, *precision, spec, adam, seed);
                Box::new(learner.map_err(Error::from)?)
            }
        };
        Ok(Network { spec: spec.clone(), engine })
    }

    /// The memory that training a network there takes, with batches of `batch` sequences of `data`:
    /// what is learned from first.
    pub fn needs(
        &self,
        spec: &NetSpec,
        data: &[&dyn Dataset],
        batch: usize,
        threads: usize,
    ) -> Result<Needs> {
        let estimate = Estimate::new(spec, data, batch, threads);
        let Place::Cuda(device, precision) = self else { return Ok(estimate.into()) };
        let rows = |i: usize| if i == 0 { batch } else { batch.max(MIN_EVAL_ROWS) };
        let sizes = data.iter().enumerate().map(|(i, data)| data.batch_size(rows(i)));
        let mut card = 0;
        for BatchSize { steps, rows, .. } in sizes {
            let size = BatchSize::new(steps.saturating_add(spec.look_ahead()), rows);
            let bytes = CudaLearner::estimate(device, *precision, spec, size);
            card = card.max(bytes.map_err(Error::from)?);
        }
        // Parameters are drawn here before they are copied there.
        let weights = memory::model(spec);
        Ok(Needs::from(Estimate { weights, pass: 0, ..estimate }).and_card(card))
    }

    /// Threads for so many trainings: those that wait for a GPU need no core.
    pub fn threads(&self, cpu: &Cpu, lanes: usize) -> usize {
        match self {
            Place::Cpu => cpu.threads(),
            Place::Cuda(..) => cpu.threads().max(lanes.min(128)),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Place::Cpu => f.write_str("the CPU"),
            Place::Cuda(device, precision) => write!(f, "{device}, {precision}"),
        }
    }
}

/// A network in training, wherever that is.
pub struct Network {
    spec: NetSpec,
    engine: Box<dyn Engine<Data = dyn Dataset>>,
}

impl Network {
    /// What kind of network it is.
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// What trains it.
    pub fn into_engine(self) -> Box<dyn Engine<Data = dyn Dataset>> {
        self.engine
    }

    /// The model as it is now.
    pub fn model(&mut self) -> Result<Model> {
        Ok(Model::from_params(&self.spec, self.engine.state()?.params)?)
    }
}

/// Everything else is its engine's affair.
impl Deref for Network {
    type Target = dyn Engine<Data = dyn Dataset>;

    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

impl DerefMut for Network {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.engine
    }
}
