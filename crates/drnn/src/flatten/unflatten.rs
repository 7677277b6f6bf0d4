//! The blocks of a flattened stack, found from the zeros of its weights.
//!
//! A unit of block i reads units of blocks i - 1 and i only, and x only in block 0. So from the first
//! unit on, a block ends where nothing in it reads beyond its end; a unit that reads further back than
//! the block before shows that blocks in between were cut too small.

use crate::error::{Error, Result};
use crate::spec::NetSpec;
use crate::spec::params::Layout;
use core::ops::Range;

/// What a unit reads: the span of units, and whether it reads x.
struct Reads {
    span: Option<Range<usize>>,
    x: bool,
}

/// Widths of the smallest blocks that fit a one-layer network.
pub(crate) fn widths_from_zeros(
    spec: &NetSpec,
    layout: &Layout,
    params: &[f32],
) -> Result<Vec<usize>> {
    let reads = reads(spec, layout, params);
    let mut ends = cuts(&reads);
    merge(&mut ends, &reads, first_answering(spec, layout, params));
    if ends.len() == 1 && reads.len() > 1 {
        return Err(Error::Flatten(format!(
            "{spec}: no blocks are to be seen, units are connected all over (one layer of a stack, or \
             none at all); say the blocks' widths to see which weights are in the way"
        )));
    }
    let starts = core::iter::once(&0).chain(&ends);
    Ok(ends.iter().zip(starts).map(|(end, start)| end - start).collect())
}

fn reads(spec: &NetSpec, layout: &Layout, params: &[f32]) -> Vec<Reads> {
    let (n, q) = (spec.units()[0], spec.input().width());
    let [w_ih, w_hh, ..] = layout.layer(0, 0).map(|range| &params[range]);
    let unit = |u: usize| {
        let mut reads = Reads { span: None, x: false };
        for gate in 0..spec.cell().gates() {
            let row = gate * n + u;
            reads.x |= w_ih[row * q..][..q].iter().any(|w| *w != 0.0);
            let w = &w_hh[row * n..][..n];
            let (first, last) =
                (w.iter().position(|w| *w != 0.0), w.iter().rposition(|w| *w != 0.0));
            if let (Some(first), Some(last)) = (first, last) {
                let span = reads.span.get_or_insert(first..last + 1);
                *span = span.start.min(first)..span.end.max(last + 1);
            }
        }
        reads
    };
    (0..n).map(unit).collect()
}

/// The first unit that the output layer reads; the last unit where there is no output layer.
fn first_answering(spec: &NetSpec, layout: &Layout, params: &[f32]) -> usize {
    let n = spec.units()[0];
    let Some([weight, _]) = layout.output() else { return n - 1 };
    let rows = params[weight].chunks_exact(n);
    rows.filter_map(|row| row.iter().position(|w| *w != 0.0)).min().unwrap_or(n - 1)
}

/// Ends of blocks that nothing inside reads beyond. All that reads x is in the first.
fn cuts(reads: &[Reads]) -> Vec<usize> {
    let last_x = reads.iter().rposition(|r| r.x).unwrap_or(0);
    let (mut ends, mut end) = (Vec::new(), last_x + 1);
    for (u, r) in reads.iter().enumerate() {
        if u == end {
            ends.push(end);
            end = u + 1;
        }
        end = end.max(r.span.as_ref().map_or(0, |span| span.end));
    }
    ends.push(reads.len());
    ends
}

/// Joins blocks until each reads itself and the one before only, and the last holds all that is answered
/// from.
fn merge(ends: &mut Vec<usize>, reads: &[Reads], answering: usize) {
    let block_of = |ends: &[usize], u: usize| ends.partition_point(|&end| end <= u);
    let last = block_of(ends, answering);
    ends.drain(last..ends.len() - 1);
    let mut u = 0;
    while u < reads.len() {
        let own = block_of(ends, u);
        let from = reads[u].span.as_ref().map_or(own, |span| block_of(ends, span.start));
        if from + 1 < own {
            // Blocks after `from`, up to this one, are one block. Nothing before it changes.
            ends.drain(from + 1..own);
            u = 0;
        } else {
            u += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::blocks::StartState;
    use crate::{Cell, Model};

    #[test]
    fn blocks_are_found_and_too_small_ones_joined() {
        for (cell, units) in [
            (Cell::Lstm, vec![4, 2, 5]),
            (Cell::RnnTanh, vec![1, 1, 1, 3]),
            (Cell::RnnRelu, vec![3, 7]),
        ] {
            for outputs in [None, Some(3)] {
                let builder = NetSpec::builder(cell).dense(2).units(units.clone());
                let builder = if let Some(m) = outputs { builder.outputs(m) } else { builder };
                let stack = Model::init(&builder.build().unwrap(), 1).unwrap();
                let flat = stack.flatten(StartState::Held).unwrap();
                let found = widths_from_zeros(flat.spec(), flat.layout(), flat.params());
                assert_eq!(found.unwrap(), units);
            }
        }
        // Unit 3 reads unit 0 past the blocks of units 1 and 2, which are one block then.
        let reads = [0..1, 0..2, 1..3, 0..4].map(|span| Reads { span: Some(span), x: false });
        let mut ends = cuts(&reads);
        assert_eq!(ends, [1, 2, 3, 4]);
        merge(&mut ends, &reads, 3);
        assert_eq!(ends, [1, 4]);
    }
}
