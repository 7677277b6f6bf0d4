//! The kernels: sources, parameter structs, and what every device loads.
//!
//! | folder | kernels |
//! |---|---|
//! | `common` | headers: f16, reductions, the LSTM cell, Hopper's instructions |
//! | `elementwise` | cells step by step, batches, embeddings, losses, selected rows, f16 conversions |
//! | `optimiser` | reductions, clipping and Adam |
//! | `resident` | small LSTMs, all steps in one launch, a block per 16 rows |
//! | `persistent` | large recurrences, all steps in one launch over many multiprocessors |
//! | `group` | many small LSTMs at once |
//! | `recurrence` | a caller's arrays: formats, lengths, states, the scale of gradients |
//! | `tagger` | the input of a tagger's word network, and its gradient |
//! | `params` | the parameter struct of every kernel, in Rust and in C |
//! | `sources` | which files make a translation unit |

pub(crate) mod params;
pub(crate) mod sources;

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::kernel::{Kernel, Module};
use params::*;
use sources::Sources;

/// Gathers and scatters the rows of selected outputs, by the type of H.
#[derive(Debug)]
pub(crate) enum RowKernels {
    F32 {
        gather: Kernel<Gather>,
        scatter: Kernel<Scatter>,
    },
    /// 8 values per thread.
    F16 {
        gather: Kernel<GatherHalf>,
        scatter: Kernel<ScatterHalf>,
    },
}

impl RowKernels {
    /// Values per thread.
    pub fn vector_len(&self) -> usize {
        match self {
            RowKernels::F32 { .. } => 1,
            RowKernels::F16 { .. } => 8,
        }
    }
}

/// Conversions between f32 and f16, and what persistent recurrences need besides.
#[derive(Debug)]
pub(crate) struct HalfKernels {
    pub pack_weights: Kernel<PackWeights>,
    pub unpack_gradient: Kernel<UnpackGradient>,
    pub unpack_bias: Kernel<UnpackBias>,
    pub to_half: Kernel<ToHalf>,
    pub unscale: Kernel<Unscale>,
    pub symbol_table: Kernel<SymbolTable>,
    pub one_hot: Kernel<OneHot>,
    pub table_to_weights: Kernel<TableToWeights>,
    pub table_to_partials: Kernel<TableToPartials>,
    pub partials_to_embeddings: Kernel<PartialsToEmbeddings>,
    pub add_output_bias_padded: Kernel<AddOutputBiasPadded>,
    pub pack_forward: Kernel<PackForward>,
    pub pack_backward: Kernel<PackBackward>,
    pub pack_single_block: Kernel<PackSingleBlock>,
    pub pack_bias: Kernel<PackBias>,
    pub rows: RowKernels,
    pub reset_exchange: Kernel<ResetExchange>,
    pub flip_exchange: Kernel<FlipExchange>,
}

impl HalfKernels {
    fn new([half, pack, rows, exchange]: [&Module; 4]) -> Result<HalfKernels> {
        Ok(HalfKernels {
            pack_weights: half.kernel()?,
            unpack_gradient: half.kernel()?,
            unpack_bias: half.kernel()?,
            to_half: half.kernel()?,
            unscale: half.kernel()?,
            symbol_table: half.kernel()?,
            one_hot: half.kernel()?,
            table_to_weights: half.kernel()?,
            table_to_partials: half.kernel()?,
            partials_to_embeddings: half.kernel()?,
            add_output_bias_padded: half.kernel()?,
            pack_forward: pack.kernel()?,
            pack_backward: pack.kernel()?,
            pack_single_block: pack.kernel()?,
            pack_bias: pack.kernel()?,
            rows: RowKernels::F16 { gather: rows.kernel()?, scatter: rows.kernel()? },
            reset_exchange: exchange.kernel()?,
            flip_exchange: exchange.kernel()?,
        })
    }
}

