//! A forward pass of one or more lanes, and its backward pass.

use super::pool::cpu;
use super::sequences::Sequences;
use super::{ReadF32, to_python};
use drnn::{Dropout, Gradient, Lane, NetSpec, Params, States, Tape};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::mem;

/// Memory of a pass.
pub(super) struct Work {
    tape: Tape,
    /// Input width.
    q: usize,
    sequences: Sequences,
    /// States of each lane.
    start: Vec<States>,
    last: States,
    d_last: Vec<States>,
    d_start: Vec<States>,
    /// Gradients of the input (T, B, q), lane after lane, where the caller's differ in form.
    d_x: Vec<f32>,
}

/// Copies into memory of torch's, which the caller made as large as the result.
pub(super) fn write(name: &str, to: &mut [f32], from: &[f32]) -> PyResult<()> {
    if to.len() != from.len() {
        let (found, expected) = (to.len(), from.len());
        return Err(PyRuntimeError::new_err(format!("{name}: {found} values, not {expected}")));
    }
    to.copy_from_slice(from);
    Ok(())
}

/// One part for each lane.
fn parts(all: &[f32], lanes: usize) -> impl Iterator<Item = &[f32]> {
    let len = all.len() / lanes;
    (0..lanes).map(move |lane| &all[lane * len..][..len])
}

fn parts_mut(all: &mut [f32], lanes: usize) -> Vec<&mut [f32]> {
    let len = all.len() / lanes;
    match len {
        0 => (0..lanes).map(|_| &mut [][..]).collect(),
        _ => all.chunks_mut(len).take(lanes).collect(),
    }
}

/// States of all lanes from torch's tensors. The kernels check their sizes.
pub(super) fn set_states(
    states: &mut Vec<States>,
    lanes: usize,
    h: &ReadF32,
    c: Option<&ReadF32>,
) -> PyResult<()> {
    states.resize_with(lanes, States::default);
    let set = |to: &mut Vec<f32>, from: &[f32]| {
        to.clear();
        to.extend_from_slice(from);
    };
    for (states, h) in states.iter_mut().zip(parts(h.as_slice()?, lanes)) {
        set(&mut states.h, h);
        states.c.clear();
    }
    if let Some(c) = c {
        for (states, c) in states.iter_mut().zip(parts(c.as_slice()?, lanes)) {
            set(&mut states.c, c);
        }
    }
    Ok(())
}

/// The tensors of each lane, where torch has them.
pub(super) struct Weights<'a>(Vec<Vec<&'a [f32]>>);

impl<'a> Weights<'a> {
    /// Every one of `tensors` holds the values of all lanes.
    pub(super) fn new(tensors: &[&'a [f32]], lanes: usize) -> Weights<'a> {
        let own = |lane: usize, all: &&'a [f32]| {
            let len = all.len() / lanes;
            &all[lane * len..][..len]
        };
        let of = |lane| tensors.iter().map(|all| own(lane, all)).collect();
        Weights((0..lanes).map(of).collect())
    }
}

/// Where a forward pass writes.
pub(super) struct Results<'a> {
    pub(super) outputs: &'a mut [f32],
    pub(super) h: &'a mut [f32],
    pub(super) c: Option<&'a mut [f32]>,
}

/// Gradients that a backward pass reads and writes, of all lanes.
pub(super) struct Gradients<'a> {
    pub(super) d_outputs: &'a [f32],
    pub(super) d_params: &'a mut [f32],
    pub(super) d_x: Option<&'a mut [f32]>,
    pub(super) d_h0: &'a mut [f32],
    pub(super) d_c0: Option<&'a mut [f32]>,
}

impl Work {
    pub(super) fn new(spec: &NetSpec, threads: usize) -> PyResult<Work> {
        let (sequences, last) = Default::default();
        let ([start, d_last, d_start], d_x) = Default::default();
        let tape = Tape::on(&cpu(threads)?, spec);
        let q = spec.input().width();
        Ok(Work { tape, q, sequences, start, last, d_last, d_start, d_x })
    }

    /// Bytes held for the next pass.
    pub(super) fn bytes(&self) -> usize {
        let memory = self.tape.memory();
        memory.saved + memory.extra + memory.fixed + size_of_val(&self.d_x[..])
    }

