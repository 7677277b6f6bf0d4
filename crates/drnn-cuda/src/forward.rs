//! The way forward, put into a stream.
//!
//! ```text
//! gates = x W_ih^T                      one product for all steps
//! gates_s += h_{s-1} W_hh^T             then the cell's arithmetic, step by step
//! answers = h_{s+d} W_o^T + b
//! ```

use crate::error::Result;
use crate::kernels::Kernels;
use crate::memory::Buffer;
use crate::plan::{Plan, Recurrence, Shape, Staged};
use crate::product::{Form, Matrix, Products};
use crate::resident::Resident;
use crate::state::{DeviceState, LOSSES};
use crate::stream::{Arg, Stream};
use crate::work::Work;
use drnn::{Cell, InputSpec};

pub(crate) const THREADS: usize = 256;

/// What a pass works with.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub plan: &'a Plan,
    pub resident: &'a [Option<Resident>],
    pub shape: Shape,
    /// Where the batch begins among those at hand.
    pub first_word: usize,
    pub kernels: &'a Kernels,
    pub products: &'a Products,
    pub stream: &'a Stream,
    pub state: &'a DeviceState,
    pub work: &'a Work,
}

/// A row-major matrix that begins with value `at` of a buffer.
pub(crate) fn matrix(of: &Buffer<f32>, at: usize, stride: usize) -> Matrix {
    Matrix { at: of.at(at), stride }
}

