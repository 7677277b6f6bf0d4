//! The forward pass with persistent kernels.

use super::slots::Slots;
use super::tiling::Tiling;
use super::workspace::{LayerWorkspace, PersistentWorkspace, has_table};
use super::{GivenStates, Launch, LaunchKernels, PersistentNet};
use crate::error::Result;
use crate::kernels::params::{
    AddOutputBiasPadded, Params, PersistentForward, PlaceStatesHalf, SymbolTable, ToHalf, ptr, size,
};
use crate::runtime::gemm::{Form, Matrix, OutputType};
use crate::runtime::kernel::Kernel;
use crate::runtime::memory::Buffer;
use crate::step::pass::{Pass, Until, launch_each};
use crate::step::plan::Recurrence;
use drnn::InputSpec;

/// A pass whose recurrences run in persistent kernels.
#[derive(Clone, Copy)]
pub(crate) struct PersistentPass<'a> {
    pub pass: Pass<'a>,
    pub net: &'a PersistentNet,
    pub work: &'a PersistentWorkspace,
    /// What sequences begin with; `None` for zeros.
    pub states: Option<&'a GivenStates<'a>>,
}

/// The row-major matrix that begins at value `at` of a buffer.
pub(super) fn matrix(of: &Buffer<u16>, at: usize, stride: usize) -> Matrix {
    Matrix { at: of.at(at), stride }
}

/// Arrays of f16, one for each lane of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneArrays {
    /// Address of the first lane's.
    pub at: u64,
    /// f16 from each lane's to the next one's.
    pub stride: u64,
}

