//! Which gate columns of a layer are fed from where, and where their gradients go.
//!
//! A cell's gate columns come in groups that are fed alike:
//!
//! ```text
//! RNN    a        <- x, h
//! LSTM   i f g o  <- x, h
//! GRU    r z      <- x, h
//!        n        <- x          the reset gate multiplies the recurrent half of the candidate
//!        h_n      <- h          alone, so the two halves are columns of their own
//! GRU, reset before the product
//!        r z      <- x, h
//!        n        <- x, r h     r h is a column of its own, made once r is known, and its product is
//!                               added to what x made of n
//! ```
//!
//! Forward, a group is `bias + x W_ih^T + h W_hh^T`; backward, its gradient goes the same ways home.
//! Where units come in [`Blocks`], a group is one gate of one block and reads only the blocks it may;
//! and a GRU's n also reads h, through `weight_hu`: past the reset gate, as a layer reads the one below.

use crate::prelude::*;
use crate::spec::blocks::{Blocks, Connections, Role};
use crate::spec::{Cell, NetSpec};
use core::ops::Range;

/// A recurrent matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matrix {
    /// `weight_hh`
    Hh,
    /// `weight_hu`, of a GRU in blocks
    Hu,
}

/// One gate, in units of n.
struct Gate {
    column: usize,
    /// First row in `weight_ih` and `bias_ih`.
    ih: Option<usize>,
    /// First row in `bias_hh`.
    hh: Option<usize>,
    /// The recurrent matrix that feeds it, its first row there, and what those rows are.
    h: Option<(Matrix, usize, Role)>,
}

/// Some columns, and the rows of a matrix that feed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub matrix: Matrix,
    pub rows: Range<usize>,
    /// The units of h that they multiply.
    pub units: Range<usize>,
    /// Its number among the packed matrices.
    pub at: usize,
}

/// Gate columns that are fed alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub columns: Range<usize>,
    /// Rows of `bias_ih`, and of `weight_ih` if x feeds it.
    pub ih: Option<Range<usize>>,
    /// Rows of `bias_hh`.
    pub hh: Option<Range<usize>>,
    /// Number of its matrix among the packed ones of x, if x feeds it.
    pub x: Option<usize>,
    pub h: Option<Rows>,
}

/// The backward pass to some units of h: the gate columns that they feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackwardGroup {
    pub units: Range<usize>,
    pub from: Vec<(Range<usize>, Rows)>,
}

/// The backward pass to x: gate columns, and the rows of `weight_ih` that feed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputBackwardGroup {
    pub columns: Range<usize>,
    pub rows: Range<usize>,
}

/// Columns of a GRU's candidate that read r h, the last gate of columns, instead of h: their product is
/// added once r is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub columns: Range<usize>,
    pub h: Rows,
}

/// All of one layer; both directions have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wiring {
    pub groups: Vec<Group>,
    /// Of a GRU whose reset gate stands before the product; none otherwise.
    pub candidates: Vec<Candidate>,
    pub backward_groups: Vec<BackwardGroup>,
    /// The backward pass of `candidates` to units of r h.
    pub candidate_backward_groups: Vec<BackwardGroup>,
    pub input_backward_groups: Vec<InputBackwardGroup>,
}

/// Gate columns of a cell with n units.
pub(crate) fn columns(cell: Cell, n: usize) -> usize {
    n * match cell {
        Cell::RnnTanh | Cell::RnnRelu => 1,
        Cell::Lstm | Cell::Gru | Cell::GruResetBefore => 4,
    }
}

