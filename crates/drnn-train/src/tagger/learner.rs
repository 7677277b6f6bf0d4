//! A tagger in training on the CPU.
//!
//! ```text
//! loss = sum over sentences of the mean over words of -log p(tag)
//! ```

use super::gather::{CharRows, WordRows, gather};
use super::identity::{identity, identity_of_0_1};
use super::sentences::Sentences;
use super::sizes::{initial_params, put_vectors};
use crate::error::{Error, Result};
use crate::loss::{LossSum, Targets, weighted_cross_entropy};
use crate::optim::{Adam, AdamOptions, clip_scale, norm};
use crate::training::{Batches, Engine, Inspect, State, Steps, forward};
use drnn::{BundleTable, Cpu, Gradient, Lane, Params, States, Tape};
use drnn_tasks::tagger::TaggerNet;

/// Parameters, optimiser, and memory for a step.
pub struct TaggerLearner {
    net: TaggerNet,
    state: State,
    /// Of the char net and of the word net.
    tapes: [Tape; 2],
    threads: usize,
    chars: CharRows,
    words: WordRows,
    encodings: States,
    /// Gradients of parameters, outputs, the word net's input and encodings.
    gradient: Vec<f32>,
    d_outputs: Vec<f32>,
    d_x: Vec<f32>,
    d_encodings: States,
}

impl TaggerLearner {
    /// First parameters drawn from `seed`.
    pub fn new(cpu: &Cpu, net: TaggerNet, adam: AdamOptions, seed: u64) -> TaggerLearner {
        let params = initial_params(&net, seed);
        TaggerLearner {
            tapes: [Tape::on(cpu, &net.chars), Tape::on(cpu, &net.words)],
            threads: cpu.threads(),
            gradient: vec![0.0; params.len()],
            state: State { adam: Adam::new(adam, params.len()), params },
            net,
            chars: CharRows::default(),
            words: WordRows::default(),
            encodings: States::default(),
            d_outputs: Vec::new(),
            d_x: Vec::new(),
            d_encodings: States::default(),
        }
    }

    /// Goes on from these vectors of words, as [`put_vectors`] does.
    pub fn with_vectors(mut self, table: &BundleTable) -> Result<TaggerLearner> {
        put_vectors(&self.net, table, &mut self.state.params)?;
        Ok(self)
    }

    /// Its networks.
    pub fn net(&self) -> &TaggerNet {
        &self.net
    }

    /// Runs the gathered batch and passes its outputs to `inspect`; for a step of `batches` also computes
    /// the gradient.
    fn pass(&mut self, batches: Option<&Batches>, inspect: &mut Inspect) -> drnn::Result<LossSum> {
        // Each network has factors of its own.
        let dropout = batches.and_then(|batches| batches.dropout);
        let [of_chars, of_words] = [0, 1].map(|net| Some(dropout?.of_pass(net)));
        let adam = &self.state.adam;
        let TaggerLearner { net, chars, words, encodings, gradient, d_outputs, d_x, .. } = self;
        let ([char_range, word_range, vector_range], params) = (net.ranges(), &self.state.params);
        let [char_tape, word_tape] = &mut self.tapes;
        let lane = |params, batch| [Lane { params: Params::Flat(params), batch, start: None }];
        let char_lane = lane(&params[char_range.clone()], chars.batch());
        let char_pass = forward(char_tape, &char_lane, of_chars, adam)?;
        char_pass.last_into(0, encodings);
        words.join(net, chars.rows(), encodings, net.vectors(params));
        let word_lane = lane(&params[word_range.clone()], words.batch());
        let word_pass = forward(word_tape, &word_lane, of_words, adam)?;
        let (outputs, m) = (word_pass.outputs(0), net.words.output_width());
        d_outputs.resize(outputs.len(), 0.0);
        let loss = weighted_cross_entropy(outputs, m, &words.tags, &words.weights, d_outputs);
        inspect(outputs, Targets::Classes(&words.tags));
        if batches.is_none() || !loss.sum.is_finite() {
            return Ok(loss);
        }
        d_x.resize(words.x_len(), 0.0);
        word_pass.backward(&mut [Gradient {
            outputs: d_outputs,
            last: None,
            params: &mut gradient[word_range],
            input: Some(d_x),
            start: None,
        }])?;
        let d_encodings = &mut self.d_encodings;
        for (d, like) in [(&mut d_encodings.h, &encodings.h), (&mut d_encodings.c, &encodings.c)] {
            d.clear();
            d.resize(like.len(), 0.0);
        }
        let vectors = &mut gradient[vector_range];
        vectors.fill(0.0);
        let vectors = net.frozen.is_none().then_some(vectors);
        words.part(net, d_x, chars.rows(), d_encodings, vectors);
        char_pass.backward(&mut [Gradient {
            outputs: &[],
            last: Some(d_encodings),
            params: &mut gradient[char_range],
            input: None,
            start: None,
        }])?;
        Ok(loss)
    }
}

impl Engine for TaggerLearner {
    type Data = Sentences;

    fn identity(&self) -> String {
        identity(&self.net)
    }

    fn identity_of_0_1(&self) -> String {
        identity_of_0_1(&self.net)
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
        let mut steps = Steps::default();
        for chosen in chosen.chunks(batch.max(1)) {
            gather(&self.net, data, chosen, &mut self.chars, &mut self.words);
            let loss = match self.pass(Some(batches), &mut |_, _| {}) {
                // Data holds no such number, so these are parameters that have run away.
                Err(drnn::Error::NotFinite { .. }) => {
                    LossSum { sum: f64::NAN, ..LossSum::default() }
                }
                other => other?,
            };
            let norm = if loss.sum.is_finite() { norm(&self.gradient) } else { f64::NAN };
            steps.loss.add(loss);
            steps.norms += norm;
            if !norm.is_finite() {
                break;
            }
            let scale = clip.map_or(1.0, |max| clip_scale(norm, max));
            let State { params, adam } = &mut self.state;
            adam.step(params, &self.gradient, scale, rate);
        }
        Ok(steps)
    }

    fn evaluate_batch(
        &mut self,
        data: &Sentences,
        _epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        gather(&self.net, data, chosen, &mut self.chars, &mut self.words);
        Ok(self.pass(None, inspect)?)
    }

    fn state(&mut self) -> Result<State> {
        Ok(self.state.clone())
    }

    fn params(&mut self) -> Result<Vec<f32>> {
        Ok(self.state.params.clone())
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        let (n, State { params, adam }) = (self.net.parameters(), &state);
        if [params.len(), adam.mean.len(), adam.square.len()] != [n; 3] {
            return Err(Error::Options(format!("{} parameters, expected {n}", params.len())));
        }
        self.state = state;
        Ok(())
    }

    fn use_cpu(&mut self, cpu: &Cpu) {
        if self.threads != cpu.threads() {
            self.threads = cpu.threads();
            self.tapes = [Tape::on(cpu, &self.net.chars), Tape::on(cpu, &self.net.words)];
        }
    }

    fn memory(&self) -> usize {
        let of = |tape: &Tape| {
            let memory = tape.memory();
            memory.saved + memory.extra + memory.fixed
        };
        self.tapes.iter().map(of).sum()
    }
}
