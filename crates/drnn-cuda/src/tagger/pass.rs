//! A forward or backward pass over a staged batch.
//!
//! ```text
//! X_chars = E[symbols]                          dE = sums by symbol of dX_chars
//! e = last states of the char network           d e = sums over a spelling's occurrences of dX_words
//! X_words = [e ; v]                             d v = sums over a word's occurrences of dX_words
//! Y = states of the word network                dY = dO W at the rows of outputs, zeros elsewhere
//! O = Y[rows of outputs] W^T + b                dO = weight (softmax(O) - onehot(tag))
//! ```

use super::network::Network;
use super::staged::{BatchSizes, Staged};
use super::workspace::TaggerWorkspace;
use crate::error::Result;
use crate::kernels::params::{
    AddOutputBias, Embed, EmbedBackward, Gather, JoinWords, Params, Scatter, SumEncodings,
    SumLosses, SumVectors, WeightedCrossEntropy, ptr, size,
};
use crate::kernels::{Kernels, RowKernels, TaggerKernels};
use crate::recurrence::{BackwardArguments, ForwardArguments, Lengths, Recurrence};
use crate::runtime::gemm::{Form, Gemm};
use crate::runtime::kernel::Kernel;
use crate::runtime::stream::Stream;
use crate::step::pass::{ColumnSums, THREADS, launch_each, matrix};
use crate::step::state::{DeviceState, LOSSES};
use drnn::InputSpec;
use drnn_tasks::tagger::TaggerNet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// What a pass over one batch works with. All work goes to `stream`.
pub(super) struct TaggerPass<'a> {
    pub net: &'a TaggerNet,
    /// The char network and the word network.
    pub networks: &'a [Network; 2],
    pub recurrences: [&'a Recurrence; 2],
    pub kernels: &'a Kernels,
    pub own: &'a TaggerKernels,
    pub gemm: &'a Mutex<Gemm>,
    pub stream: &'a Stream,
    pub state: &'a DeviceState,
    /// Address of the table of word vectors, (words, width).
    pub vectors: u64,
    /// Where it lies among the parameters, if it is trained.
    pub learned: Option<Range<usize>>,
    pub sizes: BatchSizes,
    pub at: Staged,
    pub work: &'a TaggerWorkspace,
}

