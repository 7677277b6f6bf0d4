//! Estimates the device memory that the training of a tagger needs, before anything is allocated.

use super::network::Network;
use super::staged::{BatchSizes, SPELLINGS_STEP};
use super::workspace::Lengths;
use super::{CudaTagger, MAX_EVAL_SENTENCES};
use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::gemm::Precision;
use drnn::InputSpec;
use drnn_tasks::tagger::TaggerNet;
use drnn_train::tagger::Sentences;
use std::sync::Arc;

/// How many times as many words as on average a batch is expected to have at most. Sentences are
/// drawn at random, so their lengths average out.
const MANY_WORDS: f64 = 2.0;

impl CudaTagger {
    /// Bytes of device memory that training takes on `device` at `precision`, with batches of `batch`
    /// sentences of `parts`, of which the first is trained on and the others are evaluated. Batches
    /// with the longest sentence and the longest spelling are assumed, and twice as many words as on
    /// average. Fails with [`crate::Error::Unsupported`] if a GPU cannot train such networks.
    pub fn estimate(
        device: &Device,
        precision: Precision,
        net: &TaggerNet,
        parts: &[&Sentences],
        batch: usize,
    ) -> Result<usize> {
        let networks = [Network::new(&net.chars, 0)?, Network::new(&net.words, 0)?];
        let mut largest = Lengths::default();
        for (i, data) in parts.iter().enumerate() {
            let (training, sentences) = (i == 0, if i == 0 { batch } else { MAX_EVAL_SENTENCES });
            let sizes = batch_sizes(net, data, sentences);
            let plan = |which: usize, shape| {
                networks[which].plan_for(device, precision, shape, training).map(Arc::new)
            };
            let recurrences = [plan(0, sizes.char_shape())?, plan(1, sizes.word_shape())?];
            largest = largest.max(Lengths::of(&networks, &recurrences, &sizes, training));
        }
        // Buffers that grow take a quarter more than they have to.
        let frozen = net.frozen.as_ref().map_or(0, |table| table.values.len());
        let arrays = largest.bytes_in_all();
        Ok(arrays + arrays / 4 + size_of::<f32>() * (4 * net.parameters() + frozen))
    }
}

/// Of a large batch.
fn batch_sizes(net: &TaggerNet, data: &Sentences, sentences: usize) -> BatchSizes {
    let sentences = sentences.min(data.len()).max(1);
    let mean = data.words().len() as f64 / data.len().max(1) as f64;
    let words = (MANY_WORDS * mean * sentences as f64).ceil() as usize;
    let longest = (0..data.len()).map(|i| data.get(i).len()).max().unwrap_or(0);
    let all = data.spellings();
    let symbols_read = (0..all.len() as u32).map(|i| all.get(i).len()).max().unwrap_or(0);
    let special = sentences * (2 + net.words.delay());
    let spellings = (words + special).min(all.len()).next_multiple_of(SPELLINGS_STEP);
    let char_steps = symbols_read + net.chars.delay();
    BatchSizes {
        symbols: match net.chars.input() {
            InputSpec::Tokens { symbols, .. } => symbols,
            InputSpec::Dense(_) => 0,
        },
        char_steps,
        spellings,
        symbols_read: char_steps * spellings,
        word_steps: longest + 2 + net.words.delay(),
        sentences,
        elements: words + special,
        vectors: if net.frozen.is_some() { 0 } else { words.min(net.vector_rows()) },
        selected: words,
    }
}