    /// Takes what a pass reads; `x` is read again, where it lies.
    pub(super) fn set_input(
        &mut self,
        sequences: Sequences,
        x: &ReadF32,
        h0: &ReadF32,
        c0: Option<&ReadF32>,
    ) -> PyResult<()> {
        let lanes = sequences.lanes();
        set_states(&mut self.start, lanes, h0, c0)?;
        let memory = mem::take(&mut self.sequences).into_memory();
        self.sequences = sequences;
        self.sequences.unpack(self.q, x.as_slice()?, memory);
        Ok(())
    }

    pub(super) fn lanes(&self) -> usize {
        self.sequences.lanes()
    }

    pub(super) fn forward(
        &mut self,
        x: &[f32],
        weights: &Weights,
        dropout: &[Dropout],
        results: Results,
    ) -> PyResult<()> {
        let Work { tape, sequences, start, last, .. } = self;
        let lanes = lanes(sequences, x, weights, start);
        let Results { outputs, h, c } = results;
        let mut outputs = parts_mut(outputs, lanes.len());
        let pass = tape.forward_into(&lanes, dropout, &mut outputs).map_err(to_python)?;
        let mut c = c.map(|c| parts_mut(c, lanes.len()).into_iter());
        for (lane, h) in parts_mut(h, lanes.len()).into_iter().enumerate() {
            pass.last_into(lane, last);
            write("h", h, &last.h)?;
            if let Some(c) = c.as_mut().and_then(Iterator::next) {
                write("c", c, &last.c)?;
            }
        }
        Ok(())
    }

    pub(super) fn set_last_gradients(
        &mut self,
        d_h: &ReadF32,
        d_c: Option<&ReadF32>,
    ) -> PyResult<()> {
        set_states(&mut self.d_last, self.sequences.lanes(), d_h, d_c)
    }

    /// The weights are those of the forward pass.
    pub(super) fn backward(
        &mut self,
        x: &[f32],
        weights: &Weights,
        gradients: Gradients,
    ) -> PyResult<()> {
        let Work { tape, q, sequences, start, d_last, d_start, d_x: padded, .. } = self;
        let Gradients { d_outputs, d_params, mut d_x, d_h0, d_c0 } = gradients;
        let count = sequences.lanes();
        d_start.resize_with(count, States::default);
        for (d_start, start) in d_start.iter_mut().zip(&*start) {
            d_start.h.resize(start.h.len(), 0.0);
            d_start.c.resize(start.c.len(), 0.0);
        }
        let own_layout = sequences.own_input_layout();
        let mut inputs = match &mut d_x {
            None => Vec::new(),
            Some(d_x) if own_layout => parts_mut(d_x, count),
            Some(_) => {
                padded.resize(count * sequences.padded_len(*q), 0.0);
                parts_mut(padded, count)
            }
        }
        .into_iter();
        let lanes = lanes(sequences, x, weights, start);
        let each = parts(d_outputs, count).zip(parts_mut(d_params, count));
        let mut gradients: Vec<Gradient> = each
            .zip(d_last.iter().zip(d_start.iter_mut()))
            .map(|((outputs, params), (last, start))| Gradient {
                outputs,
                last: Some(last),
                params,
                input: inputs.next(),
                start: Some(start),
            })
            .collect();
        let pass = tape.resume(&lanes).map_err(to_python)?;
        pass.backward(&mut gradients).map_err(to_python)?;
        if let Some(d_x) = d_x
            && !own_layout
        {
            sequences.collect_input_gradients(*q, padded, d_x);
        }
        for (d_h0, d_start) in parts_mut(d_h0, count).into_iter().zip(&*d_start) {
            write("d_h0", d_h0, &d_start.h)?;
        }
        if let Some(d_c0) = d_c0 {
            for (d_c0, d_start) in parts_mut(d_c0, count).into_iter().zip(&*d_start) {
                write("d_c0", d_c0, &d_start.c)?;
            }
        }
        Ok(())
    }
}

fn lanes<'a>(
    sequences: &'a Sequences,
    x: &'a [f32],
    weights: &'a Weights,
    start: &'a [States],
) -> Vec<Lane<'a>> {
    let each = weights.0.iter().zip(start).enumerate();
    each.map(|(lane, (weights, start))| Lane {
        params: Params::Tensors(weights),
        batch: sequences.batch(x, lane),
        start: Some(start),
    })
    .collect()
}
