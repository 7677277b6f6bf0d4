//! How a large recurrence is divided among multiprocessors: nothing of the GPU, only counting.
//!
//! ```text
//! blocks of a group = N / 32         N: units, padded to a multiple of 32
//! groups            = B / rows       rows of the batch that a block has: 16, 24, 32, 48 or 64
//! blocks in all     = directions groups blocks <= multiprocessors       or the batch goes in several waves
//! ```

use crate::compile::Source;

/// The most units whose weights 32 multiprocessors hold.
const MOST_UNITS: usize = 1024;
/// Units of h that are waited for at once.
const CHUNK: usize = 128;

/// What the card has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Card {
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared: usize,
}

/// One layer's recurrences, both directions side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tiling {
    /// Units, padded: N.
    pub padded: usize,
    /// Rows of the batch in a block.
    pub rows: usize,
    /// Groups that run at once in each direction.
    pub groups: usize,
    pub directions: usize,
}

impl Tiling {
    /// The division that takes the fewest waves, then the one with the fewest rows in a block. None where nothing fits.
    pub fn of(units: usize, directions: usize, batch: usize, card: Card) -> Option<Tiling> {
        let padded = units.next_multiple_of(32);
        if units == 0 || padded > MOST_UNITS || batch == 0 {
            return None;
        }
        let at_once = card.multiprocessors / (padded / 32 * directions);
        let fits = |rows: &usize| {
            let tiling = Tiling { padded, rows: *rows, groups: 1, directions };
            tiling.forward().shared.max(tiling.backward().shared) <= card.shared && at_once > 0
        };
        let waves = |rows: &usize| batch.div_ceil(rows * at_once);
        let rows = [16, 24, 32, 48, 64].into_iter().filter(fits).min_by_key(|r| (waves(r), *r))?;
        let groups = at_once.min(batch.div_ceil(rows));
        Some(Tiling { padded, rows, groups, directions })
    }

    /// Blocks of a group.
    pub fn blocks(&self) -> usize {
        self.padded / 32
    }

    /// First row, and groups, of each launch that a batch takes.
    pub fn waves(&self, batch: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Tiling { rows, groups, .. } = *self;
        let first = (0..batch).step_by(rows * groups);
        first.map(move |first| (first, groups.min((batch - first).div_ceil(rows))))
    }

    /// Groups of a whole batch.
    pub fn all_groups(&self, batch: usize) -> usize {
        batch.div_ceil(self.rows)
    }

    /// f16 of what blocks tell each other in `steps` steps on the way forward.
    pub fn told(&self, steps: usize) -> usize {
        steps * self.directions * self.groups * self.rows * self.padded
    }

    /// f16 of what blocks send each other on the way back.
    pub fn parts(&self) -> usize {
        2 * self.directions * self.groups * self.blocks() * self.blocks() * 32 * self.rows
    }

    /// The kernel for the way forward.
    pub fn forward(&self) -> Kind {
        let Tiling { padded, rows, .. } = *self;
        // Much of h is better copied in bulk than by threads; those then need fewer registers.
        let bulk = padded * rows > 20_000;
        // Products whose weights stay in registers: 4 each, and half a row for the sums.
        let registers = match (rows, bulk) {
            (..=32, true) => 44,
            (..=32, false) => 36,
            (48, true) => 36,
            (48, false) => 32,
            (_, true) => 32,
            (_, false) => 28,
        };
        let round = if rows > 32 { 1 } else { 2 };
        let depth = padded / 16;
        let in_shared = depth - depth.min(registers);
        let chunks = padded.div_ceil(CHUNK);
        let words = 2 * (in_shared + 1) * 1024 + padded * rows + 8 * 2 * rows * 4;
        let shared = 2 * words + 8 * (2 * chunks + 1);
        let bulk = u8::from(bulk);
        let defines =
            [format!("REGISTERS={registers}"), format!("ROUND={round}"), format!("BULK={bulk}")];
        let text = include_str!("../kernels/persistent_forward.cu");
        self.kind("persistent_forward", text, shared, &defines)
    }

