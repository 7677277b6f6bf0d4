//! Device memory of a tagger's batches. It grows with the largest batch so far, by a quarter at
//! least, so that it soon stops growing.

use super::network::Network;
use super::staged::{BatchSizes, Staged};
use crate::error::Result;
use crate::recurrence::Recurrence;
use crate::runtime::device::Device;
use crate::runtime::gemm::WORKSPACE;
use crate::runtime::memory::{Buffer, Pod};
use crate::runtime::stream::{Event, Stream};
use crate::step::workspace::{CHUNKS, STAGING_BUFFERS, StagingBuffer};
use std::sync::Arc;

/// Everything a batch needs besides parameters. T, B, S, W and P as in `staged`; q is the width of
/// the word network's input, H that of its states, E that of a symbol's embedding.
#[derive(Debug)]
pub(super) struct TaggerWorkspace {
    pub staging: Vec<StagingBuffer>,
    pub batch: Buffer<u32>,
    /// Inputs of both networks, (S, W, E) and (T, B, q), and their gradients.
    pub x: [Buffer<f32>; 2],
    pub d_x: [Buffer<f32>; 2],
    /// Last states of the char network, (layers directions, W, n).
    pub encodings: Buffer<f32>,
    pub d_encodings: Buffer<f32>,
    /// (T, B, H).
    pub y: Buffer<f32>,
    pub d_y: Buffer<f32>,
    /// The states that outputs are computed from, (P, H).
    pub states: Buffer<f32>,
    pub d_states: Buffer<f32>,
    /// (P, m).
    pub outputs: Buffer<f32>,
    pub d_outputs: Buffer<f32>,
    /// (P).
    pub losses: Buffer<f32>,
    pub hits: Buffer<u32>,
    /// Of both recurrences; and scratch memory for one call at a time.
    pub saved: [Buffer<u8>; 2],
    pub scratch: Buffer<u8>,
    /// cuBLAS's, for the output layer.
    pub gemm: Buffer<u8>,
    /// (chunks, m).
    pub partial: Buffer<f32>,
}

impl TaggerWorkspace {
    /// For a tagger of `tags` tags, and no batch yet.
    pub fn new(device: &Device, tags: usize) -> Result<TaggerWorkspace> {
        let floats = || Buffer::<f32>::zeros(device, 0);
        let bytes = || Buffer::<u8>::zeros(device, 0);
        Ok(TaggerWorkspace {
            staging: staging(device, 1)?,
            batch: Buffer::zeros(device, 1)?,
            x: [floats()?, floats()?],
            d_x: [floats()?, floats()?],
            encodings: floats()?,
            d_encodings: floats()?,
            y: floats()?,
            d_y: floats()?,
            states: floats()?,
            d_states: floats()?,
            outputs: floats()?,
            d_outputs: floats()?,
            losses: floats()?,
            hits: Buffer::zeros(device, 0)?,
            saved: [bytes()?, bytes()?],
            scratch: bytes()?,
            gemm: Buffer::zeros(device, WORKSPACE)?,
            partial: Buffer::zeros(device, CHUNKS * tags)?,
        })
    }

    /// Makes sure that a batch fits; `recurrences` are those of its shapes. Waits for the streams if
    /// something has to grow.
    pub fn reserve(
        &mut self,
        (device, stream, copies): (&Device, &Stream, &Stream),
        (networks, recurrences): (&[Network; 2], &[Arc<Recurrence>]),
        sizes: &BatchSizes,
        training: bool,
    ) -> Result<()> {
        let needed = Lengths::of(networks, recurrences, sizes, training);
        let mut waited = false;
        let mut wait = || -> Result<()> {
            if !std::mem::replace(&mut waited, true) {
                copies.synchronize()?;
                stream.synchronize()?;
            }
            Ok(())
        };
        if self.batch.len() < needed.batch {
            wait()?;
            let words = needed.batch + needed.batch / 4;
            self.staging = staging(device, words)?;
            self.batch = Buffer::zeros(device, words)?;
        }
        for (buffer, len) in self.floats().into_iter().zip(needed.floats) {
            grow(device, buffer, len, &mut wait)?;
        }
        grow(device, &mut self.hits, sizes.selected, &mut wait)?;
        let [saved_chars, saved_words] = &mut self.saved;
        let bytes = [saved_chars, saved_words, &mut self.scratch];
        for (buffer, len) in bytes.into_iter().zip(needed.bytes) {
            grow(device, buffer, len, &mut wait)?;
        }
        Ok(())
    }

