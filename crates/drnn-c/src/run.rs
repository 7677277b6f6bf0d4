//! Whole sequences.

use crate::exclusive::handle;
use crate::memory::{Buffer, values};
use crate::model::{c_width, drnn_model, h_width};
use crate::status::drnn_status::{DRNN_ERROR_ARGUMENT, DRNN_ERROR_MEMORY};
use crate::status::{Failure, Result, drnn_status, fail, guard};
use drnn::{Batch, BatchFirst, NetSpec, Outputs, Rows, States, Steps};
use std::ffi::c_int;

/// Sequences to run: B rows of up to T steps. Set either `x` or `tokens`, by what the network reads,
/// and leave the rest zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct drnn_sequences {
    /// Vectors (T, B, q): element t of sequence b begins at `x[(t * B + b) * q]`. NULL for tokens.
    pub x: *const f32,
    /// Floats at `x`: T * B * q.
    pub x_len: usize,
    /// Tokens (T, B): element t of sequence b is `tokens[t * B + b]`. NULL for vectors.
    pub tokens: *const u32,
    /// Tokens at `tokens`: T * B.
    pub tokens_len: usize,
    /// T.
    pub steps: usize,
    /// B.
    pub rows: usize,
    /// Elements of each of the B sequences, 0 to T; what follows them is not read. NULL if all have T.
    pub lengths: *const usize,
    /// Not 0 if inputs and outputs are (B, T, ..) instead of (T, B, ..).
    pub batch_first: c_int,
}

/// States of B sequences, as PyTorch's h_n and c_n: (layers * directions, B, n).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct drnn_states {
    /// Hidden states.
    pub h: *mut f32,
    /// Floats at `h`: B * `h_width` of the model's info.
    pub h_len: usize,
    /// Cell states; NULL for cells without them.
    pub c: *mut f32,
    /// Floats at `c`: B * `c_width` of the model's info.
    pub c_len: usize,
}

impl drnn_sequences {
    /// Hands the batch to `body`.
    ///
    /// # Safety
    /// Pointers are NULL, or have as many values as the lengths say.
    unsafe fn with<R>(&self, body: impl FnOnce(Batch) -> Result<R>) -> Result<R> {
        let (steps, rows) = (Steps(self.steps), Rows(self.rows));
        // SAFETY: the caller's promise.
        let (x, tokens, lengths) = unsafe {
            let lengths = match self.lengths.is_null() {
                true => None,
                false => Some(values(self.lengths, self.rows, "lengths")?),
            };
            let x = values(self.x, self.x_len, "x")?;
            (x, values(self.tokens, self.tokens_len, "tokens")?, lengths)
        };
        let batch_first;
        let batch = match (self.tokens.is_null(), self.batch_first != 0) {
            (false, _) if !self.x.is_null() => {
                return fail(DRNN_ERROR_ARGUMENT, "both `x` and `tokens` are set, expected one");
            }
            (true, false) => Batch::dense(x, steps, rows),
            (false, false) => Batch::tokens(tokens, steps, rows),
            (true, true) => {
                batch_first = BatchFirst::dense(x, rows, steps)?;
                batch_first.batch()
            }
            (false, true) => {
                batch_first = BatchFirst::tokens(tokens, rows, steps)?;
                batch_first.batch()
            }
        };
        body(lengths.into_iter().fold(batch, |batch, lengths| batch.lengths(lengths)))
    }
}

/// Start states of the caller's.
///
/// # Safety
/// As [`drnn_sequences::with`].
unsafe fn start_states(states: *const drnn_states) -> Result<Option<States>> {
    if states.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let drnn_states { h, h_len, c, c_len } = values(states, 1, "start")?[0];
        let h = values(h, h_len, "start.h")?.to_vec();
        Ok(Some(States { h, c: values(c, c_len, "start.c")?.to_vec() }))
    }
}

/// Where the caller wants the last states.
///
/// # Safety
/// As [`drnn_sequences::with`].
unsafe fn last_states(
    states: *const drnn_states,
    spec: &NetSpec,
    rows: usize,
) -> Result<Option<[Buffer<f32>; 2]>> {
    if states.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let drnn_states { h, h_len, c, c_len } = values(states, 1, "last")?[0];
        let h = Buffer::new(h, h_len, product(&[h_width(spec), rows])?, "last.h")?;
        Ok(Some([h, Buffer::new(c, c_len, product(&[c_width(spec), rows])?, "last.c")?]))
    }
}

fn product(factors: &[usize]) -> Result<usize> {
    let product = factors.iter().try_fold(1usize, |all, factor| all.checked_mul(*factor));
    let message = || format!("an array of {factors:?} values cannot be addressed");
    product.ok_or_else(|| Failure { status: DRNN_ERROR_MEMORY, message: message() })
}

/// Runs whole sequences.
///
/// `start` is where they begin; NULL for zeros. `outputs` gets (T', B, m), or (B, T', m) if the batch is
/// batch-first, with T' = max(0, T - look_ahead): aligned with the input whatever the delay, zeros after
/// the end of each sequence. `outputs_len` is at least that many floats. `last`, unless it is NULL, says
/// where to put the states after the last step; its arrays may be those of `start`. Other arrays must
/// not overlap.
///
/// On failure nothing is written.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_model_run(
    model: *const drnn_model,
    sequences: *const drnn_sequences,
    start: *const drnn_states,
    outputs: *mut f32,
    outputs_len: usize,
    last: *const drnn_states,
) -> drnn_status {
    guard(|| {
        // SAFETY: handles, structs and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            let model = handle(model, "model")?.network()?;
            let spec = model.spec();
            let sequences = &values(sequences, 1, "sequences")?[0];
            let shape = [spec.output_steps(sequences.steps), sequences.rows, spec.output_width()];
            let outputs = Buffer::new(outputs, outputs_len, product(&shape)?, "outputs")?;
            let last = last_states(last, spec, sequences.rows)?;
            let start = start_states(start)?;
            let found = sequences.with(|batch| Ok(model.run(&batch, start.as_ref())?))?;
            write(sequences.batch_first != 0, &found, outputs, last);
            Ok(())
        }
    })
}

fn write(batch_first: bool, found: &Outputs, outputs: Buffer<f32>, last: Option<[Buffer<f32>; 2]>) {
    match batch_first {
        true => outputs.write(0, &found.to_batch_first()),
        false => outputs.write(0, &found.values),
    }
    if let Some([h, c]) = last {
        h.write(0, &found.last.h);
        c.write(0, &found.last.c);
    }
}
