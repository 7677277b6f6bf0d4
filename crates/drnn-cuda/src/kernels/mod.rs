//! The kernels that every network uses, compiled and loaded. The `.cu` files of this folder explain
//! what each computes; those of `persistent/forward.cu`, `persistent/backward.cu`, `resident/` and
//! `group/` are loaded by the modules that launch them.

use crate::error::Result;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::stream::{Kernel, Module};

macro_rules! source {
    ($family:literal, $name:literal) => {
        Source {
            name: $name,
            parts: vec![
                include_str!("common/common.cuh"),
                include_str!(concat!($family, "/", $name, ".cu")),
            ],
            defines: Vec::new(),
        }
    };
}

/// The sources that compile for every supported GPU.
pub(crate) fn sources() -> [Source; 9] {
    [
        source!("elementwise", "cells"),
        source!("elementwise", "tokens"),
        source!("elementwise", "loss"),
        source!("optimiser", "sums"),
        source!("optimiser", "adam"),
        source!("elementwise", "half"),
        source!("persistent", "pack"),
        source!("elementwise", "rows"),
        source!("persistent", "exchange"),
    ]
}

/// Gather and scatter of matrix rows.
#[derive(Debug)]
pub(crate) struct RowKernels {
    pub gather: Kernel,
    pub scatter: Kernel,
    /// Values that a thread moves.
    pub at_once: usize,
}

/// Kernels of the f16 path: conversion, packing, tables, the h exchange.
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
    pub pack_forward: Kernel,
    pub pack_backward: Kernel,
    pub rows: RowKernels,
    pub reset_exchange: Kernel,
    pub flip_exchange: Kernel,
}

impl HalfKernels {
    fn new([module, pack, rows, exchange]: [&Module; 4]) -> Result<HalfKernels> {
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
            pack_forward: pack.kernel("pack_forward")?,
            pack_backward: pack.kernel("pack_backward")?,
            rows: RowKernels {
                gather: rows.kernel("gather_half")?,
                scatter: rows.kernel("scatter_half")?,
                at_once: 8,
            },
            reset_exchange: exchange.kernel("forget")?,
            flip_exchange: exchange.kernel("next_turn")?,
        })
    }
}

/// All kernels, by name.
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
    pub rows: RowKernels,
    pub half: HalfKernels,
}

impl Kernels {
    /// Compiles, or takes from the cache, and loads all of them.
    pub fn new(device: &Device) -> Result<Kernels> {
        let modules = sources()
            .iter()
            .map(|source| Module::new(device, source))
            .collect::<Result<Vec<_>>>()?;
        let modules: [Module; 9] = modules.try_into().expect("one per source");
        let [cells, tokens, loss, sums, adam, half, pack, rows, exchange] = &modules;
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
            rows: RowKernels {
                gather: rows.kernel("gather")?,
                scatter: rows.kernel("scatter")?,
                at_once: 1,
            },
            half: HalfKernels::new([half, pack, rows, exchange])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistent::{DeviceLimits, Lanes, Tiling};
    use crate::runtime::library;
    use drnn::Cell;
    use drnn_testing::{Need, found};

    /// Needs NVRTC, no GPU.
    #[test]
    fn every_kernel_compiles_for_every_generation() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
            return;
        }
        for arch in ["sm_80", "sm_89", "sm_90a"] {
            let resident = [1, 13, 16].map(crate::plain::resident::source);
            for source in sources().into_iter().chain(resident) {
                let code = source.compile(arch).unwrap_or_else(|e| panic!("{arch}: {e}"));
                assert!(!code.is_empty());
            }
        }
    }

    /// The paper's sizes, every number of rows per block, every cell, stacks; training batches, and
    /// evaluation batches of 500.
    #[test]
    fn every_persistent_kernel_compiles() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
            return;
        }
        let limits = DeviceLimits { multiprocessors: 132, shared: 227 << 10 };
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
        let sizes =
            sizes.map(|size| (128, size)).into_iter().chain(evaluated.map(|size| (500, size)));
        for (batch, (cell, units, lanes)) in sizes {
            let tiling = Tiling::of(cell, units, lanes, batch, limits).expect("fits");
            let forward = [true, false].map(|table| tiling.forward(table, limits));
            for spec in forward.into_iter().flatten().chain([tiling.backward()]) {
                let why = |e| panic!("{cell:?} {units}: {e}");
                spec.source.compile("sm_90a").unwrap_or_else(why);
            }
        }
    }

    /// Kernels of groups use wgmma, which only Hopper has.
    #[test]
    fn group_kernels_compile_for_hopper() {
        if found(Need::Nvrtc, library::nvrtc()).is_none() {
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