impl PersistentPass<'_> {
    /// Submits everything up to `until`; with the losses, the gradient of the outputs too. `packed`
    /// is whether the packed weights are still valid from the previous pass.
    pub fn forward(&self, until: Until, packed: bool) -> Result<()> {
        self.states(until == Until::Step, packed)?;
        if until >= Until::Outputs {
            self.output_layer()?;
        }
        if until >= Until::Losses {
            self.pass.loss(self.pass.work.outputs.at(0))?;
        }
        Ok(())
    }

    /// Computes the states of all layers; saves what backward needs if `save`. Meanwhile the side
    /// stream packs weights and resets the other h exchange.
    fn states(&self, save: bool, packed: bool) -> Result<()> {
        let Pass { stream, side_stream, .. } = self.pass;
        let side = PersistentPass { pass: Pass { stream: side_stream, ..self.pass }, ..*self };
        side_stream.wait_for(stream)?;
        self.input(packed)?;
        let (mut below, mut at) = (0, 0);
        for launch in &self.net.launches {
            if !packed {
                side.weights_forward(launch)?;
                stream.wait_for(side_stream)?;
            }
            self.launch_forward(launch, save, [at, below])?;
            (below, at) = (at, at + self.exchange_len(&launch.tiling));
        }
        if !packed {
            side.pack_output()?;
        }
        if save {
            side.prepare_backward()?;
        }
        stream.wait_for(side_stream)?;
        if !self.net.exchanges() {
            return Ok(());
        }
        side.reset_exchange()?;
        side_stream.wait_for(stream)?;
        side.flip_exchange()
    }

    /// Launches an elementwise kernel with a thread per value.
    pub fn each<P: Params>(&self, kernel: &Kernel<P>, values: usize, params: &P) -> Result<()> {
        // SAFETY: callers pass addresses of buffers as long as the sizes say.
        unsafe { launch_each(kernel, self.pass.stream, values, params) }
    }

    /// A GEMM with f16 factors.
    pub fn product(
        &self,
        form: Form,
        sizes: [usize; 3],
        factors: [Matrix; 2],
        beta: f32,
        to: Matrix,
        written: OutputType,
    ) -> Result<()> {
        self.pass.gemm.f16(form, sizes, factors, beta, to, written)
    }

    /// Converts x to f16, or computes the tables that replace it.
    fn input(&self, packed: bool) -> Result<()> {
        let Pass { plan, shape, kernels, params, .. } = self.pass;
        let slots = shape.step_rows();
        let tokens = self.pass.part(self.pass.staged().input);
        let k = self.work.layers[0].padded.inputs;
        let InputSpec::Tokens { symbols, embedding } = plan.spec.input() else {
            return self.convert_to_half(tokens, slots, plan.layers[0][0].inputs, k);
        };
        if !has_table(plan) {
            self.pass.embed()?;
            let embedded = self.pass.work.embedded.at(0);
            return self.convert_to_half(embedded, slots, embedding, k);
        }
        if packed {
            return Ok(());
        }
        for r in &plan.layers[0] {
            let padded = self.work.layers[0].padded.n;
            let params = SymbolTable {
                embeddings: ptr(params.at(0)), // the first of all parameters
                w_ih: ptr(params.at(r.w_ih)),
                table: ptr(self.table(r).at),
                slots: Slots::of_w_ih(plan.cell).word(),
                symbols: size(symbols),
                e: size(embedding),
                n: size(r.n),
                padded: size(padded),
            };
            self.each(&kernels.half.symbol_table, symbols * padded * 4, &params)?;
        }
        Ok(())
    }

    /// x (rows, stride) in f16 from (rows, columns) in f32.
    fn convert_to_half(&self, from: u64, rows: usize, columns: usize, stride: usize) -> Result<()> {
        let params = ToHalf {
            header: ptr(0),
            from: ptr(from),
            to: ptr(self.work.x.at(0)),
            rows: size(rows),
            columns: size(columns),
            stride: size(stride),
        };
        self.each(&self.pass.kernels.half.to_half, rows * stride, &params)
    }

    pub(super) fn table(&self, r: &Recurrence) -> Matrix {
        let (symbols, n) = (self.work.layers[0].padded.below, self.work.layers[0].padded.n);
        matrix(&self.work.table, r.direction * symbols * 4 * n, 4 * n)
    }

    /// The input of layer `layer`, (S, B, K).
    pub fn layer_input(&self, layer: usize) -> Matrix {
        let k = self.work.layers[layer].padded.inputs;
        match layer {
            0 => matrix(&self.work.x, 0, k),
            _ => self.layer_output(layer - 1),
        }
    }

    /// The output of layer `layer`, (S, B, W): H after the step of first states.
    pub fn layer_output(&self, layer: usize) -> Matrix {
        let LayerWorkspace { padded, h, .. } = &self.work.layers[layer];
        matrix(&self.work.h, h + self.pass.shape.rows * padded.width, padded.width)
    }

    /// A direction's gates, (S, B, 4 N).
    pub fn gates(&self, layer: usize, direction: usize) -> Matrix {
        let LayerWorkspace { padded, gates, .. } = &self.work.layers[layer];
        let stride = 4 * padded.n;
        matrix(&self.work.gates, gates + direction * self.pass.shape.step_rows() * stride, stride)
    }

    /// Its cell states, (S + 2, B, N).
    pub(super) fn c(&self, layer: usize, direction: usize) -> Matrix {
        let (shape, LayerWorkspace { padded, c, .. }) = (self.pass.shape, &self.work.layers[layer]);
        let each = (shape.steps + 2) * shape.rows * padded.n;
        matrix(&self.work.c, c + direction * each, padded.n)
    }

    /// Its H, (S + 2, B, N) of (S + 2, B, W).
    pub fn h(&self, layer: usize, direction: usize) -> Matrix {
        let LayerWorkspace { padded, h, .. } = &self.work.layers[layer];
        matrix(&self.work.h, h + direction * padded.n, padded.width)
    }

    /// The recurrences of a launch, one per lane, with their layers.
    pub(super) fn lanes(&self, launch: &Launch) -> Vec<(usize, Recurrence)> {
        let layer = |layer: usize| self.pass.plan.layers[layer].iter().map(move |r| (layer, *r));
        launch.layers.clone().flat_map(layer).collect()
    }

    /// Address of the first lane's array of f16, and the stride from each lane to the next; 0 for a
    /// single lane.
    pub(super) fn lane_arrays(
        &self,
        launch: &Launch,
        of: impl Fn(usize, usize) -> Matrix,
    ) -> LaneArrays {
        let lanes = self.lanes(launch);
        let at = |lane: usize| {
            let (layer, r) = &lanes[lane.min(lanes.len() - 1)];
            of(*layer, r.direction).at
        };
        LaneArrays { at: at(0), stride: (at(1) - at(0)) / size_of::<u16>() as u64 }
    }

    /// Its W_ih, (4 N, K).
    pub fn w_ih(&self, layer: usize, r: &Recurrence) -> Matrix {
        let LayerWorkspace { padded, w_ih, .. } = &self.work.layers[layer];
        matrix(w_ih, r.direction * 4 * padded.n * padded.inputs, padded.inputs)
    }

    /// Whether a layer looks its input products up in a table.
    pub(super) fn uses_table(&self, layer: usize) -> bool {
        layer == 0 && has_table(self.pass.plan)
    }

    /// Addresses of value `at` in both h exchanges.
    pub(super) fn h_exchange(&self, at: usize) -> [u64; 2] {
        [0, 1].map(|parity| self.work.h_exchange[parity].at(at))
    }

    /// Address of the tokens of step `s`.
    pub(super) fn tokens_at(&self, s: usize) -> u64 {
        let all = self.pass.part(self.pass.staged().input);
        all + (s * self.pass.shape.rows * size_of::<u32>()) as u64
    }

    /// Whether a launch needs x W_ih^T of its first layer from a GEMM: it is neither in a table nor
    /// computed by the recurrence itself.
    pub fn needs_input_product(&self, launch: &Launch) -> bool {
        let inside = launch.tiling.below > 0 && !launch.tiling.stacked;
        !self.uses_table(launch.layers.start) && !inside
    }

    /// Computes x W_ih^T of a layer's directions, all steps.
    fn input_product(&self, layer: usize) -> Result<()> {
        let (shape, padded) = (self.pass.shape, self.work.layers[layer].padded);
        for r in &self.pass.plan.layers[layer] {
            let sizes = [shape.step_rows(), 4 * padded.n, padded.inputs];
            let factors = [self.layer_input(layer), self.w_ih(layer, r)];
            let to = self.gates(layer, r.direction);
            self.product(Form::TimesTransposed, sizes, factors, 0.0, to, OutputType::F16)?;
        }
        Ok(())
    }

    /// `exchange` and `below` are offsets into the h exchange: this launch's, and the one below's.
    pub fn launch_forward(
        &self,
        launch: &Launch,
        save: bool,
        [mut exchange, mut below]: [usize; 2],
    ) -> Result<()> {
        let Pass { shape, stream, .. } = self.pass;
        let Launch { layers, tiling, kernels, .. } = launch;
        let first = layers.start;
        let (padded, tokens) = (self.work.layers[first].padded, self.uses_table(first));
        if self.needs_input_product(launch) {
            self.input_product(first)?;
        }
        let gates = self.lane_arrays(launch, |layer, direction| self.gates(layer, direction));
        let c = self.lane_arrays(launch, |layer, direction| self.c(layer, direction));
        let h = self.lane_arrays(launch, |layer, direction| self.h(layer, direction));
        for (first_row, groups) in tiling.waves(shape.rows) {
            let exchanged = |at| if tiling.exchanges() { self.h_exchange(at) } else { [0; 2] };
            let ([even, odd], [below_even, below_odd]) = (exchanged(exchange), exchanged(below));
            let parity = if tiling.exchanges() { self.work.exchange_parity.at(0) } else { 0 };
            let params = PersistentForward {
                packed: ptr(self.work.packed[0].at(launch.packed[0])),
                bias: ptr(self.work.bias.at(launch.biases)),
                gates: ptr(gates.at),
                table: ptr(self.work.table.at(0)),
                tokens: ptr(if tokens { self.pass.part(self.pass.staged().input) } else { 0 }),
                c: ptr(c.at),
                h: ptr(h.at),
                h_exchange_even: ptr(even),
                h_exchange_odd: ptr(odd),
                below_even: ptr(below_even),
                below_odd: ptr(below_odd),
                parity: ptr(parity),
                run: ptr(self.pass.run()),
                gates_stride: gates.stride,
                c_stride: c.stride,
                h_stride: h.stride,
                symbols: size(if tokens { padded.below } else { 0 }),
                width: size(padded.width),
                lanes: size(tiling.lanes),
                groups: size(groups),
                first_row: size(first_row),
                steps: size(shape.steps),
                rows: size(shape.rows),
                save: u32::from(save),
            };
            let blocks = tiling.lanes * groups * tiling.blocks();
            // SAFETY: the workspace is large enough for the shape, launch after launch.
            match (kernels, self.states) {
                (LaunchKernels::Zeros { forward, .. }, _) => unsafe {
                    forward.launch(stream, blocks, &params)?;
                },
                (LaunchKernels::States { forward, .. }, Some(states)) => {
                    self.place_states(launch, states, &params)?;
                    let of_cell = usize::from(self.pass.plan.cell.has_cell_state());
                    let from = self.of_launch(launch, states.first)[of_cell];
                    let last = self.of_launch(launch, states.last)[of_cell];
                    let n = size(self.pass.plan.layers[first][0].n);
                    let params = params.with_states(ptr(from), ptr(last), n);
                    // SAFETY: as above; callers' arrays have the shapes of states.
                    unsafe { forward.launch(stream, blocks, &params)? }
                }
                (LaunchKernels::States { .. }, None) => unreachable!("states are given"),
                (LaunchKernels::Steps(kernels), states) => {
                    match states {
                        Some(states) => self.place_states(launch, states, &params)?,
                        None => self.clear_ends(launch, save)?,
                    }
                    self.steps_forward(launch, kernels, save)?;
                }
            }
            exchange += tiling.exchange_len(self.exchange_steps(), groups);
            below += tiling.exchange_len(self.exchange_steps(), groups);
        }
        Ok(())
    }

    /// Steps of the h exchange: given states have a place after the last step.
    fn exchange_steps(&self) -> usize {
        self.pass.shape.steps + usize::from(self.states.is_some())
    }

    /// Length of the h exchange of a launch, all waves.
    pub fn exchange_len(&self, tiling: &Tiling) -> usize {
        tiling.exchange_len(self.exchange_steps(), tiling.all_groups(self.pass.shape.rows))
    }

    /// Addresses of the states of a launch's first lane, of h and c.
    pub(super) fn of_launch(&self, launch: &Launch, states: [u64; 2]) -> [u64; 2] {
        let layer = &self.pass.plan.layers[launch.layers.start];
        let each = self.pass.shape.rows * layer[0].n * size_of::<f32>();
        let before = (launch.layers.start * layer.len() * each) as u64;
        states.map(|at| if at == 0 { 0 } else { at + before })
    }

    /// Puts the first states of a wave where the kernel reads them.
    fn place_states(
        &self,
        launch: &Launch,
        states: &GivenStates,
        params: &PersistentForward,
    ) -> Result<()> {
        let (tiling, [first_h, first_c]) = (&launch.tiling, self.of_launch(launch, states.first));
        let PersistentForward { lanes, groups, steps, .. } = *params;
        let before = tiling.exchange_len(steps as usize, groups as usize) * size_of::<u16>();
        let has_c = self.pass.plan.cell.has_cell_state();
        let params = PlaceStatesHalf {
            first_h: ptr(first_h),
            first_c: ptr(if has_c { first_c } else { first_h }),
            h: params.h,
            c: params.c,
            exchange: match tiling.exchanges() {
                true => params.h_exchange_even.wrapping_byte_add(before),
                false => ptr(0),
            },
            h_stride: params.h_stride,
            c_stride: params.c_stride,
            width: params.width,
            lanes,
            groups,
            block_rows: size(tiling.rows),
            first_row: params.first_row,
            steps,
            rows: params.rows,
            n: size(self.pass.plan.layers[launch.layers.start][0].n),
            padded: size(tiling.padded),
            save: params.save,
        };
        let threads = lanes as usize * groups as usize * tiling.rows * tiling.padded;
        self.each(&states.kernels.place_states_half, threads, &params)
    }

    /// States of the last layer that outputs are computed from: (A, B, W), or (selected, W).
    pub(super) fn output_states(&self) -> Matrix {
        let last = self.work.layers.last().expect("a layer");
        if self.pass.shape.selected.is_some() {
            return matrix(&self.work.d_above[0], 0, last.padded.width);
        }
        let first = (1 + self.pass.plan.spec.delay()) * self.pass.shape.rows;
        matrix(&self.work.h, last.h + first * last.padded.width, last.padded.width)
    }

    /// The output layer's weight, (m padded, W).
    pub(super) fn w_out(&self) -> Matrix {
        matrix(&self.work.w_out, 0, self.work.layers.last().expect("a layer").padded.width)
    }

    fn output_layer(&self) -> Result<()> {
        let Pass { plan, shape, kernels, params, work, .. } = self.pass;
        let [_, bias] = plan.output.expect("`supports` requires an output layer");
        let (m, width) = (plan.spec.output_width(), self.w_out().stride);
        let rows = m.next_multiple_of(8);
        let to = Matrix { at: self.work.outputs.at(0), stride: rows };
        let h = self.h(plan.layers.len() - 1, 0).at;
        self.pass.gather(&kernels.half.rows, h, &self.work.d_above, width)?;
        let sizes = [shape.computed_outputs(), rows, width];
        let factors = [self.output_states(), self.w_out()];
        self.product(Form::TimesTransposed, sizes, factors, 0.0, to, OutputType::F32)?;
        let mask = self.pass.output_mask();
        let params = AddOutputBiasPadded {
            from: ptr(to.at),
            outputs: ptr(work.outputs.at(0)),
            bias: ptr(params.at(bias)),
            run: ptr(mask.run),
            delay: size(mask.delay),
            rows: size(mask.rows),
            positions: size(shape.computed_outputs()),
            m: size(m),
            stride: size(rows),
        };
        let kernel = &kernels.half.add_output_bias_padded;
        self.each(kernel, shape.computed_outputs() * m, &params)
    }
}
