//! Trains a tagger on a GPU: a network over the characters of words, one over the words of
//! sentences.
//!
//! ```text
//! host     which sentences, spellings, words ─ stage ─ copy ─►          next batch, without waiting
//! device   embed ─ char recurrence ─ last states ─┬─ join ─ word recurrence ─ outputs ─ losses
//!                                   word vectors ─┘
//!          and back through all of it ─ norm, clip, Adam
//! ```
//!
//! A batch reads every spelling once, wherever it occurs; the gradient of its encoding is the sum
//! over the occurrences, in a fixed order. Both recurrences are [`crate::Recurrence`], so lengths
//! lie on the device and every precision and way of it works here.
//!
//! Every batch has a shape of its own, so steps are launched one by one, not replayed as graphs. The
//! host synchronises once per call of [`Engine::train`]; after a step that is not finite, the device
//! ignores the remaining ones of the call.
//!
//! | file | what |
//! |---|---|
//! | `batch` | a batch on the host: distinct spellings and words, lists of their occurrences |
//! | `staged` | the layout of a staged batch |
//! | `network` | one of the two networks: its recurrence for a shape, where its parameters lie |
//! | `workspace` | device memory, which grows with the largest batch so far |
//! | `pass` | forward and backward |
//! | `estimate` | device memory that training needs |
//! | `recorded` | tests: what is submitted for the paper's sizes, memory, what is refused |
//! | `executed` | tests: whole steps executed on the CPU, compared with the CPU's engine |

mod batch;
mod estimate;
#[cfg(test)]
mod executed;
mod network;
mod pass;
#[cfg(test)]
mod recorded;
mod staged;
mod workspace;

use crate::error::{Error as CudaError, Result as CudaResult};
use crate::kernels::{Kernels, TaggerKernels};
use crate::runtime::device::Device;
use crate::runtime::gemm::{Gemm, Precision};
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use crate::step::cpu_only;
use crate::step::pass::Until;
use crate::step::staging::Step;
use crate::step::state::DeviceState;
use batch::HostBatch;
use drnn_tasks::tagger::TaggerNet;
use drnn_train::tagger::{self, Sentences};
use drnn_train::{
    AdamOptions, Batches, Engine, Error, Inspect, LossSum, Result, State, Steps, Targets,
};
use network::Network;
use pass::TaggerPass;
use staged::Staged;
use std::sync::{Arc, Mutex};
use workspace::TaggerWorkspace;

/// Batches per call of [`Engine::train`]: about a second of work. A constant, because sums of losses
/// depend on it in their last bits.
const STRIDE: usize = 256;

/// Sentences of a batch of an evaluation, at most: enough to fill the device, few enough that the
/// memory of training batches nearly suffices.
const MAX_EVAL_SENTENCES: usize = 64;

/// A tagger in training on a GPU: an [`Engine`] with the data, and up to rounding the numbers, of
/// [`drnn_train::tagger::TaggerLearner`]. It owns parameters, optimiser state and the memory of a
/// step; sentences stay on the host, where many taggers may share them.
#[derive(Debug)]
pub struct CudaTagger {
    net: TaggerNet,
    precision: Precision,
    /// The char network and the word network.
    networks: [Network; 2],
    state: DeviceState,
    /// Vectors of words that are not trained; empty if they are.
    frozen: Buffer<f32>,
    /// For all products of this tagger, so that taggers on several threads do not wait for each
    /// other.
    gemm: Arc<Mutex<Gemm>>,
    work: TaggerWorkspace,
    stream: Stream,
    /// Batches on their way to the device.
    copies: Stream,
    device: Device,
    batch: HostBatch,
    /// Batches so far; selects the staging buffer.
    submitted: usize,
}

impl CudaTagger {
    /// A tagger with the parameters of [`drnn_train::tagger::initial_params`] and a fresh Adam.
    /// Fails with [`CudaError::Unsupported`] for networks and options that a GPU cannot train.
    pub fn new(
        device: &Device,
        precision: Precision,
        net: TaggerNet,
        adam: AdamOptions,
        seed: u64,
    ) -> CudaResult<CudaTagger> {
        cpu_only::check_adam(&adam)?;
        let [chars, words, _] = net.ranges();
        let networks =
            [Network::new(&net.chars, chars.start)?, Network::new(&net.words, words.start)?];
        device.enter()?;
        device.kernels()?;
        device.tagger_kernels()?;
        let frozen = match &net.frozen {
            Some(table) => Buffer::from(device, &table.values)?,
            None => Buffer::zeros(device, 0)?,
        };
        let params = tagger::initial_params(&net, seed);
        Ok(CudaTagger {
            networks,
            precision,
            state: DeviceState::new(device, &params, adam)?,
            frozen,
            gemm: Arc::new(Mutex::new(Gemm::unbound(device, precision)?)),
            work: TaggerWorkspace::new(device, net.words.output_width())?,
            stream: Stream::new(device)?,
            copies: Stream::new(device)?,
            device: device.clone(),
            batch: HostBatch::default(),
            submitted: 0,
            net,
        })
    }

    /// Its networks.
    pub fn net(&self) -> &TaggerNet {
        &self.net
    }