impl TaggerPass<'_> {
    /// Submits everything up to the losses and the gradient of the outputs.
    pub fn forward(&self) -> Result<()> {
        if self.sizes.selected == 0 {
            // No sentence has a word.
            return self.stream.clear(&self.state.losses, 0, self.state.losses.len());
        }
        let work = self.work;
        self.embed()?;
        self.recur(0, work.x[0].at(0), 0, work.encodings.at(0))?;
        self.join()?;
        self.recur(1, work.x[1].at(0), work.y.at(0), 0)?;
        self.output_layer()?;
        self.losses()
    }

    /// Submits everything from the gradient of the outputs to that of all parameters.
    pub fn backward(&self) -> Result<()> {
        let gradient = &self.state.gradient;
        if self.sizes.selected == 0 {
            return self.stream.clear(gradient, 0, gradient.len());
        }
        let work = self.work;
        self.output_backward()?;
        self.recur_back(1, work.d_y.at(0), 0, work.d_x[1].at(0))?;
        if let Some(vectors) = &self.learned {
            self.stream.clear(gradient, vectors.start, vectors.len())?;
            self.sum_vectors(gradient.at(vectors.start))?;
        }
        self.sum_encodings()?;
        self.recur_back(0, 0, work.d_encodings.at(0), work.d_x[0].at(0))?;
        self.embed_backward()
    }

    /// Address of word `word` of the staged batch.
    fn part(&self, word: usize) -> u64 {
        self.work.batch.at(word)
    }

    /// Launches an elementwise kernel with at least `threads` threads.
    fn each<P: Params>(&self, kernel: &Kernel<P>, threads: usize, params: &P) -> Result<()> {
        // SAFETY: the workspace was reserved for this batch, whose indices `batch` has checked.
        unsafe { launch_each(kernel, self.stream, threads, params) }
    }

    /// Symbols and width of the char network's embedding.
    fn embedding(&self) -> [usize; 2] {
        match self.net.chars.input() {
            InputSpec::Tokens { symbols, embedding } => [symbols, embedding],
            InputSpec::Dense(_) => unreachable!("`TaggerNet` has refused such a char network"),
        }
    }

    fn embed(&self) -> Result<()> {
        let (slots, [_, e]) = (self.sizes.char_slots(), self.embedding());
        let params = Embed {
            tokens: ptr(self.part(self.at.symbols)),
            // Embeddings are the char network's first parameters.
            table: ptr(self.state.params.at(self.networks[0].first)),
            x: ptr(self.work.x[0].at(0)),
            slots: size(slots),
            e: size(e),
        };
        self.each(&self.kernels.embed, slots * e, &params)
    }

    fn embed_backward(&self) -> Result<()> {
        let [symbols, e] = self.embedding();
        let params = EmbedBackward {
            starts: ptr(self.part(self.at.symbol_starts)),
            by_symbol: ptr(self.part(self.at.by_symbol)),
            d_x: ptr(self.work.d_x[0].at(0)),
            d_table: ptr(self.state.gradient.at(self.networks[0].first)),
            e: size(e),
        };
        // SAFETY: a block per symbol and dimension; the kernel's shared memory is for 128 threads.
        unsafe { self.kernels.embed_backward.launch(self.stream, [symbols, e], 128, &params) }
    }

    /// The recurrence of network `which`.
    fn recur(&self, which: usize, x: u64, y: u64, h_n: u64) -> Result<()> {
        let parameters = self.networks[which].arrays(&self.state.params);
        let lengths = [self.at.char_lengths, self.at.word_lengths][which];
        let call = ForwardArguments {
            x,
            parameters: &parameters,
            lengths: Lengths::I32(self.part(lengths)),
            y,
            h_n,
            saved: self.saved(which),
            workspace: self.work.scratch.at(0),
            ..ForwardArguments::default()
        };
        // SAFETY: the workspace was reserved for this recurrence.
        unsafe { self.recurrences[which].forward(self.stream.raw().cast(), &call) }
    }

    /// Where it saves its arrays; null without a backward pass.
    fn saved(&self, which: usize) -> u64 {
        match self.recurrences[which].saved_bytes() {
            0 => 0,
            _ => self.work.saved[which].at(0),
        }
    }

    fn recur_back(&self, which: usize, d_y: u64, d_h_n: u64, d_x: u64) -> Result<()> {
        let network = &self.networks[which];
        let parameters = network.arrays(&self.state.params);
        let gradients = network.arrays(&self.state.gradient);
        let call = BackwardArguments {
            parameters: &parameters,
            d_y,
            d_h_n,
            d_x,
            gradients: &gradients,
            saved: self.saved(which),
            workspace: self.work.scratch.at(0),
            ..BackwardArguments::default()
        };
        // SAFETY: the workspace was reserved for this recurrence.
        unsafe { self.recurrences[which].backward(self.stream.raw().cast(), &call) }
    }

    /// First value of the last layer among last states of the char network.
    fn last_layer(&self) -> usize {
        self.networks[0].lanes_below() * self.sizes.spellings * self.networks[0].units()
    }

    fn join(&self) -> Result<()> {
        let (slots, encoding, width) =
            (self.sizes.word_slots(), self.net.encoding(), self.net.vector());
        let params = JoinWords {
            words: ptr(self.part(self.at.words)),
            rows: ptr(self.part(self.at.rows)),
            encodings: ptr(self.work.encodings.at(self.last_layer())),
            vectors: ptr(self.vectors),
            x: ptr(self.work.x[1].at(0)),
            slots: size(slots),
            spellings: size(self.sizes.spellings),
            n: size(self.networks[0].units()),
            encoding: size(encoding),
            width: size(width),
        };
        self.each(&self.own.join_words, slots * (encoding + width), &params)
    }

    fn sum_encodings(&self) -> Result<()> {
        let (spellings, encoding) = (self.sizes.spellings, self.net.encoding());
        let below = self.last_layer();
        self.stream.clear(&self.work.d_encodings, 0, below)?;
        let params = SumEncodings {
            starts: ptr(self.part(self.at.row_starts)),
            slots: ptr(self.part(self.at.by_row)),
            d_x: ptr(self.work.d_x[1].at(0)),
            d_encodings: ptr(self.work.d_encodings.at(below)),
            spellings: size(spellings),
            n: size(self.networks[0].units()),
            encoding: size(encoding),
            q: size(encoding + self.net.vector()),
        };
        self.each(&self.own.sum_encodings, spellings * encoding, &params)
    }

    /// To the gradient of the table at `d_vectors`, which is zero elsewhere.
    fn sum_vectors(&self, d_vectors: u64) -> Result<()> {
        let (count, width) = (self.sizes.vectors, self.net.vector());
        let params = SumVectors {
            words: ptr(self.part(self.at.vectors)),
            starts: ptr(self.part(self.at.vector_starts)),
            slots: ptr(self.part(self.at.by_vector)),
            d_x: ptr(self.work.d_x[1].at(0)),
            d_vectors: ptr(d_vectors),
            count: size(count),
            encoding: size(self.net.encoding()),
            width: size(width),
        };
        self.each(&self.own.sum_vectors, count * width, &params)
    }

    /// Places of weight and bias of the output layer among the parameters.
    fn output(&self) -> [usize; 2] {
        let words = &self.networks[1];
        let output = words.plan.output.expect("`TaggerNet` has refused word networks without");
        output.map(|place| words.first + place)
    }

    /// The cuBLAS handle, bound to the stream: recurrences bind it to their own memory.
    fn products(&self) -> Result<MutexGuard<'_, Gemm>> {
        let gemm = self.gemm.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        gemm.bind(self.stream, &self.work.gemm)?;
        Ok(gemm)
    }

    fn output_layer(&self) -> Result<()> {
        let (count, width) = (self.sizes.selected, self.networks[1].width());
        let (m, work, [weight, bias]) = (self.net.words.output_width(), self.work, self.output());
        let selected = self.part(self.at.selected);
        if let RowKernels::F32 { gather, .. } = &self.kernels.rows {
            let params = Gather {
                h: ptr(work.y.at(0)),
                places: ptr(selected),
                to: ptr(work.states.at(0)),
                count: size(count),
                width: size(width),
            };
            self.each(gather, count * width, &params)?;
        }
        let factors = [matrix(&work.states, 0, width), matrix(&self.state.params, weight, width)];
        let outputs = matrix(&work.outputs, 0, m);
        self.products()?.f32(Form::TimesTransposed, [count, m, width], factors, 0.0, outputs)?;
        let params = AddOutputBias {
            outputs: ptr(outputs.at),
            bias: ptr(self.state.params.at(bias)),
            // Rows of one step, which exists where the row of y is not 0, and it never is.
            run: ptr(selected),
            delay: 0,
            rows: size(count),
            positions: size(count),
            m: size(m),
        };
        self.each(&self.kernels.add_output_bias, count * m, &params)
    }

    fn losses(&self) -> Result<()> {
        let (count, work) = (self.sizes.selected, self.work);
        let params = WeightedCrossEntropy {
            weights: ptr(self.part(self.at.weights)),
            outputs: ptr(work.outputs.at(0)),
            classes: ptr(self.part(self.at.tags)),
            d_outputs: ptr(work.d_outputs.at(0)),
            losses: ptr(work.losses.at(0)),
            hits: ptr(work.hits.at(0)),
            positions: size(count),
            m: size(self.net.words.output_width()),
        };
        // A warp per position.
        self.each(&self.kernels.weighted_cross_entropy, 32 * count, &params)?;
        let params = SumLosses {
            losses: ptr(work.losses.at(0)),
            hits: ptr(work.hits.at(0)),
            partial: ptr(self.state.losses.at(0)),
            positions: size(count),
        };
        // SAFETY: partial sums of as many blocks; the kernel's shared memory is for 256 threads.
        unsafe { self.kernels.sum_losses.launch(self.stream, [LOSSES, 1], THREADS, &params) }
    }

    fn output_backward(&self) -> Result<()> {
        let (count, width) = (self.sizes.selected, self.networks[1].width());
        let (m, work, [weight, bias]) = (self.net.words.output_width(), self.work, self.output());
        let d = matrix(&work.d_outputs, 0, m);
        let (states, d_states) = (matrix(&work.states, 0, width), matrix(&work.d_states, 0, width));
        let gradient = &self.state.gradient;
        {
            let gemm = self.products()?;
            let w = matrix(&self.state.params, weight, width);
            gemm.f32(Form::Times, [count, width, m], [d, w], 0.0, d_states)?;
            let d_w = matrix(gradient, weight, width);
            gemm.f32(Form::TransposedTimes, [m, width, count], [d, states], 0.0, d_w)?;
        }
        let sums = ColumnSums { rows: count, columns: m, partial: &work.partial };
        sums.submit(self.kernels, self.stream, d.at, [gradient.at(bias), 0])?;
        let slots = self.sizes.word_slots();
        self.stream.clear(&work.d_y, 0, slots * width)?;
        let RowKernels::F32 { scatter, .. } = &self.kernels.rows else { return Ok(()) };
        let params = Scatter {
            from: ptr(d_states.at),
            places: ptr(self.part(self.at.selected)),
            to: ptr(work.d_y.at(0)),
            rows: 0, // dY has as many rows as Y
            count: size(count),
            width: size(width),
        };
        self.each(scatter, count * width, &params)
    }
}
