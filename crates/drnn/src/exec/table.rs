//! Token input: the first layer's `bias + E W_ih^T`, once per distinct symbol of a batch.

use crate::cpu::buffer::Buffer;
use crate::exec::net::Net;
use crate::exec::params::Params;
use crate::exec::schedule::Schedule;
use crate::exec::weights::Weights;
use crate::kernel::product::{Init, NULL_ROW, Term};
use crate::prelude::*;
use crate::spec::{InputSpec, Padding};

/// The distinct symbols of a batch and their rows in the table of `bias + E W_ih^T`.
#[derive(Default)]
pub(crate) struct Table {
    /// Symbol of each table row; one more row, for the zero vector, follows.
    pub symbols: Vec<u32>,
    /// Symbol -> table row; [`NULL_ROW`] while it has none.
    row_of: Vec<u32>,
    /// Packed row -> table row, by direction.
    pub index: [Vec<u32>; 2],
    /// (symbols + 1, columns), by direction.
    pub rows: [Buffer; 2],
}

impl Table {
    /// Numbers the distinct symbols in the order of their appearance.
    pub fn index_symbols(&mut self, net: &Net, schedule: &Schedule, tokens: &[u32]) {
        let padding = match net.spec.padding() {
            Padding::Symbol(id) => Some(id),
            _ => None,
        };
        for &symbol in &self.symbols {
            self.row_of[symbol as usize] = NULL_ROW;
        }
        self.symbols.clear();
        if let InputSpec::Tokens { symbols, .. } = net.spec.input() {
            self.row_of.resize(symbols, NULL_ROW);
        }
        for direction in 0..net.directions() {
            let index = &mut self.index[direction];
            index.clear();
            index.extend(schedule.input[direction].iter().map(|&slot| {
                let symbol = match slot {
                    NULL_ROW => padding,
                    slot => Some(tokens[slot as usize]),
                };
                let Some(symbol) = symbol else {
                    return NULL_ROW;
                };
                let row = &mut self.row_of[symbol as usize];
                if *row == NULL_ROW {
                    *row = self.symbols.len() as u32;
                    self.symbols.push(symbol);
                }
                *row
            }));
        }
        let zero_vector = self.symbols.len() as u32;
        for row in self.index.iter_mut().flatten().filter(|row| **row == NULL_ROW) {
            *row = zero_vector;
        }
    }

    /// `rows[s] = bias + E[symbols[s]] W_ih^T`, and the bias alone for the zero vector.
    pub fn fill(&mut self, net: &Net, weights: &Weights, params: Params) {
        let (count, columns) = (self.symbols.len(), net.columns(0));
        let width = net.spec.input().width();
        let e = params.get(net.layout.embedding().unwrap_or_default());
        for (direction, layer) in weights.layers.iter().enumerate().take(net.directions()) {
            self.rows[direction].reserve((count + 1) * columns);
            let rows = self.rows[direction].slice_mut((count + 1) * columns);
            for row in rows.chunks_exact_mut(columns) {
                row.copy_from_slice(layer.bias.slice(columns));
            }
            for group in &net.layout.wiring(0).groups {
                let (cols, Some(at)) = (&group.columns, group.x) else { continue };
                for w in layer.x(at) {
                    let mut term = Term::rows(e.as_ptr(), width, width, w.ptr());
                    term.index = self.symbols.as_ptr();
                    let c = rows[cols.start..].as_mut_ptr();
                    let init = Init::Rows { from: c, stride: columns };
                    // SAFETY: `count` rows of `columns` floats; every symbol is a row of E.
                    unsafe { net.product(count, cols.len(), c, columns, init, &[term]) }
                }
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let words = self.index.iter().chain([&self.symbols, &self.row_of]);
        words.map(|v| v.capacity() * size_of::<u32>()).sum::<usize>()
            + self.rows.iter().map(Buffer::bytes).sum::<usize>()
    }
}
