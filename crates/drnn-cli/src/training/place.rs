//! Where networks are trained or run: on the CPU or on a GPU.

use crate::Failure;
use crate::console::progress;
use crate::memory::Needs;
use clap::{Args, ValueEnum};
use drnn::memory::{self, BatchSize};
use drnn::{Cpu, Model, NetSpec};
use drnn_cuda::{CudaLearner, Device, Precision};
use drnn_train::{Dataset, Engine, Error, Estimate, Learner, MIN_EVAL_ROWS, Options, Result};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Lets trainings that share a GPU run concurrently: CUDA has 8 hardware queues by default and at
/// most 32, set before it starts. Must be called before any thread is started.
pub fn prepare() {
    const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    if std::env::var_os(QUEUES).is_none() {
        // SAFETY: no other thread exists yet that could read the environment.
        unsafe { std::env::set_var(QUEUES, "32") };
    }
}

/// `--device` and `--precision`.
#[derive(Debug, Clone, Copy, Args)]
pub struct PlaceArguments {
    /// Where to compute: cpu, cuda (an NVIDIA GPU), or auto: a GPU if there is one, otherwise the CPU
    #[arg(long, value_enum, value_name = "WHERE", default_value = "cpu")]
    pub device: DeviceName,
    /// Precision of matrix products on a GPU; sums, states and parameters are f32. f16 and tf32 have
    /// three digits and are faster. f16 also selects the fused kernels for all steps at once (LSTMs up
    /// to 128 units; up to 2048 units on Hopper), and is tf32 for other networks
    #[arg(long, value_enum, value_name = "P", default_value = "f16")]
    precision: Rounding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rounding {
    F32,
    Tf32,
    F16,
}

/// What `--device` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceName {
    Cpu,
    Cuda,
    Auto,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            DeviceName::Cpu => "--device cpu",
            DeviceName::Cuda => "--device cuda",
            DeviceName::Auto => "--device auto",
        })
    }
}

impl PlaceArguments {
    /// Finds the device. If there is no GPU, `cuda` is an error, and `auto` prints why.
    pub fn find(self) -> std::result::Result<Place, Failure> {
        let precision = match self.precision {
            Rounding::F32 => Precision::F32,
            Rounding::Tf32 => Precision::Tf32,
            Rounding::F16 => Precision::F16,
        };
        if self.device == DeviceName::Cpu {
            return Ok(Place::Cpu);
        }
        match (Device::find(), self.device) {
            (Ok(device), name) => {
                if name == DeviceName::Auto {
                    progress!("on {device}");
                }
                Ok(Place::Cuda(device, precision, name))
            }
            (Err(why), DeviceName::Auto) => {
                progress!("on the CPU ({why})");
                Ok(Place::Cpu)
            }
            (Err(why), name) => Err(Failure::Input(format!("{name}: {why}"))),
        }
    }

    /// Options as they would be written, each after a space; defaults are left out.
    pub fn command(self) -> String {
        if self.device == DeviceName::Cpu {
            return String::new();
        }
        let precision = match self.precision {
            Rounding::F32 => " --precision f32",
            Rounding::Tf32 => " --precision tf32",
            Rounding::F16 => "",
        };
        format!(" {}{precision}", self.device)
    }

    /// Whether `--device cuda` was given.
    pub fn must_be_gpu(self) -> bool {
        self.device == DeviceName::Cuda
    }

    /// Whether a GPU may be used.
    pub fn may_be_gpu(self) -> bool {
        self.device != DeviceName::Cpu
    }

    /// The same on the CPU.
    pub fn on_cpu(self) -> PlaceArguments {
        PlaceArguments { device: DeviceName::Cpu, ..self }
    }

    /// The CPU, for what no GPU does; `cuda` is an error.
    pub fn only_cpu_for(self, what: &str) -> std::result::Result<Place, Failure> {
        match self.device {
            DeviceName::Cuda => {
                Err(Failure::Input(format!("--device cuda: {what} on the CPU only")))
            }
            _ => Ok(Place::Cpu),
        }
    }
}

/// Where networks are trained.
#[derive(Debug, Clone)]
pub enum Place {
    Cpu,
    /// The device, and whether it was named or found.
    Cuda(Device, Precision, DeviceName),
}

impl Place {
    /// A network to be trained there.
    pub fn network(&self, cpu: &Cpu, spec: &NetSpec, options: &Options) -> Result<Network> {
        let (adam, seed) = (options.adam, options.seed);
        if let Place::Cuda(..) = self {
            drnn_cuda::check_options(options)?;
        }
        let engine: Box<dyn Engine<Data = dyn Dataset>> = match self {
            Place::Cpu => Box::new(Learner::new(cpu, spec, adam, seed)),
            Place::Cuda(device, precision, _) => {
                let learner = CudaLearner::new(device, *precision, spec, adam, seed);
                Box::new(learner.map_err(Error::from)?)
            }
        };
        Ok(Network { spec: spec.clone(), engine })
    }

    /// The memory to train a network there with these options on `data`, whose first entry is the
    /// training set.
    pub fn needs(
        &self,
        spec: &NetSpec,
        data: &[&dyn Dataset],
        options: &Options,
        threads: usize,
    ) -> Result<Needs> {
        let estimate = Estimate::new(spec, data, options, threads);
        let Place::Cuda(device, precision, _) = self else { return Ok(estimate.into()) };
        let batch = options.batch;
        let rows = |i: usize| if i == 0 { batch } else { batch.max(MIN_EVAL_ROWS) };
        let sizes = data.iter().enumerate().map(|(i, data)| data.batch_size(rows(i)));
        let mut card = 0;
        for BatchSize { steps, rows, .. } in sizes {
            let size = BatchSize::new(steps.saturating_add(spec.look_ahead()), rows);
            let bytes = CudaLearner::estimate(device, *precision, spec, size);
            card = card.max(bytes.map_err(Error::from)?);
        }
        // Parameters are initialised on the host before they are copied to the GPU.
        let weights = memory::model(spec);
        let copy = data.first().map_or(0, |data| CudaLearner::copy_bytes(spec, *data));
        Ok(Needs::from(Estimate { weights, pass: 0, ..estimate }).and_card(card).and_copy(copy))
    }

    /// Threads for `lanes` trainings: one that waits for a GPU needs no core.
    pub fn threads(&self, cpu: &Cpu, lanes: usize) -> usize {
        match self {
            Place::Cpu => cpu.threads(),
            Place::Cuda(..) => cpu.threads().max(lanes.min(128)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Place::Cpu => f.write_str("the CPU"),
            Place::Cuda(device, precision, _) => write!(f, "{device}, {precision}"),
        }
    }
}

/// A network in training, on the CPU or a GPU.
pub struct Network {
    spec: NetSpec,
    engine: Box<dyn Engine<Data = dyn Dataset>>,
}

impl Network {
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    pub fn into_engine(self) -> Box<dyn Engine<Data = dyn Dataset>> {
        self.engine
    }

    /// The model as it is now.
    pub fn model(&mut self) -> Result<Model> {
        Ok(Model::from_params(&self.spec, self.engine.state()?.params)?)
    }
}

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
