//! Translation units: headers, the parameter structs that a file's kernels take, and the file.

use super::params::*;
use crate::runtime::compile::Source;
use drnn::Cell;

pub(crate) const COMMON: &str = include_str!("common/common.cuh");
const LSTM: &str = include_str!("common/lstm.cuh");
const CELL: &str = include_str!("common/cell.cuh");
pub(crate) const MMA: &str = include_str!("common/mma.cuh");
pub(crate) const HOPPER: &str = include_str!("common/hopper.cuh");
const GROUP: &str = include_str!("group/common.cuh");
const FORWARD_BLOCK: &str = include_str!("persistent/forward_block.cuh");
const SINGLE_BLOCK: &str = include_str!("persistent/single_block.cuh");

/// Compiles recurrences that begin with given states: cells and persistent kernels.
pub(crate) const FROM_STATES: &str = "FROM_STATES=1";

/// A file of kernels after `$headers`, with the declarations of the structs that they take.
macro_rules! source {
    ($name:literal, [$($header:ident),*], [$($params:ident),*], $file:literal, $defines:expr) => {{
        let declarations = [$($params::declaration()),*].concat();
        let file = include_str!($file).into();
        let parts = vec![$($header.into(),)* declarations.into(), file];
        Source { name: $name, parts, defines: $defines }
    }};
}

/// All files that every device runs.
pub(crate) struct Sources {
    pub cells: Source,
    pub batch: Source,
    pub tokens: Source,
    pub loss: Source,
    pub sums: Source,
    pub adam: Source,
    pub half: Source,
    pub pack: Source,
    pub rows: Source,
    pub exchange: Source,
}

impl Sources {
    pub fn new() -> Sources {
        Sources {
            cells: cells(Vec::new()),
            batch: source!("batch", [COMMON], [TakeBatch], "elementwise/batch.cu", Vec::new()),
            tokens: source!(
                "tokens",
                [COMMON],
                [Embed, EmbedBackward],
                "elementwise/tokens.cu",
                Vec::new()
            ),
            loss: source!(
                "loss",
                [COMMON],
                [AddOutputBias, CrossEntropy, WeightedCrossEntropy, SquaredError],
                "elementwise/loss.cu",
                Vec::new()
            ),
            sums: source!(
                "sums",
                [COMMON],
                [SumLosses, SumSquares, SumColumns, SumChunks],
                "optimiser/sums.cu",
                Vec::new()
            ),
            adam: source!("adam", [COMMON], [Finish, AdamStep], "optimiser/adam.cu", Vec::new()),
            half: source!(
                "half",
                [COMMON],
                [
                    PackWeights,
                    UnpackGradient,
                    UnpackBias,
                    ToHalf,
                    Unscale,
                    SymbolTable,
                    OneHot,
                    TableToWeights,
                    TableToPartials,
                    PartialsToEmbeddings,
                    AddOutputBiasPadded
                ],
                "elementwise/half.cu",
                Vec::new()
            ),
            pack: source!(
                "pack",
                [COMMON],
                [PackForward, PackBackward, PackSingleBlock, PackBias],
                "persistent/pack.cu",
                Vec::new()
            ),
            rows: source!(
                "rows",
                [COMMON],
                [Gather, GatherHalf, Scatter, ScatterHalf],
                "elementwise/rows.cu",
                Vec::new()
            ),
            exchange: source!(
                "exchange",
                [COMMON],
                [ResetExchange, FlipExchange],
                "persistent/exchange.cu",
                Vec::new()
            ),
        }
    }
}

/// Cells, step by step.
fn cells(defines: Vec<String>) -> Source {
    source!(
        "cells",
        [COMMON, LSTM],
        [LstmForward, LstmBackward, GruForward, GruBackward, RnnForward, RnnBackward],
        "elementwise/cells.cu",
        defines
    )
}

/// The same for sequences that begin with given states.
pub(crate) fn cells_from_states() -> Source {
    cells(vec![FROM_STATES.into()])
}

/// Arrays of a caller: their formats, lengths of sequences, the scale of gradients.
pub(crate) fn recurrence_values() -> Source {
    source!(
        "recurrence_values",
        [COMMON],
        [BeginForward, ReadValues, ReadValuesHalf, WriteValues, EndForwardHalf, Largest, SetScale],
        "recurrence/values.cu",
        Vec::new()
    )
}