fn gates(cell: Cell, in_blocks: bool) -> Vec<Gate> {
    let gate =
        |g| Gate { column: g, ih: Some(g), hh: Some(g), h: Some((Matrix::Hh, g, Role::Gate)) };
    match cell {
        Cell::RnnTanh | Cell::RnnRelu => vec![gate(0)],
        Cell::Lstm => (0..4).map(gate).collect(),
        Cell::Gru => {
            let ungated = in_blocks.then_some((Matrix::Hu, 0, Role::Ungated));
            let gated = Some((Matrix::Hh, 2, Role::Gated));
            let n = Gate { column: 2, ih: Some(2), hh: None, h: ungated };
            let h_n = Gate { column: 3, ih: None, hh: Some(2), h: gated };
            vec![gate(0), gate(1), n, h_n]
        }
        Cell::GruResetBefore => {
            let ungated = in_blocks.then_some((Matrix::Hu, 0, Role::Ungated));
            vec![gate(0), gate(1), Gate { column: 2, ih: Some(2), hh: Some(2), h: ungated }]
        }
    }
}

/// The gate that reads r h, if there is one.
fn candidate_gate(cell: Cell) -> Option<Gate> {
    let h = Some((Matrix::Hh, 2, Role::Gated));
    (cell == Cell::GruResetBefore).then_some(Gate { column: 2, ih: None, hh: None, h })
}

impl Wiring {
    pub fn new(spec: &NetSpec, layer: usize) -> Wiring {
        let n = spec.units()[layer];
        let blocks = spec.blocks().cloned().unwrap_or_else(|| {
            Blocks::new([n]).connections(Connections::All) // no blocks: all in one
        });
        let gates = gates(spec.cell(), spec.blocks().is_some());
        let candidate: Vec<Gate> = candidate_gate(spec.cell()).into_iter().collect();
        // Where every gate reads all there is, neighbours that are fed alike become one group.
        let whole = Blocks::new([n]).connections(Connections::All);
        let parted = if *blocks.connected() == Connections::All { &whole } else { &blocks };
        let mut groups = groups(&gates, n, parted);
        let mut input_backward_groups = Vec::new();
        for group in groups.iter().filter(|group| group.x.is_some()) {
            let (columns, rows) = (group.columns.clone(), group.ih.clone().unwrap_or_default());
            input_backward_groups.push(InputBackwardGroup { columns, rows });
        }
        input_backward_groups
            .sort_by_key(|backward_group: &InputBackwardGroup| backward_group.columns.start);
        input_backward_groups.dedup_by(|next, backward_group| {
            let follows = backward_group.columns.end == next.columns.start
                && backward_group.rows.end == next.rows.start;
            if follows {
                (backward_group.columns.end, backward_group.rows.end) =
                    (next.columns.end, next.rows.end);
            }
            follows
        });
        groups.dedup_by(|next, group| group.absorb(next));
        let candidates = self::groups(&candidate, n, parted).into_iter().filter_map(|group| {
            let Group { columns, h, .. } = group;
            h.map(|h| Candidate { columns, h })
        });
        let backward = |gates: &[Gate]| {
            (0..blocks.count()).map(|j| backward_group(gates, n, &blocks, j)).collect()
        };
        let mut wiring = Wiring {
            groups,
            candidates: candidates.collect(),
            backward_groups: backward(&gates),
            candidate_backward_groups: match candidate.as_slice() {
                [] => Vec::new(),
                gate => backward(gate),
            },
            input_backward_groups,
        };
        if spec.projection().is_some() {
            wiring.read_units(0..spec.hidden(layer));
        }
        wiring.numbered()
    }

    /// Where h is projected, and there are no blocks: all read all of these units of it.
    fn read_units(&mut self, units: Range<usize>) {
        for rows in self.groups.iter_mut().filter_map(|group| group.h.as_mut()) {
            rows.units = units.clone();
        }
        for group in &mut self.backward_groups {
            group.units = units.clone();
            group.from.iter_mut().for_each(|(_, rows)| rows.units = units.clone());
        }
    }

