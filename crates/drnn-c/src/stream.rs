//! One live sequence.

use crate::exclusive::{Exclusive, free, handle};
use crate::memory::{Buffer, set, set_required, values};
use crate::model::{drnn_model, finish_outputs};
use crate::status::drnn_status::DRNN_ERROR_SHAPE;
use crate::status::{Result, drnn_status, fail, guard};
use drnn::{Element, InputSpec, Model, Stream};
use std::sync::Arc;

/// One live sequence of a model. One thread may use it at a time.
pub struct drnn_stream(Exclusive<Live>);

struct Live {
    stream: Stream<Arc<Model>>,
    /// q, or 0 for tokens.
    inputs: usize,
    /// m.
    outputs: usize,
    finish_outputs: usize,
}

impl Live {
    fn new(model: &Arc<Model>) -> Result<Live> {
        let (stream, spec) = (Stream::new(model.clone())?, model.spec());
        let inputs = match spec.input() {
            InputSpec::Dense(q) => q,
            InputSpec::Tokens { .. } => 0,
        };
        let (outputs, finish_outputs) = (spec.output_width(), finish_outputs(spec));
        Ok(Live { stream, inputs, outputs, finish_outputs })
    }

    /// Reads elements, and writes the outputs that are known by them.
    #[inline]
    fn push<'a>(
        &mut self,
        elements: impl Iterator<Item = Element<'a>>,
        outputs: Buffer<f32>,
        count: &mut usize,
    ) -> Result<()> {
        for element in elements {
            if let Some(output) = self.stream.push(element)? {
                outputs.write(*count * self.outputs, output);
                *count += 1;
            }
        }
        Ok(())
    }
}

/// Begins a live sequence. On success `*stream` is a handle for `drnn_stream_free`; on failure it is
/// NULL. A bidirectional network cannot stream.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_new(
    model: *const drnn_model,
    stream: *mut *mut drnn_stream,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and the caller's place for one.
        unsafe {
            set_required(stream, std::ptr::null_mut(), "stream")?;
            let live = Live::new(handle(model, "model")?.network()?)?;
            let new = Box::new(drnn_stream(Exclusive::new(live)));
            set_required(stream, Box::into_raw(new), "stream")
        }
    })
}

/// Reads the next element, or several: `x` are k vectors of q floats, `x_len` is k * q. Writes the
/// outputs that are known by them, one after another, to `outputs`, which has at least k * m floats.
/// `*count`, unless `count` is NULL, is how many were written: for one element 0 or 1, and 0 for the
/// first d elements.
///
/// An element that is refused changes nothing; those before it have been read, and `*count` outputs
/// written.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_push(
    stream: *mut drnn_stream,
    x: *const f32,
    x_len: usize,
    outputs: *mut f32,
    outputs_len: usize,
    count: *mut usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            set(count, 0, "count")?;
            let x = values(x, x_len, "x")?;
            handle(stream, "stream")?.0.with(|live| {
                let q = live.inputs;
                let elements = match q {
                    _ if x_len == q => 1,
                    0 => 1, // of a network that reads tokens, which refuses it
                    _ if x_len.is_multiple_of(q) => x_len / q,
                    _ => return wrong_length(x_len, q),
                };
                let needed = elements.saturating_mul(live.outputs);
                let outputs = Buffer::new(outputs, outputs_len, needed, "outputs")?;
                let mut written = 0;
                let pushed = match elements {
                    // By far the most frequent.
                    1 => live.push(std::iter::once(Element::Dense(x)), outputs, &mut written),
                    _ => live.push(x.chunks_exact(q).map(Element::Dense), outputs, &mut written),
                };
                set(count, written, "count")?;
                pushed
            })
        }
    })
}

#[cold]
fn wrong_length(x_len: usize, q: usize) -> Result<()> {
    fail(DRNN_ERROR_SHAPE, format!("`x` has {x_len} floats, expected {q} for each element"))
}

/// The same for a network that reads tokens: k tokens.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_push_tokens(
    stream: *mut drnn_stream,
    tokens: *const u32,
    tokens_len: usize,
    outputs: *mut f32,
    outputs_len: usize,
    count: *mut usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            set(count, 0, "count")?;
            let tokens = values(tokens, tokens_len, "tokens")?;
            handle(stream, "stream")?.0.with(|live| {
                let needed = tokens_len.saturating_mul(live.outputs);
                let outputs = Buffer::new(outputs, outputs_len, needed, "outputs")?;
                let mut written = 0;
                let elements = tokens.iter().map(|token| Element::Token(*token));
                let pushed = live.push(elements, outputs, &mut written);
                set(count, written, "count")?;
                pushed
            })
        }
    })
}

/// Ends the sequence: writes the outputs still due, in order, and begins a new sequence. `outputs` has
/// at least `finish_outputs` * m floats (see `drnn_model_info`), whatever is due; `*count`, unless
/// `count` is NULL, is how many outputs were written.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_finish(
    stream: *mut drnn_stream,
    outputs: *mut f32,
    outputs_len: usize,
    count: *mut usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle and arrays of the caller's, each checked for NULL and alignment.
        unsafe {
            set(count, 0, "count")?;
            handle(stream, "stream")?.0.with(|live| {
                let needed = live.finish_outputs.saturating_mul(live.outputs);
                let outputs = Buffer::new(outputs, outputs_len, needed, "outputs")?;
                let rest = live.stream.finish();
                for (at, output) in rest.iter().enumerate() {
                    outputs.write(at * live.outputs, output);
                }
                set(count, rest.len(), "count")
            })
        }
    })
}

/// Begins a new sequence, without the outputs still due.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_reset(stream: *mut drnn_stream) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL.
        unsafe { handle(stream, "stream")? }.0.with(|live| {
            live.stream.reset();
            Ok(())
        })
    })
}

/// The number of elements read since the sequence began; a snapshot has it too.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_seen(
    stream: *const drnn_stream,
    seen: *mut u64,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and the caller's place for a number.
        unsafe {
            handle(stream, "stream")?.0.with(|live| set_required(seen, live.stream.seen(), "seen"))
        }
    })
}

/// Writes the stream's state to `bytes`, which has at least `snapshot_size` bytes (see
/// `drnn_model_info`); `*written`, unless `written` is NULL, is how many it took. Any stream of the same
/// model goes on from there, also in another process or on another machine; the Rust and Python
/// libraries read it too.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_snapshot(
    stream: *mut drnn_stream,
    bytes: *mut u8,
    bytes_len: usize,
    written: *mut usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and memory of the caller's, checked for NULL.
        unsafe {
            set(written, 0, "written")?;
            let snapshot = handle(stream, "stream")?.0.with(|live| Ok(live.stream.snapshot()))?;
            Buffer::new(bytes, bytes_len, snapshot.len(), "bytes")?.write(0, &snapshot);
            set(written, snapshot.len(), "written")
        }
    })
}

/// Goes on from a snapshot. Bytes of another network, or damaged ones, are refused, and nothing changes.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_restore(
    stream: *mut drnn_stream,
    bytes: *const u8,
    bytes_len: usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL, and memory of the caller's, checked for NULL.
        unsafe {
            let bytes = values(bytes, bytes_len, "bytes")?;
            handle(stream, "stream")?.0.with(|live| Ok(live.stream.restore(bytes)?))
        }
    })
}

/// Frees a stream; NULL is allowed.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_stream_free(stream: *mut drnn_stream) {
    // SAFETY: a handle or NULL; the caller gives it up.
    unsafe { free(stream) }
}
