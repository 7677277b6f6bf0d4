//! Calls whose recurrences run step by step, in f32 or TF32.

use super::call::{Call, Input};
use super::{BackwardArguments, ForwardArguments};
use crate::error::Result;
use crate::kernels::params::{LastStates, PlaceStates, ptr, size};
use crate::plain::{PlainPass, PlainWorkspace};
use crate::runtime::memory::Buffer;
use crate::step::plan::Recurrence;
use crate::step::workspace::Recurrent;

impl Call<'_> {
    fn plain_work(&self) -> &PlainWorkspace {
        match &self.memory.workspace.recurrent {
            Recurrent::Plain(work) => work,
            Recurrent::Persistent(_) => unreachable!("a call of the plain way"),
        }
    }

    pub fn plain_forward(&self, call: &ForwardArguments) -> Result<()> {
        let (pass, work, shape) = (self.pass(), self.plain_work(), self.recurrence.shape);
        let (plan, no_resident) = (&self.recurrence.plan, vec![None; self.recurrence.spec.layers]);
        let plain = PlainPass {
            pass,
            work,
            resident: &no_resident,
            cells: &self.own.cells,
            from_states: true,
        };
        self.begin_forward(call, Input::Single(&self.memory.x))?;
        for (layer, directions) in plan.layers.iter().enumerate() {
            for r in directions {
                let first = self.states_of(call.h0, layer, r.direction);
                self.place_states(first, plain.h_at(layer, r, 0), r, r.width)?;
                if plan.cell.has_cell_state() {
                    let first = self.states_of(call.c0, layer, r.direction);
                    self.place_states(first, plain.c_at(layer, r, 0), r, r.n)?;
                }
            }
            // Both directions read the layer below.
            directions.iter().try_for_each(|r| plain.recurrence(layer, r))?;
            for r in directions {
                let last = self.states_of(call.h_n, layer, r.direction);
                self.last_states(plain.h_at(layer, r, 0), last, r, r.width)?;
                if plan.cell.has_cell_state() {
                    let last = self.states_of(call.c_n, layer, r.direction);
                    self.last_states(plain.c_at(layer, r, 0), last, r, r.n)?;
                }
            }
        }
        if call.y == 0 {
            return Ok(());
        }
        let h = work.h.last().expect("a layer");
        let width = plan.layers[0][0].width;
        self.write_values(0, h.at(shape.rows * width), call.y, [width; 2])
    }

    /// Puts first states where no step writes.
    fn place_states(&self, given: u64, to: u64, r: &Recurrence, stride: usize) -> Result<()> {
        let shape = self.recurrence.shape;
        let params = PlaceStates {
            given: ptr(given),
            to: ptr(to),
            run: self.run(),
            reverse: size(r.direction),
            steps: size(shape.steps),
            rows: size(shape.rows),
            n: size(r.n),
            stride: size(stride),
        };
        let values = (shape.steps + 2) * shape.rows * r.n;
        self.each(&self.own.place_states, values, &params)
    }

    /// Copies last states, if they are wanted.
    fn last_states(&self, from: u64, to: u64, r: &Recurrence, stride: usize) -> Result<()> {
        if to == 0 {
            return Ok(());
        }
        let rows = self.recurrence.shape.rows;
        let params = LastStates {
            from: ptr(from),
            to: ptr(to),
            run: self.run(),
            reverse: size(r.direction),
            rows: size(rows),
            n: size(r.n),
            stride: size(stride),
        };
        self.each(&self.own.last_states, rows * r.n, &params)
    }

    pub fn plain_backward(&self, call: &BackwardArguments) -> Result<()> {
        let (pass, work) = (self.pass(), self.plain_work());
        let (plan, no_resident) = (&self.recurrence.plan, vec![None; self.recurrence.spec.layers]);
        let plain = PlainPass {
            pass,
            work,
            resident: &no_resident,
            cells: &self.own.cells,
            from_states: true,
        };
        self.gemm.bind(self.stream, &self.memory.gemm)?;
        let width = plan.layers[0][0].width;
        match call.d_y {
            0 => self.clear(&work.d_above[0])?,
            from => self.read_values(from, &work.d_above[0], width)?,
        }
        for (done, layer) in (0..plan.layers.len()).rev().enumerate() {
            let (above, below) = (&work.d_above[done % 2], &work.d_above[(done + 1) % 2]);
            for r in &plan.layers[layer] {
                self.load_gradient(call.d_h_n, &work.d_h, layer, r)?;
                self.load_gradient(call.d_c_n, &work.d_c, layer, r)?;
                plain.recurrence_backward(layer, r, above)?;
                self.store_gradient(&work.d_h, call.d_h0, layer, r)?;
                self.store_gradient(&work.d_c, call.d_c0, layer, r)?;
            }
            if layer > 0 || call.d_x != 0 {
                plain.input_gradient(layer, below)?;
            }
        }
        if call.d_x == 0 {
            return Ok(());
        }
        let d_x = work.d_above[plan.layers.len() % 2].at(0);
        self.write_values(0, d_x, call.d_x, [plan.layers[0][0].inputs; 2])
    }

    /// The gradient of a last state begins on its way to the first one.
    fn load_gradient(
        &self,
        all: u64,
        to: &Buffer<f32>,
        layer: usize,
        r: &Recurrence,
    ) -> Result<()> {
        match self.states_of(all, layer, r.direction) {
            0 => self.clear(to),
            from => self.stream.copy_within(from, to.at(0), to.bytes()),
        }
    }

    fn store_gradient(
        &self,
        from: &Buffer<f32>,
        all: u64,
        layer: usize,
        r: &Recurrence,
    ) -> Result<()> {
        match self.states_of(all, layer, r.direction) {
            0 => Ok(()),
            to => self.stream.copy_within(from.at(0), to, from.bytes()),
        }
    }
}
