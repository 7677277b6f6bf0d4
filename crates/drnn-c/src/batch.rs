//! Many live sequences of one model, stepped together.

use crate::exclusive::{Exclusive, free, handle};
use crate::memory::{Buffer, set, set_required, values};
use crate::model::{drnn_model, finish_outputs};
use crate::status::drnn_status::{DRNN_ERROR_SHAPE, DRNN_ERROR_STREAM_ID, DRNN_ERROR_UNSUPPORTED};
use crate::status::{Failure, Result, drnn_status, fail, guard};
use drnn::{Element, InputSpec, Model, StreamBatch, StreamId};
use std::sync::Arc;

/// Live sequences of one model that are stepped together; they join and leave at any time. One thread
/// may use it at a time.
pub struct drnn_stream_batch(Exclusive<Live>);

struct Live {
    batch: StreamBatch<Arc<Model>>,
    ids: Ids,
    model: Arc<Model>,
}

/// Streams by numbers that C can hold: the low half is a place, the high half counts the streams that
/// had it, from 1. So 0 names none, and the number of a stream that has left is not used again.
#[derive(Default)]
struct Ids {
    places: Vec<(u32, Option<StreamId>)>,
    free: Vec<u32>,
}

impl Ids {
    fn add(&mut self, id: StreamId) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (turn, held) = &mut self.places[place as usize];
        *turn += 1;
        *held = Some(id);
        u64::from(*turn) << 32 | u64::from(place)
    }

    fn get(&self, number: u64) -> Result<StreamId> {
        let found = self.places.get((number & 0xFFFF_FFFF) as usize);
        let found = found.filter(|(turn, _)| u64::from(*turn) == number >> 32);
        found.and_then(|(_, id)| *id).ok_or_else(|| Failure {
            status: DRNN_ERROR_STREAM_ID,
            message: format!("{number} names no stream here: it has left, or joined another batch"),
        })
    }

    fn remove(&mut self, number: u64) {
        let place = (number & 0xFFFF_FFFF) as u32;
        if let Some((turn, id)) = self.places.get_mut(place as usize) {
            *id = None;
            // A place whose numbers are used up is not used again.
            if *turn < u32::MAX {
                self.free.push(place);
            }
        }
    }
}

impl Live {
    fn step<'a>(
        &mut self,
        ids: &[u64],
        elements: impl Iterator<Item = Element<'a>>,
        outputs: Buffer<f32>,
        known: Option<Buffer<u8>>,
    ) -> Result<()> {
        let m = self.model.spec().output_width();
        let mut step = Vec::with_capacity(ids.len());
        for (&id, element) in ids.iter().zip(elements) {
            step.push((self.ids.get(id)?, element));
        }
        // Outputs come in the order of the step; streams that have none yet are left out.
        let mark = |row, is: u8| known.iter().for_each(|known| known.write(row, &[is]));
        let mut row = 0;
        self.batch.step(&step, |id, output| {
            while step[row].0 != id {
                mark(row, 0);
                row += 1;
            }
            outputs.write(row * m, output);
            mark(row, 1);
            row += 1;
        })?;
        (row..step.len()).for_each(|row| mark(row, 0));
        Ok(())
    }

    fn finish(
        &mut self,
        numbers: &[u64],
        outputs: Buffer<f32>,
        counts: Option<Buffer<usize>>,
    ) -> Result<()> {
        let spec = self.model.spec();
        let (m, most) = (spec.output_width(), finish_outputs(spec));
        let ids: Result<Vec<StreamId>> = numbers.iter().map(|id| self.ids.get(*id)).collect();
        let ids = ids?;
        let mut found: Vec<(StreamId, usize)> = ids.iter().map(|id| (*id, 0)).collect();
        let mut row = 0;
        self.batch.finish(&ids, |id, output| {
            // Streams take turns, in the order of `ids`.
            while found[row].0 != id {
                row = (row + 1) % found.len();
            }
            outputs.write((row * most + found[row].1) * m, output);
            found[row].1 += 1;
        })?;
        if let Some(counts) = counts {
            found.iter().enumerate().for_each(|(row, (_, count))| counts.write(row, &[*count]));
        }
        numbers.iter().for_each(|number| self.ids.remove(*number));
        Ok(())
    }
}

/// # Safety
/// NULL, or memory for `len` values.
unsafe fn optional<T: Copy>(at: *mut T, len: usize, name: &str) -> Result<Option<Buffer<T>>> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { Buffer::new(at, len, len, name) }).transpose()
}

/// An empty batch. On success `*batch` is a handle for `drnn_stream_batch_free`; on failure it is NULL.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_new(
    model: *const drnn_model,
    batch: *mut *mut drnn_stream_batch,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and the caller's place for one.
        unsafe {
            set_required(batch, std::ptr::null_mut(), "batch")?;
            let model = handle(model, "model")?.network()?.clone();
            let live = Live { batch: StreamBatch::new(model.clone())?, ids: Ids::default(), model };
            let new = Box::new(drnn_stream_batch(Exclusive::new(live)));
            set_required(batch, Box::into_raw(new), "batch")
        }
    })
}

/// Adds a sequence that has not begun. `*id` names it in this batch; it is never 0, and never the same
/// again.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_join(
    batch: *mut drnn_stream_batch,
    id: *mut u64,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and the caller's place for a number.
        unsafe {
            set_required(id, 0, "id")?;
            handle(batch, "batch")?.0.with(|live| {
                let new = live.batch.join();
                set_required(id, live.ids.add(new), "id")
            })
        }
    })
}