    /// In the order of [`Lengths::floats`].
    fn floats(&mut self) -> [&mut Buffer<f32>; FLOATS] {
        let TaggerWorkspace { x: [x, words], d_x: [d_x, d_words], .. } = self;
        [
            x,
            words,
            &mut self.encodings,
            &mut self.y,
            &mut self.states,
            &mut self.outputs,
            &mut self.d_outputs,
            &mut self.losses,
            d_x,
            d_words,
            &mut self.d_encodings,
            &mut self.d_y,
            &mut self.d_states,
        ]
    }

    pub fn bytes(&self) -> usize {
        let TaggerWorkspace { x, d_x, saved, .. } = self;
        let floats = [&self.encodings, &self.y, &self.states, &self.outputs, &self.losses];
        let gradients = [&self.d_encodings, &self.d_y, &self.d_states, &self.d_outputs];
        let floats = x.iter().chain(d_x).chain(floats).chain(gradients).map(Buffer::bytes);
        let bytes = saved.iter().chain([&self.scratch, &self.gemm]).map(Buffer::bytes);
        let staged = (1 + self.staging.len()) * self.batch.bytes();
        floats.chain(bytes).sum::<usize>() + staged + self.hits.bytes() + self.partial.bytes()
    }
}

/// Arrays of f32 that depend on the batch.
const FLOATS: usize = 13;

/// Lengths of arrays that a batch needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lengths {
    pub batch: usize,
    /// As [`TaggerWorkspace::floats`].
    pub floats: [usize; FLOATS],
    /// Saved of both recurrences, scratch.
    pub bytes: [usize; 3],
}

impl Lengths {
    pub fn of(
        networks: &[Network; 2],
        recurrences: &[Arc<Recurrence>],
        sizes: &BatchSizes,
        training: bool,
    ) -> Lengths {
        let [chars, words] = networks;
        let inputs = |network: &Network| network.plan.layers[0][0].inputs;
        let encodings = chars.lanes() * sizes.spellings * chars.units();
        let y = sizes.word_slots() * words.width();
        let states = sizes.selected * words.width();
        let outputs = sizes.selected * words.plan.spec.output_width();
        let x = [sizes.char_slots() * inputs(chars), sizes.word_slots() * inputs(words)];
        let back = |len: usize| if training { len } else { 0 };
        Lengths {
            batch: Staged::new(sizes).words_in_all,
            floats: [
                x[0],
                x[1],
                encodings,
                y,
                states,
                outputs,
                outputs,
                sizes.selected,
                back(x[0]),
                back(x[1]),
                back(encodings),
                back(y),
                back(states),
            ],
            bytes: [
                recurrences[0].saved_bytes(),
                recurrences[1].saved_bytes(),
                recurrences.iter().map(|r| r.workspace_bytes()).max().unwrap_or(0),
            ],
        }
    }

    /// Of arrays in which batches of both kinds fit.
    pub fn max(self, other: Lengths) -> Lengths {
        let both = |i: usize| self.floats[i].max(other.floats[i]);
        Lengths {
            batch: self.batch.max(other.batch),
            floats: std::array::from_fn(both),
            bytes: std::array::from_fn(|i| self.bytes[i].max(other.bytes[i])),
        }
    }

    /// Bytes of device memory.
    pub fn bytes_in_all(&self) -> usize {
        let words = (1 + STAGING_BUFFERS) * self.batch + self.floats.iter().sum::<usize>();
        4 * words + self.bytes.iter().sum::<usize>() + WORKSPACE
    }
}

/// Staging buffers for so many words. Many taggers may wait for theirs at the same time.
fn staging(device: &Device, words: usize) -> Result<Vec<StagingBuffer>> {
    let buffer = |_| {
        let copied = Event::blocking(device)?;
        Ok(StagingBuffer { copied, ..StagingBuffer::new(device, words)? })
    };
    (0..STAGING_BUFFERS).map(buffer).collect()
}

/// A larger buffer in place of one that is too small.
fn grow<T: Pod>(
    device: &Device,
    buffer: &mut Buffer<T>,
    len: usize,
    wait: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    if buffer.len() >= len {
        return Ok(());
    }
    wait()?;
    *buffer = Buffer::zeros(device, 0)?; // before more is allocated
    *buffer = Buffer::zeros(device, len + len / 4)?;
    Ok(())
}