/// First and last states.
pub(crate) fn recurrence_states() -> Source {
    source!(
        "recurrence_states",
        [COMMON],
        [PlaceStates, LastStates, PlaceStatesHalf],
        "recurrence/states.cu",
        Vec::new()
    )
}

/// LSTMs whose weights stay in the registers of `warps` warps.
pub(crate) fn resident(warps: usize) -> Source {
    source!(
        "resident",
        [COMMON, MMA, LSTM],
        [ResidentForward, ResidentBackward],
        "resident/resident.cu",
        vec![format!("WARPS={warps}")]
    )
}

pub(crate) fn persistent_forward(defines: Vec<String>) -> Source {
    source!(
        "persistent_forward",
        [COMMON, HOPPER, LSTM, CELL, FORWARD_BLOCK],
        [PersistentForward, PersistentForwardFromStates],
        "persistent/forward.cu",
        defines
    )
}

pub(crate) fn persistent_backward(defines: Vec<String>) -> Source {
    source!(
        "persistent_backward",
        [COMMON, HOPPER, LSTM, CELL],
        [PersistentBackward, PersistentBackwardFromStates],
        "persistent/backward.cu",
        defines
    )
}

/// The same kernels for recurrences in one block.
pub(crate) fn single_block_forward(defines: Vec<String>) -> Source {
    source!(
        "single_block_forward",
        [COMMON, MMA, LSTM, CELL, SINGLE_BLOCK],
        [PersistentForward, PersistentForwardFromStates],
        "persistent/single_block_forward.cu",
        defines
    )
}

pub(crate) fn single_block_backward(defines: Vec<String>) -> Source {
    source!(
        "single_block_backward",
        [COMMON, MMA, LSTM, CELL, SINGLE_BLOCK],
        [PersistentBackward, PersistentBackwardFromStates],
        "persistent/single_block_backward.cu",
        defines
    )
}

/// Steps of a cell whose products are GEMMs.
pub(crate) fn step_by_step(cell: Cell) -> Source {
    source!(
        "step_by_step",
        [COMMON, LSTM, CELL],
        [SlotsForward, SlotsBackward, FirstGradients, SumSlots],
        "persistent/step_by_step.cu",
        vec![define_cell(cell)]
    )
}

/// The cell, for `common/cell.cuh`.
pub(crate) fn define_cell(cell: Cell) -> String {
    let name = match cell {
        Cell::Lstm => "LSTM",
        Cell::Gru => "GRU",
        Cell::RnnTanh | Cell::RnnRelu => "RNN",
        Cell::GruResetBefore => unreachable!("refused by `Plan::new`"),
    };
    format!("CELL={name}")
}

/// The input of a tagger's word network.
pub(crate) fn tagger_words() -> Source {
    source!(
        "tagger_words",
        [COMMON],
        [JoinWords, SumEncodings, SumVectors],
        "tagger/words.cu",
        Vec::new()
    )
}

/// The files of a group's training step.
pub(crate) struct GroupSources {
    pub forward: Source,
    pub outputs: Source,
    pub backward: Source,
    pub weights: Source,
    pub step: Source,
}

impl GroupSources {
    pub fn new(defines: &[String]) -> GroupSources {
        let defines = || defines.to_vec();
        GroupSources {
            forward: source!(
                "group_forward",
                [COMMON, LSTM, GROUP],
                [GroupForward],
                "group/forward.cu",
                defines()
            ),
            outputs: source!(
                "group_outputs",
                [COMMON, GROUP],
                [GroupOutputs],
                "group/outputs.cu",
                defines()
            ),
            backward: source!(
                "group_backward",
                [COMMON, LSTM, GROUP],
                [GroupBackward],
                "group/backward.cu",
                defines()
            ),
            weights: source!(
                "group_weights",
                [COMMON, GROUP],
                [GroupWeights],
                "group/weights.cu",
                defines()
            ),
            step: source!(
                "group_step",
                [COMMON, GROUP],
                [GroupBegin, GroupSquares, GroupFinish, GroupAdam],
                "group/step.cu",
                defines()
            ),
        }
    }
}

/// Generators of a group's data sets.
pub(crate) fn group_data() -> Source {
    source!("group_data", [COMMON], [MakeSine, MakeReversal], "group/data.cu", Vec::new())
}
