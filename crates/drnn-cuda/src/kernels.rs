//! The kernels, compiled and loaded. What each does its source says: `kernels/*.cu`.

use crate::compile::Source;
use crate::device::Device;
use crate::error::Result;
use crate::stream::{Kernel, Module};

macro_rules! source {
    ($name:literal) => {
        Source {
            name: $name,
            parts: vec![
                include_str!("kernels/common.cuh"),
                include_str!(concat!("kernels/", $name, ".cu")),
            ],
            defines: Vec::new(),
        }
    };
}

/// All files of kernels that any card runs.
pub(crate) fn sources() -> [Source; 6] {
    [
        source!("cells"),
        source!("tokens"),
        source!("loss"),
        source!("sums"),
        source!("adam"),
        source!("half"),
    ]
}

/// Between f32 and f16.
#[derive(Debug)]
pub(crate) struct HalfKernels {
    pub pack_weights: Kernel,
    pub unpack_gradient: Kernel,
    pub unpack_bias: Kernel,
    pub halve: Kernel,
    pub scale_back: Kernel,
    pub symbol_table: Kernel,
    pub one_hot: Kernel,
    pub table_to_weights: Kernel,
    pub table_to_strands: Kernel,
    pub strands_to_embeddings: Kernel,
    pub answer_padded: Kernel,
}

impl HalfKernels {
    fn new(module: &Module) -> Result<HalfKernels> {
        Ok(HalfKernels {
            pack_weights: module.kernel("pack_weights")?,
            unpack_gradient: module.kernel("unpack_gradient")?,
            unpack_bias: module.kernel("unpack_bias")?,
            halve: module.kernel("halve")?,
            scale_back: module.kernel("scale_back")?,
            symbol_table: module.kernel("symbol_table")?,
            one_hot: module.kernel("one_hot")?,
            table_to_weights: module.kernel("table_to_weights")?,
            table_to_strands: module.kernel("table_to_strands")?,
            strands_to_embeddings: module.kernel("strands_to_embeddings")?,
            answer_padded: module.kernel("answer_padded")?,
        })
    }
}

/// The kernels by name.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub lstm_forward: Kernel,
    pub lstm_backward: Kernel,
    pub gru_forward: Kernel,
    pub gru_backward: Kernel,
    pub rnn_forward: Kernel,
    pub rnn_backward: Kernel,
    pub embed: Kernel,
    pub embed_backward: Kernel,
    pub answer: Kernel,
    pub cross_entropy: Kernel,
    pub squared_error: Kernel,
    pub sum_losses: Kernel,
    pub sum_squares: Kernel,
    pub sum_columns: Kernel,
    pub sum_chunks: Kernel,
    pub finish: Kernel,
    pub adam: Kernel,
    pub half: HalfKernels,
}

impl Kernels {
    pub fn new(device: &Device) -> Result<Kernels> {
        let modules = sources()
            .iter()
            .map(|source| Module::new(device, source))
            .collect::<Result<Vec<_>>>()?;
        let modules: [Module; 6] = modules.try_into().expect("one per source");
        let [cells, tokens, loss, sums, adam, half] = &modules;
        Ok(Kernels {
            lstm_forward: cells.kernel("lstm_forward")?,
            lstm_backward: cells.kernel("lstm_backward")?,
            gru_forward: cells.kernel("gru_forward")?,
            gru_backward: cells.kernel("gru_backward")?,
            rnn_forward: cells.kernel("rnn_forward")?,
            rnn_backward: cells.kernel("rnn_backward")?,
            embed: tokens.kernel("embed")?,
            embed_backward: tokens.kernel("embed_backward")?,
            answer: loss.kernel("answer")?,
            cross_entropy: loss.kernel("cross_entropy")?,
            squared_error: loss.kernel("squared_error")?,
            sum_losses: sums.kernel("sum_losses")?,
            sum_squares: sums.kernel("sum_squares")?,
            sum_columns: sums.kernel("sum_columns")?,
            sum_chunks: sums.kernel("sum_chunks")?,
            finish: adam.kernel("finish")?,
            adam: adam.kernel("adam")?,
            half: HalfKernels::new(half)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library;
    use crate::persistent::{Card, Tiling};

    /// Needs the compiler, no GPU.
    #[test]
    fn every_kernel_compiles_for_every_generation() {
        if let Err(missing) = library::nvrtc() {
            eprintln!("skipped: {missing}");
            return;
        }
        for arch in ["sm_80", "sm_89", "sm_90a"] {
            let resident = [1, 13, 16].map(crate::resident::source);
            for source in sources().into_iter().chain(resident) {
                let code = source.compile(arch).unwrap_or_else(|e| panic!("{arch}: {e}"));
                assert!(!code.is_empty());
            }
        }
    }

    /// The paper's sizes, and every number of rows that a block may have. Hopper's instructions.
    #[test]
    fn every_large_recurrence_compiles() {
        if let Err(missing) = library::nvrtc() {
            eprintln!("skipped: {missing}");
            return;
        }
        let card = Card { multiprocessors: 132, shared: 227 << 10 };
        let sizes =
            [(1024, 1), (512, 1), (594, 1), (343, 1), (722, 2), (363, 2), (202, 2), (700, 2)];
        for (units, directions) in sizes {
            let tiling = Tiling::of(units, directions, 128, card).expect("fits");
            for kind in [tiling.forward(), tiling.backward()] {
                kind.source.compile("sm_90a").unwrap_or_else(|e| panic!("{units}: {e}"));
            }
        }
    }

    /// Those of groups use Hopper's products: no other generation has them.
    #[test]
    fn kernels_of_groups_compile_for_hopper() {
        if let Err(missing) = library::nvrtc() {
            eprintln!("skipped: {missing}");
            return;
        }
        for (plan, why) in crate::group::plans() {
            for source in crate::group::sources(&plan) {
                let code = source.compile("sm_90a").unwrap_or_else(|e| panic!("{why}: {e}"));
                assert!(!code.is_empty());
            }
        }
        let code = crate::group::data_source().compile("sm_90a");
        assert!(!code.unwrap_or_else(|e| panic!("data: {e}")).is_empty());
    }
}
