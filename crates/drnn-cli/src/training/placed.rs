//! Models that run on whole sequences on the device that `--device` names.

use super::place::{DeviceName, Place};
use crate::Failure;
use crate::console::progress;
use drnn::Model;
use drnn_cuda::{CudaModel, Error};
use drnn_tasks::Runner;
use drnn_tasks::live::{LiveModel, LiveRun};

/// A network on its device.
pub enum Placed<'m> {
    Cpu(&'m Model),
    Cuda(Box<CudaModel>),
}

impl<'m> Placed<'m> {
    /// Copies the parameters to a GPU if `place` is one. A network that a GPU does not run goes to the
    /// CPU where the GPU was found (`--device auto`), and is an error where it was named.
    pub fn new(place: &Place, model: &'m Model) -> Result<Placed<'m>, Failure> {
        match place {
            Place::Cpu => Ok(Placed::Cpu(model)),
            Place::Cuda(device, precision, name) => {
                match (CudaModel::new(device, model, *precision), name) {
                    (Ok(model), _) => Ok(Placed::Cuda(Box::new(model))),
                    (Err(Error::Unsupported(why)), DeviceName::Auto) => {
                        progress!("on the CPU ({why})");
                        Ok(Placed::Cpu(model))
                    }
                    (Err(why), name) => Err(Failure::Input(format!("{name}: {why}"))),
                }
            }
        }
    }

    pub fn runner(&self) -> &dyn Runner {
        match self {
            Placed::Cpu(model) => *model,
            Placed::Cuda(model) => &**model,
        }
    }
}

/// The networks of a model with a task.
pub struct PlacedLive<'m> {
    model: &'m LiveModel,
    network: Placed<'m>,
    /// A tagger's network of characters.
    chars: Option<Placed<'m>>,
}

/// Steps of a sentence, roughly, of those that a batch may have.
const SENTENCE_SLOTS: usize = 256;

impl<'m> PlacedLive<'m> {
    pub fn new(place: &Place, model: &'m LiveModel) -> Result<PlacedLive<'m>, Failure> {
        let chars = model.tagger().map(|tagger| Placed::new(place, tagger.char_model()));
        let network = Placed::new(place, model.network())?;
        Ok(PlacedLive { model, network, chars: chars.transpose()? })
    }

    /// Runs whole sequences.
    pub fn run(&self) -> LiveRun<'_> {
        let chars = self.chars.as_ref().map(Placed::runner);
        LiveRun::with_runners(self.model, self.network.runner(), chars)
    }

    pub fn is_on_gpu(&self) -> bool {
        matches!(self.network, Placed::Cuda(_))
    }

    /// Sentences that are worth waiting for before they are run: 64 on the CPU.
    pub fn sentences(&self) -> usize {
        self.network.runner().max_batch_slots() / SENTENCE_SLOTS
    }
}
