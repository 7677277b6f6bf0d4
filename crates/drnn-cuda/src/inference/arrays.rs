//! The arrays of a part in device memory, all in one allocation.

use super::part::Part;
use crate::error::Result;
use crate::recurrence::Recurrence;
use crate::runtime::arena::{ALIGNMENT, Arena};
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::step::plan::Plan;
use drnn::InputSpec;

/// Views of the allocation.
#[derive(Debug)]
pub(super) struct Arrays {
    /// Steps of each row, (B).
    pub run: Buffer<u32>,
    /// (S, B), of networks that read tokens.
    pub tokens: Buffer<u32>,
    /// (S, B, q).
    pub x: Buffer<f32>,
    /// States of the layers that ran last and before, (S, B, width).
    pub y: [Buffer<f32>; 2],
    /// h and c before the first step, and after each row's last one: (layers directions, B, n).
    pub first: [Buffer<f32>; 2],
    pub last: [Buffer<f32>; 2],
    /// Selected outputs: rows of y that they are computed from, those states, and ones.
    pub places: Buffer<u32>,
    pub chosen: Buffer<f32>,
    pub exist: Buffer<u32>,
    /// (outputs, m).
    pub outputs: Buffer<f32>,
    /// Scratch memory of the recurrences.
    pub workspace: Buffer<u8>,
}

impl Arrays {
    /// Places the arrays from the address `base` on, or measures them: their bytes, and the arrays.
    pub fn place(
        device: &Device,
        plan: &Plan,
        part: &Part,
        planned: &[Recurrence],
        base: Option<u64>,
    ) -> Result<(usize, Arrays)> {
        let (spec, slots, rows) = (&plan.spec, part.shape.step_rows(), part.shape.rows);
        let width = plan.layers.iter().map(|layer| layer[0].width).max().unwrap_or(0);
        let [h, c] = part.state_lengths(plan);
        let [h0, c0] = if part.has_start { [h, c] } else { [0; 2] };
        let tokens = match spec.input() {
            InputSpec::Tokens { .. } => slots,
            InputSpec::Dense(_) => 0,
        };
        let selected = part.selected.as_ref().map_or(0, Vec::len);
        let workspace = planned.iter().map(Recurrence::workspace_bytes).max().unwrap_or(0);
        let second = if planned.len() > 1 { slots * width } else { 0 };
        let mut arena = Arena::new(base);
        let arrays = Arrays {
            run: arena.take(device, rows)?,
            tokens: arena.take(device, tokens)?,
            x: arena.take(device, slots * spec.input().width())?,
            y: [arena.take(device, slots * width)?, arena.take(device, second)?],
            first: [arena.take(device, h0)?, arena.take(device, c0)?],
            last: [arena.take(device, h)?, arena.take(device, c)?],
            places: arena.take(device, selected)?,
            chosen: arena.take(device, selected * spec.hidden_width())?,
            exist: arena.take(device, selected)?,
            outputs: arena.take(device, part.outputs() * spec.output_width())?,
            workspace: arena.take(device, workspace)?,
        };
        Ok((arena.used().next_multiple_of(ALIGNMENT), arrays))
    }
}