/// Removes a sequence, without the outputs still due.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_leave(
    batch: *mut drnn_stream_batch,
    id: u64,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL.
        unsafe { handle(batch, "batch")? }.0.with(|live| {
            live.batch.leave(live.ids.get(id)?)?;
            live.ids.remove(id);
            Ok(())
        })
    })
}

/// Reads one element of each of `ids_len` streams: `x` is (ids_len, q), `x_len` the number of its
/// floats. The output for `ids[i]`, if one is known now, goes to `outputs[i * m]`; `known[i]` is then 1,
/// else 0, and the row is left as it is. `outputs_len` is at least ids_len * m. `known`, an array of
/// `ids_len`, may be NULL.
///
/// If anything is refused, no stream has moved.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_step(
    batch: *mut drnn_stream_batch,
    ids: *const u64,
    ids_len: usize,
    x: *const f32,
    x_len: usize,
    outputs: *mut f32,
    outputs_len: usize,
    known: *mut u8,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            let ids = values(ids, ids_len, "ids")?;
            let x = values(x, x_len, "x")?;
            let known = optional(known, ids_len, "known")?;
            handle(batch, "batch")?.0.with(|live| {
                let spec = live.model.spec();
                let InputSpec::Dense(q) = spec.input() else {
                    let why = "the network reads tokens; use drnn_stream_batch_step_tokens";
                    return fail(DRNN_ERROR_UNSUPPORTED, why);
                };
                if Some(x_len) != ids_len.checked_mul(q) {
                    let why = format!("`x` has {x_len} floats, expected {q} for each of {ids_len}");
                    return fail(DRNN_ERROR_SHAPE, why);
                }
                let needed = ids_len.saturating_mul(spec.output_width());
                let outputs = Buffer::new(outputs, outputs_len, needed, "outputs")?;
                live.step(ids, x.chunks_exact(q).map(Element::Dense), outputs, known)
            })
        }
    })
}

/// The same for a network that reads tokens: one for each of `ids_len` streams.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_step_tokens(
    batch: *mut drnn_stream_batch,
    ids: *const u64,
    ids_len: usize,
    tokens: *const u32,
    tokens_len: usize,
    outputs: *mut f32,
    outputs_len: usize,
    known: *mut u8,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            let ids = values(ids, ids_len, "ids")?;
            let tokens = values(tokens, tokens_len, "tokens")?;
            let known = optional(known, ids_len, "known")?;
            handle(batch, "batch")?.0.with(|live| {
                if tokens_len != ids_len {
                    let why = format!("{tokens_len} tokens, expected {ids_len}");
                    return fail(DRNN_ERROR_SHAPE, why);
                }
                let needed = ids_len.saturating_mul(live.model.spec().output_width());
                let outputs = Buffer::new(outputs, outputs_len, needed, "outputs")?;
                live.step(ids, tokens.iter().map(|token| Element::Token(*token)), outputs, known)
            })
        }
    })
}

/// Ends streams: writes the outputs still due and removes the streams. Those of `ids[i]` go, in order,
/// to `outputs[i * finish_outputs * m]` and following (`finish_outputs` is in `drnn_model_info`);
/// `counts[i]` is how many they are. `outputs_len` is at least ids_len * finish_outputs * m. `counts`, an
/// array of `ids_len`, may be NULL.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_finish(
    batch: *mut drnn_stream_batch,
    ids: *const u64,
    ids_len: usize,
    outputs: *mut f32,
    outputs_len: usize,
    counts: *mut usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            let ids = values(ids, ids_len, "ids")?;
            let counts = optional(counts, ids_len, "counts")?;
            handle(batch, "batch")?.0.with(|live| {
                let spec = live.model.spec();
                let each = finish_outputs(spec).saturating_mul(spec.output_width());
                let needed = ids_len.saturating_mul(each);
                let outputs = Buffer::new(outputs, outputs_len, needed, "outputs")?;
                live.finish(ids, outputs, counts)
            })
        }
    })
}

/// Writes the state of one stream, as `drnn_stream_snapshot` does; a `drnn_stream` reads it too.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_snapshot(
    batch: *mut drnn_stream_batch,
    id: u64,
    bytes: *mut u8,
    bytes_len: usize,
    written: *mut usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and memory of the caller's, checked for NULL.
        unsafe {
            set(written, 0, "written")?;
            let snapshot = handle(batch, "batch")?
                .0
                .with(|live| Ok(live.batch.snapshot(live.ids.get(id)?)?))?;
            Buffer::new(bytes, bytes_len, snapshot.len(), "bytes")?.write(0, &snapshot);
            set(written, snapshot.len(), "written")
        }
    })
}

/// Lets one stream go on from a snapshot, as `drnn_stream_restore` does.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_restore(
    batch: *mut drnn_stream_batch,
    id: u64,
    bytes: *const u8,
    bytes_len: usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and memory of the caller's, checked for NULL.
        unsafe {
            let bytes = values(bytes, bytes_len, "bytes")?;
            handle(batch, "batch")?
                .0
                .with(|live| Ok(live.batch.restore(live.ids.get(id)?, bytes)?))
        }
    })
}

/// Frees a batch and its streams; NULL is allowed.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_batch_free(batch: *mut drnn_stream_batch) {
    // SAFETY: a handle or NULL; the caller gives it up.
    unsafe { free(batch) }
}