    /// Gives the packed matrices their numbers.
    fn numbered(mut self) -> Wiring {
        let (mut x, mut h) = (0, 0);
        let next = |count: &mut usize| {
            *count += 1;
            *count - 1
        };
        for group in &mut self.groups {
            group.x = group.x.map(|_| next(&mut x));
            if let Some(rows) = &mut group.h {
                rows.at = next(&mut h);
            }
        }
        for candidate in &mut self.candidates {
            candidate.h.at = next(&mut h);
        }
        let groups = self.backward_groups.iter_mut().chain(&mut self.candidate_backward_groups);
        let backward_groups = groups.flat_map(|backward_group| &mut backward_group.from);
        backward_groups.enumerate().for_each(|(at, (_, rows))| rows.at = at);
        self
    }

    /// The recurrent matrices of the forward pass, in the order of their numbers.
    pub fn recurrent(&self) -> impl Iterator<Item = &Rows> {
        let groups = self.groups.iter().filter_map(|group| group.h.as_ref());
        groups.chain(self.candidates.iter().map(|candidate| &candidate.h))
    }

    /// Those of the backward pass, in the order of theirs.
    pub fn recurrent_backward(&self) -> impl Iterator<Item = &Rows> {
        let groups = self.backward_groups.iter().chain(&self.candidate_backward_groups);
        groups.flat_map(|group| &group.from).map(|(_, rows)| rows)
    }
}

/// `units` as columns or rows of gate number `gate`.
pub(crate) fn shift(gate: usize, n: usize, units: &Range<usize>) -> Range<usize> {
    gate * n + units.start..gate * n + units.end
}

/// One group per gate and block.
fn groups(gates: &[Gate], n: usize, blocks: &Blocks) -> Vec<Group> {
    let mut groups = Vec::new();
    for i in 0..blocks.count() {
        let own = blocks.units(i);
        for gate in gates {
            let ih = gate.ih.map(|g| shift(g, n, &own));
            let x = ih.as_ref().filter(|_| blocks.reads_input(i)).map(|_| 0);
            let h = gate.h.and_then(|(matrix, row, role)| {
                let (rows, units) = (shift(row, n, &own), blocks.reads(role, i)?);
                Some(Rows { matrix, rows, units, at: 0 })
            });
            let hh = gate.hh.map(|g| shift(g, n, &own));
            groups.push(Group { columns: shift(gate.column, n, &own), ih, hh, x, h });
        }
    }
    groups
}

/// The backward pass to block j.
fn backward_group(gates: &[Gate], n: usize, blocks: &Blocks, j: usize) -> BackwardGroup {
    let units = blocks.units(j);
    let mut from: Vec<(Range<usize>, Rows)> = Vec::new();
    for gate in gates {
        let Some((matrix, row, role)) = gate.h else { continue };
        let Some(readers) = blocks.read_by(role, j) else { continue };
        let (columns, rows) = (shift(gate.column, n, &readers), shift(row, n, &readers));
        from.push((columns, Rows { matrix, rows, units: units.clone(), at: 0 }));
    }
    from.dedup_by(|(columns, rows), (first, first_rows)| {
        let follows = first_rows.matrix == rows.matrix
            && first.end == columns.start
            && first_rows.rows.end == rows.rows.start;
        if follows {
            (first.end, first_rows.rows.end) = (columns.end, rows.rows.end);
        }
        follows
    });
    BackwardGroup { units, from }
}

