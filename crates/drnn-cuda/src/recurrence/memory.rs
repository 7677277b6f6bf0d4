//! The arrays in a caller's memory. The same code measures and places them, so that what is
//! promised is what is used.

use super::call::Direction;
use super::{Recurrence, Way};
use crate::error::Result;
use crate::persistent::{Kind, LayerWorkspace, Padded, PersistentWorkspace, Tiling};
use crate::plain::{PlainWorkspace, RecurrenceWorkspace};
use crate::runtime::arena::Arena;
use crate::runtime::device::Device;
use crate::runtime::gemm::WORKSPACE;
use crate::runtime::memory::{Buffer, Pod};
use crate::step::plan::{Staged, TargetType};
use crate::step::workspace::{CHUNKS, Recurrent, Workspace};
use drnn::Cell;

/// Blocks of the search for the largest gradient, at most.
const LARGEST_BLOCKS: usize = 1024;

/// The two arenas of memory of a call.
struct Arenas<'a> {
    device: &'a Device,
    /// Without training there is nothing to save: such arrays are scratch memory then.
    training: bool,
    back: bool,
    saved: Arena,
    scratch: Arena,
}

impl Arenas<'_> {
    /// What a forward pass leaves for its backward pass; the same in both.
    fn saved<T: Pod>(&mut self, len: usize) -> Result<Buffer<T>> {
        let arena = if self.training { &mut self.saved } else { &mut self.scratch };
        arena.take(self.device, len)
    }

    fn scratch<T: Pod>(&mut self, len: usize) -> Result<Buffer<T>> {
        self.scratch.take(self.device, len)
    }

    /// Scratch memory of a forward pass only.
    fn forward<T: Pod>(&mut self, len: usize) -> Result<Buffer<T>> {
        self.scratch(if self.back { 0 } else { len })
    }

    /// Scratch memory of a backward pass only.
    fn backward<T: Pod>(&mut self, len: usize) -> Result<Buffer<T>> {
        self.scratch(if self.back { len } else { 0 })
    }
}

/// The arrays of a pass, in the caller's memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// cuBLAS's workspace.
    pub gemm: Buffer<u8>,
    /// Forward: biases of layers that have none; backward: where their gradient goes. (gates n).
    pub zeros: Buffer<f32>,
    pub dropped: Buffer<f32>,
    /// Backward: the bits of the largest gradients that each block of a search finds.
    pub largest: Buffer<u32>,
    /// The plain way: x (S, B, q), in the staged batch.
    pub x: Buffer<f32>,
    /// The staged batch, which is a header (the scale of gradients), the steps of each row and
    /// perhaps x; and the recurrences' own arrays.
    pub workspace: Workspace,
}

impl Recurrence {
    /// Bytes that are saved, and of workspace.
    pub(super) fn measure(&self, direction: Direction) -> Result<[usize; 2]> {
        let mut arenas = self.arenas(direction, [None; 2]);
        self.place(&mut arenas)?;
        Ok([arenas.saved.used(), arenas.scratch.used()])
    }

    /// Places the arrays of a pass.
    pub(super) fn memory(&self, direction: Direction, saved: u64, work: u64) -> Result<Memory> {
        self.place(&mut self.arenas(direction, [Some(saved), Some(work)]))
    }

