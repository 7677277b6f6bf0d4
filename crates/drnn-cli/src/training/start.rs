//! `--from MODEL`: trainings that start from the parameters of a trained model.

use crate::Failure;
use crate::console::note;
use crate::files::model_file::{ModelFile, OpenedModel};
use crate::training::place::{Network, Place};
use drnn::io::checksum::of_words;
use drnn::{Cpu, Direction, Import, Model, NetSpec, NetSpecBuilder, Padding};
use drnn_train::{Engine, Options, State};
use std::path::{Path, PathBuf};

/// The parameters that a training starts from.
pub struct Start {
    params: Vec<f32>,
    /// Names them; a checkpoint of a training that started otherwise is refused.
    what: String,
}

impl Start {
    pub fn new(path: &Path, params: Vec<f32>) -> Start {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let print = of_words(params.iter().map(|x| u64::from(x.to_bits())));
        let what = format!("starts from {name}, parameters {print:016x}");
        Start { params, what }
    }

    /// The description of a training's data, with where it starts from.
    pub fn describe(start: Option<&Start>, data: String) -> String {
        start.map_or(data.clone(), |start| format!("{data}; {}", start.what))
    }

    /// Replaces an engine's initial parameters.
    pub fn put_into<E: Engine>(&self, engine: &mut E) -> Result<(), Failure> {
        let State { adam, .. } = engine.state()?;
        Ok(engine.set_state(State { params: self.params.clone(), adam })?)
    }
}

/// A model of one network to start from.
pub struct StartModel {
    path: PathBuf,
    pub model: Model,
    pub start: Start,
}

impl StartModel {
    /// Reads a model file, of drnn or of another program.
    pub fn read(path: &Path) -> Result<StartModel, Failure> {
        let opened = OpenedModel::read(path, &Import::default())?;
        opened.notes.iter().for_each(|text| note!("{text}"));
        let ModelFile::One(model) = opened.file else {
            return Err(refuse(path, "is a model of several networks"));
        };
        let start = Start::new(path, model.params().to_vec());
        Ok(StartModel { path: path.into(), model: *model, start })
    }

    /// Its network, with another delay if one is given; `padding` is what it reads after the end if it
    /// had no delay before. The parameters of a network do not depend on its delay.
    pub fn spec(&self, delay: Option<usize>, padding: Padding) -> Result<NetSpec, Failure> {
        let spec = self.model.spec();
        let Some(delay) = delay.filter(|delay| *delay != spec.delay()) else {
            return Ok(spec.clone());
        };
        if spec.direction() != Direction::Forward {
            return Err(self.refuse(&format!("is bidirectional, and has no --delay {delay}")));
        }
        let padding = if spec.delay() > 0 { spec.padding() } else { padding };
        Ok(NetSpecBuilder::from(spec.clone()).delay(delay, padding).build()?)
    }

    /// A network to be trained, with the parameters of `start`, if there is such a model.
    pub fn network(
        start: Option<&StartModel>,
        place: &Place,
        cpu: &Cpu,
        spec: &NetSpec,
        options: &Options,
    ) -> Result<Network, Failure> {
        let mut network = place.network(cpu, spec, options)?;
        start.map_or(Ok(()), |start| start.start.put_into(&mut network))?;
        Ok(network)
    }

    /// An error about the model.
    pub fn refuse(&self, why: &str) -> Failure {
        refuse(&self.path, why)
    }
}

/// An error about a model to start from.
pub fn refuse(path: &Path, why: &str) -> Failure {
    Failure::Input(format!("--from {}: {why}", path.display()))
}