/// One step of each cell in f32.
#[derive(Debug)]
pub(crate) struct CellKernels {
    pub lstm_forward: Kernel<LstmForward>,
    pub lstm_backward: Kernel<LstmBackward>,
    pub gru_forward: Kernel<GruForward>,
    pub gru_backward: Kernel<GruBackward>,
    pub rnn_forward: Kernel<RnnForward>,
    pub rnn_backward: Kernel<RnnBackward>,
}

impl CellKernels {
    fn new(cells: &Module) -> Result<CellKernels> {
        Ok(CellKernels {
            lstm_forward: cells.kernel()?,
            lstm_backward: cells.kernel()?,
            gru_forward: cells.kernel()?,
            gru_backward: cells.kernel()?,
            rnn_forward: cells.kernel()?,
            rnn_backward: cells.kernel()?,
        })
    }
}

/// What [`crate::Recurrence`] needs besides.
#[derive(Debug)]
pub(crate) struct RecurrenceKernels {
    /// Cells of sequences that begin with given states.
    pub cells: CellKernels,
    pub begin_forward: Kernel<BeginForward>,
    pub read_values: Kernel<ReadValues>,
    pub read_values_half: Kernel<ReadValuesHalf>,
    pub write_values: Kernel<WriteValues>,
    pub end_forward_half: Kernel<EndForwardHalf>,
    pub place_states: Kernel<PlaceStates>,
    pub last_states: Kernel<LastStates>,
    pub place_states_half: Kernel<PlaceStatesHalf>,
    pub largest: Kernel<Largest>,
    pub set_scale: Kernel<SetScale>,
}

impl RecurrenceKernels {
    /// Compiles, or takes from the cache, and loads all of them.
    pub fn new(device: &Device) -> Result<RecurrenceKernels> {
        let (values, states) = (sources::recurrence_values(), sources::recurrence_states());
        let (values, states) = (Module::new(device, &values)?, Module::new(device, &states)?);
        Ok(RecurrenceKernels {
            cells: CellKernels::new(&Module::new(device, &sources::cells_from_states())?)?,
            begin_forward: values.kernel()?,
            read_values: values.kernel()?,
            read_values_half: values.kernel()?,
            write_values: values.kernel()?,
            end_forward_half: values.kernel()?,
            place_states: states.kernel()?,
            last_states: states.kernel()?,
            place_states_half: states.kernel()?,
            largest: values.kernel()?,
            set_scale: values.kernel()?,
        })
    }
}

/// What only [`crate::CudaTagger`] needs besides.
#[derive(Debug)]
pub(crate) struct TaggerKernels {
    pub join_words: Kernel<JoinWords>,
    pub sum_encodings: Kernel<SumEncodings>,
    pub sum_vectors: Kernel<SumVectors>,
}

impl TaggerKernels {
    /// Compiles, or takes from the cache, and loads all of them.
    pub fn new(device: &Device) -> Result<TaggerKernels> {
        let words = Module::new(device, &sources::tagger_words())?;
        Ok(TaggerKernels {
            join_words: words.kernel()?,
            sum_encodings: words.kernel()?,
            sum_vectors: words.kernel()?,
        })
    }
}

/// The kernels that every device loads.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub cells: CellKernels,
    pub take_batch: Kernel<TakeBatch>,
    pub embed: Kernel<Embed>,
    pub embed_backward: Kernel<EmbedBackward>,
    pub add_output_bias: Kernel<AddOutputBias>,
    pub cross_entropy: Kernel<CrossEntropy>,
    pub weighted_cross_entropy: Kernel<WeightedCrossEntropy>,
    pub squared_error: Kernel<SquaredError>,
    pub sum_losses: Kernel<SumLosses>,
    pub sum_squares: Kernel<SumSquares>,
    pub sum_columns: Kernel<SumColumns>,
    pub sum_chunks: Kernel<SumChunks>,
    pub finish: Kernel<Finish>,
    pub adam: Kernel<AdamStep>,
    pub rows: RowKernels,
    pub half: HalfKernels,
}