    fn arenas(&self, direction: Direction, [saved, scratch]: [Option<u64>; 2]) -> Arenas<'_> {
        let [saved, scratch] = [saved, scratch].map(Arena::new);
        let (training, back) = (self.options.training, direction == Direction::Backward);
        Arenas { device: &self.device, training, back, saved, scratch }
    }

    fn place(&self, arenas: &mut Arenas) -> Result<Memory> {
        let Recurrence { plan, shape, way, device, .. } = self;
        let staged = Staged::new(&plan.spec, *shape, TargetType::Values);
        let biases = plan.layers[0][0].gates;
        let inputs = match way {
            Way::Plain => shape.step_rows() * plan.layers[0][0].inputs,
            Way::Persistent => 0,
        };
        let batch = arenas.saved::<u32>(staged.input + inputs)?;
        let x = match batch.len() {
            0 => Buffer::borrowed(device, 0, 0)?, // measured only
            _ => Buffer::borrowed(device, batch.at(staged.input), inputs)?,
        };
        let recurrent = match way {
            Way::Plain => Recurrent::Plain(self.place_plain(arenas)?),
            Way::Persistent => Recurrent::Persistent(Box::new(self.place_persistent(arenas)?)),
        };
        let nothing = || Buffer::borrowed(device, 0, 0);
        let workspace = Workspace {
            capacity: *shape,
            target_type: TargetType::Values,
            staging: Vec::new(),
            batch,
            embedded: nothing()?,
            recurrent,
            outputs: nothing()?,
            d_outputs: nothing()?,
            losses: nothing()?,
            hits: Buffer::borrowed(device, 0, 0)?,
            partial: arenas.backward(if *way == Way::Plain { CHUNKS * biases } else { 0 })?,
        };
        Ok(Memory {
            gemm: arenas.scratch(WORKSPACE)?,
            zeros: arenas.forward(biases)?,
            dropped: arenas.backward(biases)?,
            largest: arenas.backward(LARGEST_BLOCKS)?,
            x,
            workspace,
        })
    }

    fn place_plain(&self, arenas: &mut Arenas) -> Result<PlainWorkspace> {
        let Recurrence { plan, shape, .. } = self;
        let (slots, padded_rows) = (shape.step_rows(), (shape.steps + 2) * shape.rows);
        let (mut h, mut recurrences) = (Vec::new(), Vec::new());
        for layer in &plan.layers {
            h.push(arenas.saved(padded_rows * layer[0].width)?);
            let mut of_layer = Vec::new();
            for r in layer {
                let from_h = if plan.cell == Cell::Gru { slots * r.n } else { 0 };
                let c = if plan.cell.has_cell_state() { padded_rows * r.n } else { 0 };
                of_layer.push(RecurrenceWorkspace {
                    gates: arenas.saved(slots * r.gates)?,
                    from_h: arenas.saved(from_h)?,
                    c: arenas.saved(c)?,
                });
            }
            recurrences.push(of_layer);
        }
        let (above, states) = (slots * plan.widest(), shape.rows * self.spec.units);
        Ok(PlainWorkspace {
            h,
            recurrences,
            d_above: [arenas.backward(above)?, arenas.backward(above)?],
            d_h: arenas.backward(states)?,
            d_c: arenas.backward(states)?,
        })
    }

    fn place_persistent(&self, arenas: &mut Arenas) -> Result<PersistentWorkspace> {
        let Recurrence { plan, shape, .. } = self;
        let (slots, padded_rows) = (shape.step_rows(), (shape.steps + 2) * shape.rows);
        let (all, directions) = (Padded::layers(plan), plan.layers[0].len());
        let (mut gates, mut c, mut h) = (0, 0, 0);
        let mut layers = Vec::new();
        for p in &all {
            let w_ih = arenas.scratch(directions * 4 * p.n * p.inputs)?;
            layers.push(LayerWorkspace { padded: *p, gates, c, h, w_ih });
            gates += directions * slots * 4 * p.n;
            c += directions * padded_rows * p.n;
            h += padded_rows * p.width;
        }
        let tilings = &self.tilings;
        let sum = |of: &dyn Fn(&Tiling) -> usize| -> usize {
            tilings.iter().map(|(_, tiling)| of(tiling)).sum()
        };
        let max = |of: &dyn Fn(&Tiling) -> usize| -> usize {
            tilings.iter().map(|(_, tiling)| of(tiling)).max().unwrap_or(0)
        };
        let groups = |tiling: &Tiling| tiling.all_groups(shape.rows);
        let widest = all.iter().map(|p| p.width).max().unwrap_or(0);
        let matrix = |p: &Padded| 4 * p.n * p.n.max(p.inputs);
        let exchange = sum(&|tiling| tiling.exchange_len(shape.steps + 1, groups(tiling)));
        let exchange: Buffer<u16> = arenas.forward(exchange)?;
        let again = Buffer::borrowed(&self.device, exchange.at(0), exchange.len())?;
        let packed = |pass: usize| sum(&|tiling| 8 * tiling.lanes * tiling.packed()[pass]);
        let above = slots * widest;
        let step_values = |each: usize| {
            max(&|tiling| match tiling.kind {
                Kind::StepByStep => each * shape.rows * tiling.padded,
                Kind::Exchange | Kind::SingleBlock => 0,
            })
        };
        Ok(PersistentWorkspace {
            layers,
            gates: arenas.saved(gates)?,
            c: arenas.saved(c)?,
            h: arenas.saved(h)?,
            x: arenas.saved(slots * all[0].inputs)?,
            table: arenas.scratch(0)?,
            packed: [arenas.forward(packed(0))?, arenas.backward(packed(1))?],
            bias: arenas.forward(sum(&|tiling| 4 * tiling.lanes * tiling.padded))?,
            w_out: arenas.scratch(0)?,
            outputs: arenas.scratch(0)?,
            d_outputs: arenas.scratch(0)?,
            d_above: [arenas.backward(above)?, arenas.backward(above)?],
            d_x: arenas.backward(slots * all[0].inputs)?,
            table_partials: arenas.scratch(0)?,
            h_exchange: [exchange, again],
            exchange_parity: arenas.forward(1)?,
            dh_partials: arenas.backward(max(&Tiling::partials_len))?,
            read_counts: arenas.backward(max(&Tiling::read_counts_len))?,
            sums: arenas.scratch(step_values(4))?,
            state: arenas.scratch(step_values(1))?,
            d_bias: arenas.backward(max(&|tiling| {
                tiling.lanes * tiling.bias_groups(shape.rows) * 4 * tiling.padded
            }))?,
            d_w: arenas.backward(all.iter().map(matrix).max().unwrap_or(0))?,
        })
    }
}
