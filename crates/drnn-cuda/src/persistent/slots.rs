//! The four rows of weights that every unit has in the kernels, its slots, by cell.
//!
//! ```text
//!        of W_ih, b_ih    of W_hh, b_hh
//! lstm   i  f  g  o       i  f  g  o
//! gru    r  z  -  n       r  z  n  -       the reset gate multiplies W_hn h + b_hn: its own slot
//! rnn    h  -  -  -       h  -  -  -
//! ```

use drnn::Cell;

/// The gate of each slot, a byte each, 0xff for none, as kernels read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots(u32);

const NONE: u8 = 0xff;

impl Slots {
    pub fn of_w_ih(cell: Cell) -> Slots {
        Slots::of(match cell {
            Cell::Lstm => [0, 1, 2, 3],
            Cell::Gru => [0, 1, NONE, 2],
            Cell::RnnTanh | Cell::RnnRelu => [0, NONE, NONE, NONE],
            Cell::GruResetBefore => unreachable!("refused by `Plan::new`"),
        })
    }

    pub fn of_w_hh(cell: Cell) -> Slots {
        Slots::of(match cell {
            Cell::Lstm => [0, 1, 2, 3],
            Cell::Gru => [0, 1, 2, NONE],
            Cell::RnnTanh | Cell::RnnRelu => [0, NONE, NONE, NONE],
            Cell::GruResetBefore => unreachable!("refused by `Plan::new`"),
        })
    }

    /// For a matrix without gates.
    pub fn plain() -> Slots {
        Slots::of([0, NONE, NONE, NONE])
    }

    fn of(gates: [u8; 4]) -> Slots {
        Slots(u32::from_le_bytes(gates))
    }

    pub fn word(self) -> u32 {
        self.0
    }

    /// The inverse: the slot of each gate.
    pub fn by_gate(self) -> u32 {
        let gates = self.0.to_le_bytes();
        let slot = |gate: u8| gates.iter().position(|g| *g == gate).map_or(NONE, |s| s as u8);
        u32::from_le_bytes([0, 1, 2, 3].map(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_has_one_slot() {
        for cell in crate::step::plan::CELLS {
            for slots in [Slots::of_w_ih(cell), Slots::of_w_hh(cell)] {
                let by_gate = slots.by_gate().to_le_bytes();
                for (gate, slot) in by_gate.iter().enumerate() {
                    assert_eq!(gate < cell.gates(), *slot != NONE, "{cell:?} {gate}");
                    if *slot != NONE {
                        assert_eq!(slots.word().to_le_bytes()[usize::from(*slot)], gate as u8);
                    }
                }
            }
        }
        assert_eq!(Slots::of_w_ih(Cell::Gru).word(), 0x02ff_0100);
        assert_eq!(Slots::of_w_ih(Cell::Gru).by_gate(), 0xff03_0100);
    }
}