impl Pass<'_> {
    pub fn staged(&self) -> Staged {
        Staged::new(&self.plan.spec, self.shape, self.work.goal)
    }

    /// Address of a part of the batch.
    pub fn part(&self, word: usize) -> u64 {
        self.work.batch.at(self.first_word + word)
    }

    pub fn run(&self) -> Arg {
        Arg::At(self.part(self.staged().run))
    }

    /// What layer `layer` reads, (S, B, q).
    pub fn input(&self, layer: usize) -> Matrix {
        let q = self.plan.layers[layer][0].inputs;
        match (layer, self.plan.spec.input()) {
            (0, InputSpec::Dense(_)) => Matrix { at: self.part(self.staged().input), stride: q },
            (0, InputSpec::Tokens { .. }) => matrix(&self.work.embedded, 0, q),
            // Behind the step of zeros.
            _ => matrix(&self.work.h[layer - 1], self.shape.rows * q, q),
        }
    }

    /// Of the last layer, the states that answers are made of: (A, B, n).
    pub fn answering(&self) -> Matrix {
        let h = self.work.h.last().expect("a layer");
        let width = self.plan.spec.hidden_width();
        matrix(h, (1 + self.plan.spec.delay()) * self.shape.rows * width, width)
    }

    /// Everything up to the losses and the gradient of the answers.
    pub fn forward(&self) -> Result<()> {
        self.embed()?;
        for (layer, recurrences) in self.plan.layers.iter().enumerate() {
            let (h, width) = (&self.work.h[layer], recurrences[0].width);
            let step = self.shape.rows * width;
            self.stream.clear(h, 0, step)?;
            self.stream.clear(h, (self.shape.steps + 1) * step, step)?;
            for recurrence in recurrences {
                self.recurrence(layer, recurrence)?;
            }
        }
        self.answer()?;
        self.loss()
    }

    pub fn embed(&self) -> Result<()> {
        let InputSpec::Tokens { embedding, .. } = self.plan.spec.input() else { return Ok(()) };
        let slots = self.shape.slots();
        let args = [
            Arg::At(self.part(self.staged().input)),
            Arg::At(self.state.params.at(0)), // the first of all parameters
            Arg::At(self.work.embedded.at(0)),
            slots.into(),
            embedding.into(),
        ];
        let blocks = (slots * embedding).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { self.kernels.embed.launch(self.stream, [blocks, 1], THREADS, &args) }
    }

    /// The products by which h reaches the gates: rows of W_hh, and where they go.
    pub fn recurrent<'w>(
        &'w self,
        layer: usize,
        r: &Recurrence,
    ) -> Vec<(usize, usize, &'w Buffer<f32>, usize)> {
        let work = &self.work.recurrences[layer][r.direction];
        match self.plan.cell {
            // The reset gate comes between W_hn h' and the candidate, so that is kept apart.
            Cell::Gru => {
                vec![(0, 2 * r.n, &work.gates, r.gates), (2 * r.n, r.n, &work.from_h, r.n)]
            }
            _ => vec![(0, r.gates, &work.gates, r.gates)],
        }
    }

    fn recurrence(&self, layer: usize, r: &Recurrence) -> Result<()> {
        let (params, work) = (&self.state.params, &self.work.recurrences[layer][r.direction]);
        let (rows, steps) = (self.shape.rows, self.shape.steps);
        let w_ih = matrix(params, r.w_ih, r.inputs);
        let gates = matrix(&work.gates, 0, r.gates);
        let sizes = [self.shape.slots(), r.gates, r.inputs];
        self.products.plain(Form::TimesTransposed, sizes, [self.input(layer), w_ih], 0.0, gates)?;
        if self.plan.cell.has_cell_state() {
            self.stream.clear(&work.c, 0, rows * r.n)?;
            self.stream.clear(&work.c, (steps + 1) * rows * r.n, rows * r.n)?;
        }
        if let Some(resident) = &self.resident[layer] {
            return resident.forward(self, layer, r);
        }
        for (taken, s) in r.order(steps).into_iter().enumerate() {
            let (before, _) = r.around(s);
            let h = &self.work.h[layer];
            let h_before = matrix(h, before * rows * r.width + r.direction * r.n, r.width);
            for (first, columns, to, stride) in self.recurrent(layer, r) {
                let fresh = !std::ptr::eq(to, &work.gates);
                if taken == 0 && !fresh {
                    continue; // h is zero
                }
                let w = matrix(params, r.w_hh + first * r.n, r.n);
                let to = matrix(to, s * rows * stride, stride);
                let beta = if fresh { 0.0 } else { 1.0 };
                self.products.plain(
                    Form::TimesTransposed,
                    [rows, columns, r.n],
                    [h_before, w],
                    beta,
                    to,
                )?;
            }
            self.cell(layer, r, s)?;
        }
        Ok(())
    }

    fn cell(&self, layer: usize, r: &Recurrence, s: usize) -> Result<()> {
        let (work, h) = (&self.work.recurrences[layer][r.direction], &self.work.h[layer]);
        let (rows, n) = (self.shape.rows, r.n);
        let (before, after) = r.around(s);
        let h_at = |step: usize| Arg::At(h.at(step * rows * r.width + r.direction * n));
        let c_at = |step: usize| Arg::At(work.c.at(step * rows * n));
        let gates = Arg::At(work.gates.at(s * rows * r.gates));
        let biases = [r.b_ih, r.b_hh].map(|at| Arg::At(self.state.params.at(at)));
        let end = [self.run(), s.into(), rows.into(), n.into()];
        let (kernel, args) = match self.plan.cell {
            Cell::Lstm => (
                &self.kernels.lstm_forward,
                vec![
                    gates,
                    biases[0],
                    biases[1],
                    c_at(before),
                    c_at(after),
                    h_at(after),
                    r.width.into(),
                ],
            ),
            Cell::Gru => {
                let from_h = Arg::At(work.from_h.at(s * rows * n));
                let args = vec![
                    gates,
                    from_h,
                    biases[0],
                    biases[1],
                    h_at(before),
                    h_at(after),
                    r.width.into(),
                ];
                (&self.kernels.gru_forward, args)
            }
            Cell::RnnTanh | Cell::RnnRelu => {
                let relu = Arg::U32(u32::from(self.plan.cell == Cell::RnnRelu));
                let args = vec![gates, biases[0], biases[1], h_at(after), r.width.into(), relu];
                (&self.kernels.rnn_forward, args)
            }
        };
        let args: Vec<Arg> = args.into_iter().chain(end).collect();
        // SAFETY: arguments as the source names them; a thread per row and unit.
        unsafe { kernel.launch(self.stream, [(rows * n).div_ceil(THREADS), 1], THREADS, &args) }
    }

    /// Where the answers are: (A, B, m).
    pub fn answers(&self) -> u64 {
        match self.plan.output {
            Some(_) => self.work.answers.at(0),
            None => self.answering().at,
        }
    }

    fn answer(&self) -> Result<()> {
        let Some([weight, bias]) = self.plan.output else { return Ok(()) };
        let (m, width) = (self.plan.spec.answer_width(), self.plan.spec.hidden_width());
        let positions = self.shape.positions();
        let w = matrix(&self.state.params, weight, width);
        let to = matrix(&self.work.answers, 0, m);
        self.products.plain(
            Form::TimesTransposed,
            [positions, m, width],
            [self.answering(), w],
            0.0,
            to,
        )?;
        let args = [
            Arg::At(to.at),
            Arg::At(self.state.params.at(bias)),
            self.run(),
            self.plan.spec.delay().into(),
            self.shape.rows.into(),
            positions.into(),
            m.into(),
        ];
        let blocks = (positions * m).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { self.kernels.answer.launch(self.stream, [blocks, 1], THREADS, &args) }
    }

    pub fn loss(&self) -> Result<()> {
        let (positions, m) = (self.shape.positions(), self.plan.spec.answer_width());
        let kernel = match self.work.goal {
            crate::plan::Goal::Classes => &self.kernels.cross_entropy,
            crate::plan::Goal::Values => &self.kernels.squared_error,
        };
        let args = [
            Arg::At(self.part(0)),
            Arg::At(self.answers()),
            Arg::At(self.part(self.staged().targets)),
            Arg::At(self.work.d_answers.at(0)),
            Arg::At(self.work.losses.at(0)),
            Arg::At(self.work.hits.at(0)),
            positions.into(),
            m.into(),
        ];
        let sums = [
            Arg::At(self.work.losses.at(0)),
            Arg::At(self.work.hits.at(0)),
            Arg::At(self.state.losses.at(0)),
            positions.into(),
        ];
        // SAFETY: arguments as the sources name them; a warp per position.
        unsafe {
            kernel.launch(self.stream, [(positions * 32).div_ceil(THREADS), 1], THREADS, &args)?;
            self.kernels.sum_losses.launch(self.stream, [LOSSES, 1], THREADS, &sums)
        }
    }
}
