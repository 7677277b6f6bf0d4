//! Recurrences of up to 128 units, whose weights fit the registers of one block: a block takes its
//! rows of the batch through all steps, and nothing is exchanged.
//!
//! ```text
//! registers of a thread = N for weights, of 2 N threads      N = 128: half of a multiprocessor's
//! blocks                = lanes * B / rows                   more than multiprocessors: they queue
//! ```

use super::spec::{KernelSpec, table_symbols};
use super::tiling::{DeviceLimits, Tiling};
use crate::kernels::sources;

/// The largest N.
pub(super) const MAX_PADDED: usize = 128;
/// Rows of the batch per block: the columns of a product, or half of them.
pub(super) const BLOCK_ROWS: [usize; 2] = [8, 4];
/// Columns of a product.
const COLUMNS: usize = 8;
/// Buffers of what a step reads from device memory, which is copied all but one of them ahead.
const STAGES: [usize; 2] = [8, 6];

impl Tiling {
    /// Threads of a block: a warp for each 16 units.
    fn single_block_threads(&self) -> usize {
        2 * self.padded
    }

    /// Bytes for one value of `bytes` in all buffers of all threads: `ahead` of the kernels.
    fn single_block_ahead(&self, stages: usize, bytes: usize) -> usize {
        stages * self.rows / 4 * self.single_block_threads() * bytes
    }

    /// The forward kernel of a block that has all units, with or without a table in shared memory.
    /// `None` if it does not fit.
    pub(super) fn single_block_forward(
        &self,
        table: bool,
        limits: DeviceLimits,
    ) -> Option<KernelSpec> {
        let ([stages, _], symbols) = (STAGES, table_symbols(table));
        let read = if table { size_of::<u32>() } else { size_of::<[u32; 4]>() };
        // `struct Shared` in `persistent/single_block_forward.cu`.
        let halves = 2 * COLUMNS * (self.padded + 8) + 4 * symbols * self.padded;
        let shared = 2 * halves + self.single_block_ahead(stages, read);
        let own = vec![format!("TABLE={symbols}"), "BELOW=0".into(), format!("STAGES={stages}")];
        let source = sources::single_block_forward(self.defines(shared, own));
        let threads = self.single_block_threads();
        let spec = KernelSpec { threads, shared, in_registers: 0, cooperative: false, source };
        (shared <= limits.shared).then_some(spec)
    }

    /// Its backward kernel.
    pub(super) fn single_block_backward(&self) -> KernelSpec {
        let [_, stages] = STAGES;
        // `struct Shared` in `persistent/single_block_backward.cu`.
        let halves = 2 * COLUMNS * (4 * self.padded + 8);
        let shared = 2 * halves + self.single_block_ahead(stages, 6 * size_of::<u32>());
        let source =
            sources::single_block_backward(self.defines(shared, vec![format!("STAGES={stages}")]));
        let threads = self.single_block_threads();
        KernelSpec { threads, shared, in_registers: 0, cooperative: false, source }
    }
}
