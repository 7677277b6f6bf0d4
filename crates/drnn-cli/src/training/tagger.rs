//! Taggers in training, on the CPU or a GPU.

use crate::memory::Needs;
use crate::training::place::Place;
use drnn::Cpu;
use drnn_cuda::CudaTagger;
use drnn_tasks::tagger::TaggerNet;
use drnn_train::tagger::{Sentences, TaggerLearner};
use drnn_train::{Engine, Error, Estimate, Options, Result};
use std::ops::{Deref, DerefMut};

/// A tagger in training.
pub struct TaggerInTraining {
    net: TaggerNet,
    engine: Box<dyn Engine<Data = Sentences>>,
}

impl TaggerInTraining {
    /// Its networks.
    pub fn net(&self) -> &TaggerNet {
        &self.net
    }
}

impl Deref for TaggerInTraining {
    type Target = dyn Engine<Data = Sentences>;

    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

impl DerefMut for TaggerInTraining {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.engine
    }
}

impl Place {
    /// A tagger to be trained there.
    pub fn tagger(&self, cpu: &Cpu, net: TaggerNet, options: &Options) -> Result<TaggerInTraining> {
        let (adam, seed) = (options.adam, options.seed);
        let engine: Box<dyn Engine<Data = Sentences>> = match self {
            Place::Cpu => Box::new(TaggerLearner::new(cpu, net.clone(), adam, seed)),
            Place::Cuda(device, precision, _) => {
                drnn_cuda::check_options(options)?;
                let tagger = CudaTagger::new(device, *precision, net.clone(), adam, seed);
                Box::new(tagger.map_err(Error::from)?)
            }
        };
        Ok(TaggerInTraining { net, engine })
    }

    /// The memory to train a tagger there with these options on `parts`, the training set first.
    pub fn tagger_needs(
        &self,
        net: &TaggerNet,
        parts: &[&Sentences],
        options: &Options,
        threads: usize,
    ) -> Result<Needs> {
        let estimate = Estimate::tagger(net, parts, options, threads);
        let Place::Cuda(device, precision, _) = self else { return Ok(estimate.into()) };
        let card = CudaTagger::estimate(device, *precision, net, parts, options.batch);
        // Parameters and given vectors are on the host before they are copied to the GPU.
        let vectors = net.frozen.as_ref().map_or(0, |table| table.values.len());
        let weights = (net.parameters() + vectors) * size_of::<f32>();
        let host = Estimate { weights, pass: 0, ..estimate };
        Ok(Needs::from(host).and_card(card.map_err(Error::from)?))
    }
}
