//! Calls whose recurrences run in persistent kernels, in f16 with sums in f32.

use super::call::Call;
use super::{BackwardArguments, ForwardArguments};
use crate::error::Result;
use crate::kernels::params::{
    Largest, LastStatesHalf, ReadValuesHalf, SetScale, WriteStatesHalf, ptr, size,
};
use crate::persistent::{
    EMPTY_SENTINEL, GivenStates, PersistentNet, PersistentPass, PersistentWorkspace,
};
use crate::runtime::gemm::{Form, Matrix, OutputType};
use crate::step::pass::THREADS;
use crate::step::workspace::Recurrent;

/// Blocks of the search for the largest gradient, at most.
const LARGEST_BLOCKS: usize = 1024;

impl<'a> Call<'a> {
    fn persistent_work(&self) -> &PersistentWorkspace {
        match &self.memory.workspace.recurrent {
            Recurrent::Persistent(work) => work,
            Recurrent::Plain(_) => unreachable!("a call of the persistent way"),
        }
    }

    pub fn persistent_forward(&self, net: &PersistentNet, call: &ForwardArguments) -> Result<()> {
        let (work, shape) = (self.persistent_work(), self.recurrence.shape);
        let states = GivenStates {
            kernels: self.own,
            first: [call.h0, call.c0],
            last: [call.h_n, call.c_n],
            d_first: [0; 2],
            d_last: [0; 2],
        };
        let pass = PersistentPass { pass: self.pass(), net, work, states: Some(&states) };
        self.begin_forward(call.lengths)?;
        let padded = work.layers[0].padded;
        let width = self.recurrence.spec.inputs;
        self.read_half(0, call.x, work.x.at(0), [width; 2], [padded.inputs; 2])?;
        // The exchange of this call, and nothing else: words of an earlier one are never read.
        let [exchange, _] = &work.h_exchange;
        self.stream.fill(exchange, 0, exchange.len(), EMPTY_SENTINEL)?;
        if net.exchanges() {
            self.clear(&work.exchange_parity)?;
        }
        let (mut below, mut at) = (0, 0);
        for launch in &net.launches {
            pass.weights_forward(launch)?;
            pass.launch_forward(launch, self.recurrence.options.training, [at, below])?;
            (below, at) = (at, at + pass.exchange_len(&launch.tiling));
        }
        self.last_states_half(&pass, call.h_n)?;
        if call.y == 0 {
            return Ok(());
        }
        let last = self.recurrence.plan.layers.len() - 1;
        let (r, padded) = (&self.recurrence.plan.layers[last][0], work.layers[last].padded);
        let params = WriteStatesHalf {
            // After the first states.
            from: ptr(pass.layer_output(last).at),
            to: ptr(call.y),
            run: self.run(),
            format: self.recurrence.options.format.word(),
            rows: size(shape.rows),
            positions: size(shape.step_rows()),
            width: size(r.width),
            n: size(r.n),
            padded: size(padded.n),
            stride: size(padded.width),
        };
        self.each(&self.own.write_states_half, shape.step_rows() * r.width, &params)
    }

    /// Last h of LSTMs, if they are wanted: kernels write the last states of cells only.
    fn last_states_half(&self, pass: &PersistentPass, all: u64) -> Result<()> {
        let (plan, rows) = (&self.recurrence.plan, self.recurrence.shape.rows);
        if all == 0 || !plan.cell.has_cell_state() {
            return Ok(());
        }
        for (layer, directions) in plan.layers.iter().enumerate() {
            for r in directions {
                let from = pass.h(layer, r.direction);
                let params = LastStatesHalf {
                    from: ptr(from.at),
                    to: ptr(self.states_of(all, layer, r.direction)),
                    run: self.run(),
                    reverse: size(r.direction),
                    rows: size(rows),
                    n: size(r.n),
                    stride: size(from.stride),
                };
                self.each(&self.own.last_states_half, rows * r.n, &params)?;
            }
        }
        Ok(())
    }

    /// f16 (S, B, stride) from the caller's format (S, B, width): each `below` columns get padding.
    /// Divided by the scale of gradients that a `header` has.
    fn read_half(
        &self,
        header: u64,
        from: u64,
        to: u64,
        [width, below]: [usize; 2],
        [stride, padded_below]: [usize; 2],
    ) -> Result<()> {
        let shape = self.recurrence.shape;
        let params = ReadValuesHalf {
            header: ptr(header),
            from: ptr(from),
            to: ptr(to),
            run: self.run(),
            format: self.recurrence.options.format.word(),
            rows: size(shape.rows),
            positions: size(shape.step_rows()),
            width: size(width),
            below: size(below),
            padded_below: size(padded_below),
            stride: size(stride),
        };
        self.each(&self.own.read_values_half, shape.step_rows() * stride, &params)
    }