impl Group {
    /// Takes in a neighbour that is fed alike; says whether it could.
    fn absorb(&mut self, next: &Group) -> bool {
        let follows = |a: &Option<Range<usize>>, b: &Option<Range<usize>>| match (a, b) {
            (Some(a), Some(b)) => a.end == b.start,
            (None, None) => true,
            _ => false,
        };
        let h_follows = match (&self.h, &next.h) {
            (Some(a), Some(b)) => {
                a.matrix == b.matrix && a.rows.end == b.rows.start && a.units == b.units
            }
            (None, None) => true,
            _ => false,
        };
        let alike = self.columns.end == next.columns.start
            && self.x.is_some() == next.x.is_some()
            && follows(&self.ih, &next.ih)
            && follows(&self.hh, &next.hh)
            && h_follows;
        if alike {
            self.columns.end = next.columns.end;
            for (a, b) in [(&mut self.ih, &next.ih), (&mut self.hh, &next.hh)] {
                if let (Some(a), Some(b)) = (a, b) {
                    a.end = b.end;
                }
            }
            if let (Some(a), Some(b)) = (&mut self.h, &next.h) {
                a.rows.end = b.rows.end;
            }
        }
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wiring(cell: Cell, blocks: Option<Blocks>) -> Wiring {
        let builder = NetSpec::builder(cell).dense(2);
        let spec = match blocks {
            Some(blocks) => builder.blocks(blocks).delay(2, crate::Padding::Null),
            None => builder.units([5]),
        };
        Wiring::new(&spec.build().unwrap(), 0)
    }

    #[test]
    fn whole_layers_are_few_groups() {
        let lstm = wiring(Cell::Lstm, None);
        assert_eq!(lstm.groups.len(), 1);
        assert_eq!(lstm.groups[0].columns, 0..20);
        assert_eq!(lstm.backward_groups[0].from.len(), 1);
        let gru = wiring(Cell::Gru, None);
        let columns: Vec<_> = gru.groups.iter().map(|g| g.columns.clone()).collect();
        assert_eq!(columns, [0..10, 10..15, 15..20]);
        assert_eq!(gru.input_backward_groups, [InputBackwardGroup { columns: 0..15, rows: 0..15 }]);
        let from: Vec<_> =
            gru.backward_groups[0].from.iter().map(|(c, r)| (c.clone(), r.rows.clone())).collect();
        assert_eq!(from, [(0..10, 0..10), (15..20, 10..15)]);
        let gru = wiring(Cell::GruResetBefore, None);
        let columns: Vec<_> = gru.groups.iter().map(|g| g.columns.clone()).collect();
        assert_eq!(columns, [0..10, 10..15]);
        let [candidate] = gru.candidates.as_slice() else { panic!("{:?}", gru.candidates) };
        assert_eq!((&candidate.columns, &candidate.h.rows), (&(10..15), &(10..15)));
        assert_eq!((candidate.h.at, gru.recurrent().count()), (1, 2));
        assert_eq!(gru.backward_groups[0].from[0].0, 0..10);
        assert_eq!(gru.candidate_backward_groups[0].from[0].0, 10..15);
    }

    #[test]
    fn stacked_blocks_read_themselves_and_the_block_below() {
        let rnn = wiring(Cell::RnnTanh, Some(Blocks::new([2, 1, 3])));
        let reads: Vec<_> =
            rnn.groups.iter().map(|g| g.h.as_ref().unwrap().units.clone()).collect();
        assert_eq!(reads, [0..2, 0..3, 2..6]);
        assert_eq!(rnn.input_backward_groups, [InputBackwardGroup { columns: 0..2, rows: 0..2 }]);
        let from: Vec<_> = rnn.backward_groups.iter().map(|h| h.from[0].0.clone()).collect();
        assert_eq!(from, [0..3, 2..6, 3..6]);

        // A GRU's candidate: past the gate from below, gated from itself.
        let gru = wiring(Cell::Gru, Some(Blocks::new([2, 3])));
        let of = |group: usize| gru.groups[group].h.as_ref().map(|h| (h.matrix, h.units.clone()));
        assert_eq!((of(2), of(3)), (None, Some((Matrix::Hh, 0..2))));
        assert_eq!((of(6), of(7)), (Some((Matrix::Hu, 0..2)), Some((Matrix::Hh, 2..5))));

        // The same where r h is read: each block its own.
        let gru = wiring(Cell::GruResetBefore, Some(Blocks::new([2, 3])));
        let reads: Vec<_> =
            gru.candidates.iter().map(|c| (c.columns.clone(), &c.h.units)).collect();
        assert_eq!(reads, [(10..12, &(0..2)), (12..15, &(2..5))]);
    }
}
