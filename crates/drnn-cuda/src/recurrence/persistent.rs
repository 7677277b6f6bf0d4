//! Calls whose recurrences run in persistent kernels, in f16 with sums in f32.

use super::call::{Call, Input};
use super::{BackwardArguments, ForwardArguments};
use crate::error::Result;
use crate::kernels::params::{EndForwardHalf, Largest, ReadValuesHalf, SetScale, ptr, size};
use crate::persistent::{GivenStates, PersistentNet, PersistentPass, PersistentWorkspace};
use crate::runtime::gemm::{Form, Matrix, OutputType};
use crate::step::pass::THREADS;
use crate::step::workspace::Recurrent;

impl<'a> Call<'a> {
    fn persistent_work(&self) -> &PersistentWorkspace {
        match &self.memory.workspace.recurrent {
            Recurrent::Persistent(work) => work,
            Recurrent::Plain(_) => unreachable!("a call of the persistent way"),
        }
    }

    pub fn persistent_forward(&self, net: &PersistentNet, call: &ForwardArguments) -> Result<()> {
        let work = self.persistent_work();
        let states = GivenStates {
            kernels: self.own,
            first: [call.h0, call.c0],
            last: [call.h_n, call.c_n],
            d_first: [0; 2],
            d_last: [0; 2],
        };
        let pass = PersistentPass { pass: self.pass(), net, work, states: Some(&states) };
        let [exchange, _] = &work.h_exchange;
        let exchange = net.exchanges().then_some((exchange, &work.exchange_parity));
        let stride = work.layers[0].padded.inputs;
        self.begin_forward(call, Input::Half { x: &work.x, stride, exchange })?;
        let (mut below, mut at) = (0, 0);
        for launch in &net.launches {
            pass.weights_forward(launch)?;
            pass.launch_forward(launch, self.recurrence.options.training, [at, below])?;
            (below, at) = (at, at + pass.exchange_len(&launch.tiling));
        }
        self.end_forward(call)
    }

    /// Outputs, and last h of LSTMs: kernels write the last states of cells only.
    fn end_forward(&self, call: &ForwardArguments) -> Result<()> {
        let (work, plan, shape) =
            (self.persistent_work(), &self.recurrence.plan, self.recurrence.shape);
        let last = if plan.cell.has_cell_state() { call.h_n } else { 0 };
        let (layers, r, padded) = (plan.layers.len(), &plan.layers[0][0], work.layers[0].padded);
        let params = EndForwardHalf {
            h: ptr(work.h.at(0)),
            y: ptr(call.y),
            last: ptr(last),
            run: self.run(),
            layer_stride: work.layers.get(1).map_or(0, |above| above.h) as u64,
            format: self.recurrence.options.format.word(),
            steps: size(shape.steps),
            rows: size(shape.rows),
            layers: size(layers),
            directions: size(plan.layers[0].len()),
            n: size(r.n),
            padded: size(padded.n),
            stride: size(padded.width),
        };
        let of_last = layers * shape.rows * r.width;
        let threads = match (call.y, last) {
            (0, 0) => return Ok(()),
            (0, _) => of_last,
            (_, 0) => shape.step_rows() * r.width,
            _ => of_last.max(shape.step_rows() * r.width),
        };
        self.each(&self.own.end_forward_half, threads, &params)
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
        let states = layers.iter().map(Vec::len).sum::<usize>() * shape.rows * spec.units;
        let params = Largest {
            d_y: ptr(call.d_y),
            d_h: ptr(call.d_h_n),
            d_c: ptr(call.d_c_n),
            run: self.run(),
            largest: ptr(memory.largest.at(0)),
            states: states as u64,
            format: recurrence.options.format.word(),
            rows: size(shape.rows),
            positions: size(shape.step_rows()),
            width: size(width),
        };
        let values = states.max(shape.step_rows() * width);
        let blocks = values.div_ceil(THREADS).min(memory.largest.len());
        // SAFETY: the caller's arrays have these sizes; any number of threads will do.
        unsafe { self.own.largest.launch(self.stream, [blocks, 1], THREADS, &params)? }
        let (largest, header) = (ptr(memory.largest.at(0)), ptr(header));
        let params = SetScale { largest, header, count: size(blocks) };
        // SAFETY: a number of each of these blocks; a single block.
        unsafe { self.own.set_scale.launch(self.stream, [1, 1], THREADS, &params) }
    }
}