    fn kernels(&self) -> CudaResult<(&Kernels, &TaggerKernels)> {
        Ok((self.device.kernels()?, self.device.tagger_kernels()?))
    }

    /// Submits a step, or a forward pass, on a batch. Only waits where the device has several batches
    /// to do, or its memory has to grow.
    fn submit(&mut self, data: &Sentences, chosen: &[u32], until: Until, step: Step) -> Result<()> {
        self.batch.gather(&self.net, data, chosen)?;
        let (sizes, training) = (self.batch.sizes, until == Until::Step);
        let shapes = [sizes.char_shape(), sizes.word_shape()];
        let mut recurrences = Vec::new();
        for (network, shape) in self.networks.iter_mut().zip(shapes) {
            let of = (&self.device, self.precision, &self.gemm);
            recurrences.push(network.recurrence(of, shape, training)?);
        }
        let at = Staged::new(&sizes);
        let CudaTagger { net, networks, device, stream, copies, work, .. } = self;
        work.reserve((device, stream, copies), (networks, &recurrences), &sizes, training)?;
        let turn = self.submitted % work.staging.len();
        let buffer = &mut work.staging[turn];
        buffer.copied.synchronize()?;
        let to = &mut buffer.words.as_mut_slice()[..at.words_in_all];
        self.batch.write(net, data, step, &at, to)?;
        self.submitted += 1;
        work.staging[turn].send(at.words_in_all, copies, stream, &work.batch)?;
        let pass = self.pass(&recurrences, at)?;
        pass.forward()?;
        if training {
            pass.backward()?;
            let header = self.work.batch.at(0);
            self.state.step(self.kernels()?.0, &self.stream, header)?;
        }
        Ok(())
    }

    fn pass<'a>(
        &'a self,
        recurrences: &'a [Arc<crate::Recurrence>],
        at: Staged,
    ) -> CudaResult<TaggerPass<'a>> {
        let (kernels, own) = self.kernels()?;
        let vectors = self.net.ranges()[2].clone();
        let learned = self.net.frozen.is_none().then_some(vectors);
        Ok(TaggerPass {
            net: &self.net,
            networks: &self.networks,
            recurrences: [&recurrences[0], &recurrences[1]],
            kernels,
            own,
            gemm: &self.gemm,
            stream: &self.stream,
            state: &self.state,
            vectors: match &learned {
                Some(range) => self.state.params.at(range.start),
                None => self.frozen.at(0),
            },
            learned,
            sizes: self.batch.sizes,
            at,
            work: &self.work,
        })
    }
}

impl Engine for CudaTagger {
    type Data = Sentences;

    fn identity(&self) -> String {
        tagger::identity(&self.net)
    }

    fn identity_of_0_1(&self) -> String {
        tagger::identity_of_0_1(&self.net)
    }

    fn sequences(&self, data: &Sentences) -> usize {
        data.len()
    }

    fn check(&self, data: &Sentences) -> Result<()> {
        match data.words().is_empty() {
            true => Err(Error::Data("no words to train on".into())),
            false => Ok(()),
        }
    }

    fn train(&mut self, data: &Sentences, batches: &Batches) -> Result<Steps> {
        let Batches { chosen, batch, rate, clip, .. } = *batches;
        cpu_only::check_batches(batches)?;
        self.device.enter()?;
        self.state.reset_totals(&self.stream)?;
        for chosen in chosen.chunks(batch.max(1)) {
            self.submit(data, chosen, Until::Step, Step { rate, clip })?;
        }
        self.stream.synchronize()?;
        Ok(self.state.steps(false)?)
    }

    fn batches_per_call(&self) -> usize {
        STRIDE
    }

    fn evaluate_batch(
        &mut self,
        data: &Sentences,
        _epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        self.device.enter()?;
        self.submit(data, chosen, Until::Losses, Step { rate: 0.0, clip: None })?;
        self.stream.synchronize()?;
        let found = self.state.losses(self.batch.counted(), false)?;
        let outputs = match self.batch.sizes.selected * self.net.words.output_width() {
            0 => Vec::new(),
            len => self.work.outputs.get(0, len)?,
        };
        inspect(&outputs, Targets::Classes(self.batch.tags()));
        Ok(found)
    }

    fn max_eval_rows(&self, _data: &Sentences) -> usize {
        MAX_EVAL_SENTENCES
    }

    fn state(&mut self) -> Result<State> {
        self.device.enter()?;
        self.stream.synchronize()?;
        Ok(self.state.get()?)
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        let (n, State { params, adam }) = (self.net.parameters(), &state);
        if [params.len(), adam.mean.len(), adam.square.len()] != [n; 3] {
            return Err(Error::Options(format!("{} parameters, expected {n}", params.len())));
        }
        cpu_only::check_adam(&adam.options())?;
        self.device.enter()?;
        self.stream.synchronize()?;
        Ok(self.state.set(&state)?)
    }

    fn memory(&self) -> usize {
        self.work.bytes() + self.state.bytes() + self.frozen.bytes()
    }
}

/// Refuses networks for which there are no kernels.
fn unsupported<T>(why: String) -> CudaResult<T> {
    Err(CudaError::Unsupported(why))
}