    pub fn persistent_backward(&self, net: &PersistentNet, call: &BackwardArguments) -> Result<()> {
        let (work, plan) = (self.persistent_work(), &self.recurrence.plan);
        let states = GivenStates {
            kernels: self.own,
            first: [0; 2],
            last: [0; 2],
            d_first: [call.d_h0, call.d_c0],
            d_last: [call.d_h_n, call.d_c_n],
        };
        let pass = PersistentPass { pass: self.pass(), net, work, states: Some(&states) };
        self.gemm.bind(self.stream, &self.memory.gemm)?;
        self.scale(pass.header(), call)?;
        let (r, padded) = (&plan.layers[0][0], work.layers[plan.layers.len() - 1].padded);
        let sizes = ([r.width, r.n], [padded.width, padded.n]);
        match call.d_y {
            0 => self.clear(&work.d_above[0])?,
            from => self.read_half(pass.header(), from, work.d_above[0].at(0), sizes.0, sizes.1)?,
        }
        for (done, launch) in net.launches.iter().rev().enumerate() {
            let (above, below) = (&work.d_above[done % 2], &work.d_above[(done + 1) % 2]);
            let first = launch.layers.start;
            pass.pack_backward(launch)?;
            if first > 0 || call.d_x != 0 {
                pass.pack_w_ih(first)?;
            }
            pass.launch_backward(launch, above)?;
            for layer in launch.layers.clone().rev() {
                for r in &plan.layers[layer] {
                    pass.weight_gradients(layer, r)?;
                    if layer == first && layer > 0 {
                        pass.input_gradient(layer, r, below)?;
                    }
                }
            }
        }
        match call.d_x {
            0 => Ok(()),
            to => self.write_input_gradient(&pass, to),
        }
    }

    /// The gradient of x, in f32 before it gets the caller's format.
    fn write_input_gradient(&self, pass: &PersistentPass, to: u64) -> Result<()> {
        let (work, shape, padded) = (pass.work, pass.pass.shape, pass.work.layers[0].padded);
        let d_x = Matrix { at: work.d_x.at(0), stride: padded.inputs };
        let sizes = [shape.step_rows(), padded.inputs, 4 * padded.n];
        for r in &pass.pass.plan.layers[0] {
            let factors = [pass.gates(0, r.direction), pass.w_ih(0, r)];
            let beta = r.direction as f32;
            pass.product(Form::Times, sizes, factors, beta, d_x, OutputType::F32)?;
        }
        let sizes = [self.recurrence.spec.inputs, padded.inputs];
        self.write_values(pass.header(), d_x.at, to, sizes)
    }

    /// Derives the scale of gradients in f16 from all that are given.
    fn scale(&self, header: u64, call: &BackwardArguments) -> Result<()> {
        let Call { recurrence, memory, .. } = self;
        let (spec, shape) = (recurrence.spec, recurrence.shape);
        let (layers, width) = (&recurrence.plan.layers, recurrence.plan.layers[0][0].width);
        self.clear(&memory.largest)?;
        let f32 = super::Format::F32;
        let states = [layers.iter().map(Vec::len).sum::<usize>() * shape.rows, spec.units];
        let given = [
            (call.d_y, self.run(), recurrence.options.format, [shape.step_rows(), width]),
            (call.d_h_n, ptr(0), f32, states),
            (call.d_c_n, ptr(0), f32, states),
        ];
        for (values, run, format, [positions, width]) in given {
            if values == 0 {
                continue;
            }
            let params = Largest {
                values: ptr(values),
                run,
                largest: ptr(memory.largest.at(0)),
                format: format.word(),
                rows: size(shape.rows),
                positions: size(positions),
                width: size(width),
            };
            let blocks = (positions * width).div_ceil(THREADS).min(LARGEST_BLOCKS);
            // SAFETY: the caller's arrays have these sizes; any number of threads will do.
            unsafe { self.own.largest.launch(self.stream, [blocks, 1], THREADS, &params)? }
        }
        let params = SetScale { largest: ptr(memory.largest.at(0)), header: ptr(header) };
        // SAFETY: one word each; a single thread.
        unsafe { self.own.set_scale.launch(self.stream, [1, 1], 1, &params) }
    }
}