impl Kernels {
    /// Compiles, or takes from the cache, and loads all of them.
    pub fn new(device: &Device) -> Result<Kernels> {
        let sources = Sources::new();
        let load = |source| Module::new(device, source);
        let (cells, batch) = (load(&sources.cells)?, load(&sources.batch)?);
        let (tokens, loss) = (load(&sources.tokens)?, load(&sources.loss)?);
        let (sums, adam, half) = (load(&sources.sums)?, load(&sources.adam)?, load(&sources.half)?);
        let (pack, rows, exchange) =
            (load(&sources.pack)?, load(&sources.rows)?, load(&sources.exchange)?);
        Ok(Kernels {
            cells: CellKernels::new(&cells)?,
            take_batch: batch.kernel()?,
            embed: tokens.kernel()?,
            embed_backward: tokens.kernel()?,
            add_output_bias: loss.kernel()?,
            cross_entropy: loss.kernel()?,
            weighted_cross_entropy: loss.kernel()?,
            squared_error: loss.kernel()?,
            sum_losses: sums.kernel()?,
            sum_squares: sums.kernel()?,
            sum_columns: sums.kernel()?,
            sum_chunks: sums.kernel()?,
            finish: adam.kernel()?,
            adam: adam.kernel()?,
            rows: RowKernels::F32 { gather: rows.kernel()?, scatter: rows.kernel()? },
            half: HalfKernels::new([&half, &pack, &rows, &exchange])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistent::{DeviceLimits, ForcedTiling, Kind, Kinds, Lanes, LayerShape, Tiling};
    use crate::runtime::compile::Source;
    use crate::runtime::library;
    use drnn::Cell;
    use drnn_testing::{Need, found};

    /// Compiles a source. If the variable DRNN_CUBINS names a folder, the machine code is left
    /// there for `tools/compare_sass.py`.
    fn compiled(source: &Source, arch: &str, what: &str) {
        let code = source.compile(arch).unwrap_or_else(|e| panic!("{arch} {what}: {e}"));
        assert!(!code.is_empty());
        if let Some(folder) = std::env::var_os("DRNN_CUBINS") {
            let name = format!("{}-{arch}-{what}.cubin", source.name).replace([' ', '\''], "_");
            let path = std::path::PathBuf::from(folder).join(name);
            std::fs::write(path, code).expect("a folder");
        }
    }

    /// Needs NVRTC, no GPU.
    #[test]
    fn every_kernel_compiles_for_every_generation() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
            return;
        }
        for arch in ["sm_80", "sm_89", "sm_90a"] {
            let s = Sources::new();
            let Sources { cells, batch, tokens, loss, sums, adam, half, pack, rows, exchange } = s;
            let all = [cells, batch, tokens, loss, sums, adam, half, pack, rows, exchange];
            let own = [
                sources::cells_from_states(),
                sources::recurrence_values(),
                sources::recurrence_states(),
                sources::tagger_words(),
            ];
            let all = all.into_iter().chain([1, 13, 16].map(sources::resident)).chain(own);
            for source in all {
                compiled(&source, arch, &format!("all{}", source.defines.concat()));
            }
        }
    }

    /// The paper's sizes, every number of rows per block, every cell, stacks; batches of training,
    /// and those of 500 for evaluation. For Hopper only.
    #[test]
    fn every_persistent_kernel_compiles() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
            return;
        }
        let limits = DeviceLimits::new(132, 227 << 10);
        let layer = |count, below| Lanes::Directions { count, below };
        let sizes = [
            (Cell::Lstm, 1024, layer(1, 0)),
            (Cell::Lstm, 512, layer(1, 0)),
            (Cell::Lstm, 594, layer(1, 0)),
            (Cell::Lstm, 594, layer(1, 1)),
            (Cell::Lstm, 722, layer(2, 0)),
            (Cell::Lstm, 363, layer(2, 2)),
            (Cell::Lstm, 202, layer(2, 2)),
            (Cell::Lstm, 700, layer(2, 0)),
            (Cell::Lstm, 343, Lanes::Layers(5)),
            (Cell::Lstm, 400, Lanes::Layers(3)),
            (Cell::Gru, 512, layer(1, 0)),
            (Cell::Gru, 343, Lanes::Layers(5)),
            (Cell::RnnTanh, 100, layer(2, 2)),
            (Cell::RnnTanh, 1, layer(1, 0)),
        ];
        let evaluated = [
            (Cell::Lstm, 202, layer(2, 2)),
            (Cell::Lstm, 298, layer(2, 2)),
            (Cell::Gru, 343, layer(1, 1)),
            (Cell::Lstm, 512, layer(1, 0)),
        ];
        // Blocks of 16 units.
        let small = [
            (16, (Cell::Lstm, 1024, layer(1, 0))),
            (16, (Cell::Lstm, 512, layer(1, 0))),
            (64, (Cell::Lstm, 512, layer(1, 0))),
            (16, (Cell::Gru, 700, layer(1, 1))),
            (16, (Cell::Lstm, 512, Lanes::Layers(2))),
            (128, (Cell::Lstm, 1536, layer(1, 0))),
            (1, (Cell::Gru, 2048, layer(1, 0))),
            (64, (Cell::Lstm, 2048, layer(1, 0))),
            (1, (Cell::RnnTanh, 1056, layer(2, 0))),
        ];
        let sizes =
            sizes.map(|size| (128, size)).into_iter().chain(evaluated.map(|size| (500, size)));
        let sizes = sizes.chain(small);
        for (batch, (cell, units, lanes)) in sizes {
            // Beyond 1024 units there is no table.
            let layers = LayerShape { cell, units, lanes, table: units <= 1024 };
            let tiling = Tiling::of(layers, batch, limits).expect("fits");
            let forward = [true, false].map(|table| tiling.forward(table, limits));
            let specs = forward.into_iter().flatten().chain([tiling.backward()]);
            for (at, spec) in specs.enumerate() {
                let what = format!("{cell:?} {units} {lanes:?} {batch} {at}");
                compiled(&spec.source, "sm_90a", &what);
            }
            let from_states = [tiling.forward_from_states(limits), tiling.backward_from_states()];
            for (at, spec) in from_states.into_iter().enumerate() {
                let what = format!("{cell:?} {units} {lanes:?} {batch} from states {at}");
                compiled(&spec.source, "sm_90a", &what);
            }
        }
    }

    /// Kinds of recurrences that `DRNN_TILING` has to name.
    #[test]
    fn kernels_of_other_kinds_compile() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
            return;
        }
        for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh] {
            compiled(&sources::step_by_step(cell), "sm_90a", &format!("{cell:?}"));
        }
        let forced =
            ForcedTiling { kinds: Kinds::Only(Kind::SingleBlock), ..ForcedTiling::default() };
        let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
        let shapes = [(Cell::Lstm, 128), (Cell::Lstm, 64), (Cell::Gru, 96), (Cell::RnnTanh, 1)];
        for (cell, units) in shapes {
            let lanes = Lanes::Directions { count: 2, below: 0 };
            for tiling in Tiling::all(LayerShape { cell, units, lanes, table: true }, 64, limits) {
                let forward = [true, false].map(|table| tiling.forward(table, limits));
                let given = [tiling.forward_from_states(limits), tiling.backward_from_states()];
                let specs = forward.into_iter().flatten().chain([tiling.backward()]).chain(given);
                for (at, spec) in specs.enumerate() {
                    let what = format!("{cell:?} {units} {} {at}", tiling.rows);
                    compiled(&spec.source, "sm_90a", &what);
                }
            }
        }
    }

    /// Groups use wgmma: for Hopper only.
    #[test]
    fn group_kernels_compile_for_hopper() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
            return;
        }
        for (plan, why) in crate::group::plans() {
            let s = sources::GroupSources::new(&plan.defines());
            for source in [s.forward, s.outputs, s.backward, s.weights, s.step] {
                compiled(&source, "sm_90a", why);
            }
        }
        compiled(&sources::group_data(), "sm_90a", "data");
    }
}
