//! What [`Blocks`] keep at zero: parts of `weight_hh`, and for a stack of `weight_ih` and
//! `output.weight` too.

use crate::error::{Error, Result};
use crate::exec::params::Params;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::blocks::{Blocks, Role};
use crate::spec::params::Layout;
use crate::spec::wiring::shift;
use core::ops::Range;

/// A place that must be zero: in which tensor, and what it would connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// Block (i, j) of `weight_hh` or `weight_hu`.
    Block(&'static str, usize, usize),
    /// What block i would read from x.
    Input(usize),
    /// What the output layer would read from block i.
    Output(usize),
}

impl Outside {
    fn tensor(self) -> &'static str {
        match self {
            Outside::Block(tensor, ..) => tensor,
            Outside::Input(_) => "weight_ih_l0",
            Outside::Output(_) => "output.weight",
        }
    }
}

/// Visits every stretch that must be zero: (what it is, rows, columns).
pub(crate) fn each_outside(
    spec: &NetSpec,
    blocks: &Blocks,
    visit: &mut dyn FnMut(Outside, Range<usize>, Range<usize>),
) {
    let (n, gates) = (spec.units()[0], spec.cell().gates());
    for (i, own) in ranges(blocks).enumerate() {
        let rows = |gate: usize| shift(gate, n, &own);
        let mut recurrent = |tensor: &'static str, role: Role, gate: usize| {
            for (j, columns) in ranges(blocks).enumerate() {
                if !blocks.allows_role(role, i, j) {
                    visit(Outside::Block(tensor, i, j), rows(gate), columns);
                }
            }
        };
        for gate in 0..gates {
            let candidate = spec.cell().is_gru() && gate == 2;
            recurrent("weight_hh_l0", if candidate { Role::Gated } else { Role::Gate }, gate);
        }
        if spec.has_ungated() {
            recurrent("weight_hu_l0", Role::Ungated, 0);
        }
        if !blocks.reads_input(i) {
            for gate in 0..gates {
                visit(Outside::Input(i), rows(gate), 0..spec.input().width());
            }
        }
        if !blocks.feeds_output(i) {
            visit(Outside::Output(i), 0..spec.outputs().unwrap_or(0), own);
        }
    }
}

/// The units of every block, one after another.
fn ranges(blocks: &Blocks) -> impl Iterator<Item = Range<usize>> {
    blocks.widths().iter().scan(0, |unit, &n| {
        *unit += n;
        Some(*unit - n..*unit)
    })
}

/// The same as ranges of the flat vector, row by row.
fn each_range(spec: &NetSpec, layout: &Layout, visit: &mut dyn FnMut(Outside, Range<usize>)) {
    let Some(blocks) = spec.blocks() else { return };
    each_outside(spec, blocks, &mut |outside, rows, columns| {
        let Some(tensor) = layout.find(outside.tensor()) else { return };
        for row in rows {
            let start = tensor.range.start + row * tensor.dims[1];
            visit(outside, start + columns.start..start + columns.end);
        }
    });
}

impl NetSpec {
    /// Which values of the flat vector training may change: false where [`Blocks`] keep zeros.
    ///
    /// ```
    /// use drnn::{Blocks, Cell, NetSpec, Padding};
    ///
    /// let spec = NetSpec::builder(Cell::Lstm).dense(2).blocks(Blocks::new([3, 3]));
    /// let spec = spec.delay(1, Padding::Null).build()?;
    /// let free = spec.free_mask();
    /// assert_eq!(free.len(), spec.parameters());
    /// assert_eq!(free.iter().filter(|free| **free).count(), spec.free_parameters());
    /// # Ok::<(), drnn::Error>(())
    /// ```
    pub fn free_mask(&self) -> Vec<bool> {
        let mut free = vec![true; self.parameters()];
        each_range(self, &Layout::new(self), &mut |_, range| free[range].fill(false));
        free
    }
}

/// Sets all of it to zero.
pub(crate) fn clear_outside(spec: &NetSpec, layout: &Layout, params: &mut [f32]) {
    each_range(spec, layout, &mut |_, range| params[range].fill(0.0));
}

/// Refuses parameters that are not zero there, and says where the largest lies.
pub(crate) fn check_outside(spec: &NetSpec, layout: &Layout, params: Params) -> Result<()> {
    let mut worst = (None, 0.0f32);
    each_range(spec, layout, &mut |outside, range| {
        for x in params.get(range) {
            if x.abs() > worst.1 {
                worst = (Some(outside), x.abs());
            }
        }
    });
    let (Some(outside), size) = worst else { return Ok(()) };
    let name = spec.blocks().map_or("", |b| b.connected().name());
    let place = match outside {
        Outside::Block(_, i, j) => format!("block ({i}, {j}), from block {j} to block {i},"),
        Outside::Input(i) => format!("what block {i} reads from the input"),
        Outside::Output(i) => format!("what the output layer reads from block {i}"),
    };
    Err(Error::Outside { tensor: outside.tensor(), place, size, name })
}