    /// The kernel for the way back.
    pub fn backward(&self) -> Kind {
        let Tiling { padded, rows, .. } = *self;
        // Tiles whose weights stay in registers, and words that a thread waits for at once.
        let (tiles, batch) = if rows <= 32 { (3, self.blocks().min(32)) } else { (2, 8) };
        let own_tiles = padded.div_ceil(64).div_ceil(2);
        let in_shared = own_tiles - own_tiles.min(tiles);
        let words = 2 * (in_shared + 1) * 64 * 128 + 2 * 128 * rows;
        let defines = [format!("REGISTER_TILES={tiles}"), format!("BATCH={batch}")];
        let text = include_str!("../kernels/persistent_backward.cu");
        self.kind("persistent_backward", text, 2 * words, &defines)
    }

    fn kind(
        &self,
        name: &'static str,
        text: &'static str,
        shared: usize,
        defines: &[String],
    ) -> Kind {
        let own =
            [format!("N={}", self.padded), format!("NB={}", self.rows), format!("SHARED={shared}")];
        let defines = own.iter().chain(defines).cloned().collect();
        let parts = vec![
            include_str!("../kernels/common.cuh"),
            include_str!("../kernels/hopper.cuh"),
            text,
        ];
        Kind { shared, source: Source { name, parts, defines } }
    }
}

/// A kernel before it is compiled.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    /// Bytes of shared memory.
    pub shared: usize,
    pub source: Source,
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Card = Card { multiprocessors: 132, shared: 227 << 10 };

    fn shape(units: usize, directions: usize, batch: usize) -> (usize, usize, usize) {
        let tiling = Tiling::of(units, directions, batch, H200).unwrap();
        (tiling.padded, tiling.rows, tiling.groups)
    }

    #[test]
    fn the_papers_networks_run_in_one_wave_on_an_h200() {
        assert_eq!(shape(1024, 1, 128), (1024, 32, 4));
        assert_eq!(shape(512, 1, 128), (512, 16, 8));
        assert_eq!(shape(594, 1, 128), (608, 24, 6));
        assert_eq!(shape(343, 1, 128), (352, 16, 8));
        assert_eq!(shape(722, 2, 128), (736, 64, 2));
        assert_eq!(shape(363, 2, 128), (384, 32, 4));
        assert_eq!(shape(202, 2, 128), (224, 16, 8));
    }

    #[test]
    fn large_batches_go_in_waves_and_small_cards_refuse() {
        let tiling = Tiling::of(1024, 1, 300, H200).unwrap();
        let waves: Vec<_> = tiling.waves(300).collect();
        assert_eq!((tiling.rows, waves), (32, vec![(0, 4), (128, 4), (256, 2)]));
        assert_eq!(tiling.all_groups(300), 10);
        assert!(Tiling::of(1025, 1, 8, H200).is_none());
        let small = Card { multiprocessors: 20, ..H200 };
        assert!(Tiling::of(1024, 1, 8, small).is_none());
        assert!(Tiling::of(512, 2, 8, small).is_none());
        let old = Card { shared: 99 << 10, ..H200 };
        assert!(Tiling::of(1024, 1, 128, old).is_none());
    }

    #[test]
    fn never_more_blocks_than_multiprocessors_and_every_row_once() {
        for units in [1, 33, 200, 343, 512, 700, 1000] {
            for directions in [1, 2] {
                for batch in [1, 7, 32, 100, 128, 129, 1000] {
                    let t = Tiling::of(units, directions, batch, H200).unwrap();
                    assert!(t.directions * t.groups * t.blocks() <= 132, "{t:?}");
                    let rows: usize = t.waves(batch).map(|(_, groups)| groups * t.rows).sum();
                    assert!(rows >= batch && rows < batch + t.rows, "{t:?} {batch}");
                }
            }
        }
    }
}
