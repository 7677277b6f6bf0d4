//! What is wrong is refused with a code and a message, and changes nothing.

mod common;

use common::*;
use drnn::Padding;
use drnn_c::batch::*;
use drnn_c::model::*;
use drnn_c::run::*;
use drnn_c::status::drnn_status::*;
use drnn_c::stream::*;
use drnn_c::task::*;
use std::ffi::{CStr, CString};
use std::ptr::{self, null, null_mut};

#[test]
fn the_version_is_the_crates() {
    // SAFETY: a static text that ends with NUL.
    let version = unsafe { CStr::from_ptr(drnn_c::status::drnn_version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}

/// A model file at a path, or the error.
fn load(path: &CStr, threads: u32) -> (drnn_c::status::drnn_status, Owned<drnn_model>) {
    let mut model = ptr::dangling_mut();
    // SAFETY: a text that ends with NUL, and a place for a handle.
    let status = unsafe { drnn_model_load(path.as_ptr(), threads, &mut model) };
    (status, Owned(model, drnn_model_free))
}

#[cfg(unix)]
#[test]
fn files_that_are_no_models() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (status, model) = load(c"/nowhere/m.safetensors", 1);
    refused(status, DRNN_ERROR_FILE, "/nowhere/m.safetensors: cannot be read: No such file");
    assert!(model.0.is_null());
    refused(load(c"/", 1).0, DRNN_ERROR_FILE, "folder");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &[u8], bytes: &[u8]| {
        let path = [folder.path().to_str().unwrap().as_bytes(), b"/", name].concat();
        let path = CString::new(path).unwrap();
        std::fs::write(OsStr::from_bytes(path.to_bytes()), bytes).unwrap();
        path
    };
    let text = file(b"text.safetensors", b"these are no weights at all, only words");
    let (status, _) = load(&text, 1);
    refused(status, DRNN_ERROR_FORMAT, "text.safetensors: is not a whole safetensors file");
    // File names need not be UTF-8 where the system does not want it.
    let bytes = dense(1, Padding::Null).to_bytes().unwrap();
    #[cfg(target_os = "linux")]
    ok(load(&file(b"\xff.safetensors", &bytes), 1).0);
    let cut = file(b"cut.safetensors", &bytes[..bytes.len() - 4]);
    refused(load(&cut, 1).0, DRNN_ERROR_FORMAT, "cut.safetensors: ");
    refused(load_bytes(&bytes, 1025).0, DRNN_ERROR_ARGUMENT, "1025 threads");
    refused(load_bytes(&[], 1).0, DRNN_ERROR_FORMAT, "model file");
    ok(load_bytes(&bytes, 3).0);
}

#[test]
fn null_where_something_is_needed() {
    let model = in_c(&dense(1, Padding::Null));
    let (info, stream, batch) = (info(&model), stream(&model), batch(&model));
    let needed = |status| refused(status, DRNN_ERROR_ARGUMENT, "NULL");
    let mut y = [0.0f32; 3];
    let (y, m) = (y.as_mut_ptr(), 3);
    let (mut number, id) = (0, 1);
    // SAFETY: handles, arrays of the sizes stated, and NULL, which is refused.
    unsafe {
        let mut new = null_mut();
        needed(drnn_model_load(null(), 1, &mut new));
        needed(drnn_model_load(c"m".as_ptr(), 1, null_mut()));
        needed(drnn_model_load_bytes(null(), 10, 1, &mut new));
        needed(drnn_model_load_bytes([1u8].as_ptr(), 1, 1, null_mut()));
        needed(drnn_model_get_info(model.0, null_mut(), 8));
        needed(drnn_model_get_info(null(), &mut info.clone(), size_of::<drnn_model_info>()));
        assert!(drnn_model_description(null()).is_null());
        needed(drnn_model_run(model.0, null(), null(), y, m, null()));
        needed(drnn_stream_new(null(), &mut null_mut()));
        needed(drnn_stream_new(model.0, null_mut()));
        needed(drnn_stream_push(null_mut(), [0.0, 0.0].as_ptr(), 2, y, m, null_mut()));
        needed(drnn_stream_push(stream.0, null(), 2, y, m, null_mut()));
        needed(drnn_stream_push(stream.0, [0.0, 0.0].as_ptr(), 2, null_mut(), m, null_mut()));
        needed(drnn_stream_push_tokens(stream.0, null(), 1, y, m, null_mut()));
        needed(drnn_stream_finish(stream.0, null_mut(), m, null_mut()));
        needed(drnn_stream_reset(null_mut()));
        needed(drnn_stream_seen(null(), &mut 0));
        needed(drnn_stream_seen(stream.0, null_mut()));
        needed(drnn_stream_snapshot(stream.0, null_mut(), 1000, &mut number));
        needed(drnn_stream_restore(stream.0, null(), 8));
        needed(drnn_stream_batch_new(model.0, null_mut()));
        needed(drnn_stream_batch_join(batch.0, null_mut()));
        needed(drnn_stream_batch_join(null_mut(), &mut 0));
        needed(drnn_stream_batch_leave(null_mut(), 1));
        let x = [0.0, 0.0].as_ptr();
        needed(drnn_stream_batch_step(batch.0, null(), 1, x, 2, y, m, null_mut()));
        needed(drnn_stream_batch_step(batch.0, &id, 1, null(), 2, y, m, null_mut()));
        needed(drnn_stream_batch_step(batch.0, &id, 1, x, 2, null_mut(), m, null_mut()));
        needed(drnn_stream_batch_step_tokens(batch.0, &id, 1, null(), 1, y, m, null_mut()));
        needed(drnn_stream_batch_finish(batch.0, null(), 1, y, m, null_mut()));
        needed(drnn_stream_batch_restore(null_mut(), 1, [0u8].as_ptr(), 1));
        needed(drnn_task_stream_new(model.0, null_mut()));
        needed(drnn_task_stream_push(null_mut(), c"1 2".as_ptr(), &mut null()));
        needed(drnn_task_stream_finish(null_mut(), &mut null()));
        // Nothing to free.
        drnn_model_free(null_mut());
        drnn_stream_free(null_mut());
        drnn_stream_batch_free(null_mut());
        drnn_task_stream_free(null_mut());
    }
    assert_eq!(seen(&stream), 0);
}

#[test]
fn elements_and_buffers_of_streams() {
    let model = in_c(&dense(1, Padding::Null));
    let (info, stream) = (info(&model), stream(&model));
    ok(push(&stream, 3, &[0.1, 0.2], 1).0);
    let before = snapshot(&stream, &info);
    refused(push(&stream, 3, &[0.1, 0.2, 0.3], 2).0, DRNN_ERROR_SHAPE, "3 floats, expected 2");
    refused(push(&stream, 3, &[0.1, f32::NAN], 1).0, DRNN_ERROR_VALUE, "NaN at position 1");
    refused(push(&stream, 3, &[f32::INFINITY, 1.0], 1).0, DRNN_ERROR_VALUE, "inf");
    refused(push(&stream, 2, &[0.1, 0.2], 1).0, DRNN_ERROR_BUFFER, "at least 3 are needed");
    refused(push_tokens(&stream, 3, &[1]).0, DRNN_ERROR_UNSUPPORTED, "vectors of 2 values");
    let mut small = [0u8; 20];
    // SAFETY: a stream, and an array of this size.
    let status = unsafe { drnn_stream_snapshot(stream.0, small.as_mut_ptr(), 20, null_mut()) };
    refused(status, DRNN_ERROR_BUFFER, "`bytes` has 20 elements");
    // SAFETY: a stream; there is no array.
    let status = unsafe { drnn_stream_finish(stream.0, null_mut(), 0, null_mut()) };
    refused(status, DRNN_ERROR_BUFFER, "`outputs` has 0 elements, at least 3");
    let odd = [0u8; 16];
    let at = odd.as_ptr() as usize;
    let odd = odd.as_ptr().wrapping_add(4 - at % 4 + 1).cast::<f32>();
    // SAFETY: within the array, and refused before it is read.
    let status = unsafe { drnn_stream_push(stream.0, odd, 2, null_mut(), 0, null_mut()) };
    refused(status, DRNN_ERROR_ARGUMENT, "`x` is not aligned to 4 bytes");
    // None of them was read.
    assert_eq!(snapshot(&stream, &info), before);

    // Of several, those before the one that is refused.
    let (status, found) = push(&stream, 3, &[0.3, 0.4, 0.5, 0.6, f32::NAN, 0.0, 0.7, 0.8], 4);
    refused(status, DRNN_ERROR_VALUE, "NaN");
    assert_eq!((found.len(), seen(&stream)), (2 * 3, 3));

    // Snapshots that are not.
    let restore = |bytes: &[u8]| {
        // SAFETY: a stream, and that many bytes.
        unsafe { drnn_stream_restore(stream.0, bytes.as_ptr(), bytes.len()) }
    };
    let now = snapshot(&stream, &info);
    refused(restore(b""), DRNN_ERROR_SNAPSHOT, "not a snapshot");
    refused(restore(&before[..before.len() - 1]), DRNN_ERROR_SNAPSHOT, "bytes");
    let mut damaged = before.clone();
    damaged[30] ^= 1;
    refused(restore(&damaged), DRNN_ERROR_SNAPSHOT, "damaged");
    let other = in_c(&dense(2, Padding::Null));
    let foreign = snapshot(&common::stream(&other), &common::info(&other));
    refused(restore(&foreign), DRNN_ERROR_SNAPSHOT, "another network");
    assert_eq!(snapshot(&stream, &info), now);
    ok(restore(&before));
}

#[test]
fn tokens_of_streams() {
    let model = in_c(&tokens());
    let stream = stream(&model);
    refused(push_tokens(&stream, 4, &[6]).0, DRNN_ERROR_VALUE, "token 6");
    refused(push(&stream, 4, &[0.5], 1).0, DRNN_ERROR_UNSUPPORTED, "tokens below 6");
    refused(push(&stream, 4, &[], 1).0, DRNN_ERROR_UNSUPPORTED, "tokens below 6");
    assert_eq!(seen(&stream), 0);
}

#[test]
fn whole_sequences() {
    let model = in_c(&dense(1, Padding::Null));
    let x = [0.5f32; 12];
    let right = drnn_sequences {
        x: x.as_ptr(),
        x_len: 12,
        tokens: null(),
        tokens_len: 0,
        steps: 3,
        rows: 2,
        lengths: null(),
        batch_first: 0,
    };
    let mut y = [7.0f32; 18];
    let mut run = |sequences: drnn_sequences, len: usize| {
        // SAFETY: a model, and arrays of the sizes stated.
        unsafe { drnn_model_run(model.0, &sequences, null(), y.as_mut_ptr(), len, null()) }
    };
    refused(run(drnn_sequences { x_len: 11, ..right }, 18), DRNN_ERROR_SHAPE, "`x` has 11 values");
    refused(run(drnn_sequences { steps: 4, ..right }, 18), DRNN_ERROR_BUFFER, "at least 24");
    refused(run(right, 17), DRNN_ERROR_BUFFER, "`outputs` has 17 elements");
    let lengths = [2usize, 4];
    let long = drnn_sequences { lengths: lengths.as_ptr(), ..right };
    refused(run(long, 18), DRNN_ERROR_SHAPE, "length 4 of sequence 1");
    let token = [1u32; 6];
    let both = drnn_sequences { tokens: token.as_ptr(), tokens_len: 6, ..right };
    refused(run(both, 18), DRNN_ERROR_ARGUMENT, "both `x` and `tokens`");
    let wrong = drnn_sequences { x: null(), x_len: 0, ..both };
    refused(run(wrong, 18), DRNN_ERROR_UNSUPPORTED, "vectors of 2 values");
    let none = drnn_sequences { x: null(), ..right };
    refused(run(none, 18), DRNN_ERROR_ARGUMENT, "`x` is NULL");
    let endless = drnn_sequences { steps: usize::MAX / 2, rows: 9, ..right };
    refused(run(endless, 18), DRNN_ERROR_MEMORY, "addressed");
    let nan = [f32::NAN; 12];
    refused(run(drnn_sequences { x: nan.as_ptr(), ..right }, 18), DRNN_ERROR_VALUE, "NaN");
    let mut short = [0.0f32; 17];
    let states = drnn_states { h: short.as_mut_ptr(), h_len: 17, c: short.as_mut_ptr(), c_len: 17 };
    let to = y.as_mut_ptr();
    // SAFETY: a model, and arrays of the sizes stated.
    unsafe {
        let status = drnn_model_run(model.0, &right, &states, to, 18, null());
        refused(status, DRNN_ERROR_SHAPE, "`start.h` has 17 values");
        let status = drnn_model_run(model.0, &right, null(), to, 18, &states);
        refused(status, DRNN_ERROR_BUFFER, "`last.h` has 17 elements, at least 18");
    }
    assert_eq!(y, [7.0; 18], "nothing was written");
}

#[test]
fn streams_of_a_batch() {
    let model = in_c(&dense(1, Padding::Null));
    let (batch, other) = (batch(&model), batch(&model));
    let mut ids = [0; 3];
    // SAFETY: batches, and places for numbers.
    unsafe {
        ids[..2].iter_mut().for_each(|id| ok(drnn_stream_batch_join(batch.0, id)));
        // Another batch may use the same numbers; so it has one stream more.
        let mut joined = [0; 3];
        joined.iter_mut().for_each(|id| ok(drnn_stream_batch_join(other.0, id)));
        ids[2] = joined[2];
    }
    let (x, mut y, mut known) = ([0.5f32; 6], [7.0f32; 9], [9u8; 3]);
    let mut step = |ids: &[u64], x: &[f32], len: usize| {
        let (y, known) = (y.as_mut_ptr(), known.as_mut_ptr());
        // SAFETY: a batch, and arrays of the sizes stated.
        unsafe {
            drnn_stream_batch_step(
                batch.0,
                ids.as_ptr(),
                ids.len(),
                x.as_ptr(),
                x.len(),
                y,
                len,
                known,
            )
        }
    };
    refused(step(&ids, &x, 9), DRNN_ERROR_STREAM_ID, "names no stream here");
    refused(step(&[ids[0], 0], &x[..4], 9), DRNN_ERROR_STREAM_ID, "0 names no stream");
    refused(step(&[u64::MAX], &x[..2], 9), DRNN_ERROR_STREAM_ID, "names no stream");
    refused(step(&[ids[0], ids[0]], &x[..4], 9), DRNN_ERROR_STREAM_ID, "twice");
    refused(step(&ids[..2], &x, 9), DRNN_ERROR_SHAPE, "6 floats, expected 2 for each of 2");
    refused(step(&ids[..2], &x[..4], 5), DRNN_ERROR_BUFFER, "at least 6");
    refused(step(&ids[..2], &[0.1, 0.2, 0.3, f32::NAN], 9), DRNN_ERROR_VALUE, "NaN");
    assert_eq!((y, known), ([7.0; 9], [9; 3]), "nothing was written");
    // SAFETY: a batch, and arrays of the sizes stated.
    unsafe {
        let (to, none) = (y.as_mut_ptr(), null_mut());
        let (tokens, two) = ([1u32, 2], ids.as_ptr());
        let status =
            drnn_stream_batch_step_tokens(batch.0, two, 2, tokens.as_ptr(), 2, to, 9, none);
        refused(status, DRNN_ERROR_UNSUPPORTED, "vectors of 2 values");
        let status =
            drnn_stream_batch_step_tokens(batch.0, two, 2, tokens.as_ptr(), 1, to, 9, none);
        refused(status, DRNN_ERROR_SHAPE, "1 tokens, expected 2");
        let status = drnn_stream_batch_finish(batch.0, two, 2, to, 5, null_mut());
        refused(status, DRNN_ERROR_BUFFER, "at least 6");
        let twice = [ids[0], ids[0]];
        let status = drnn_stream_batch_finish(batch.0, twice.as_ptr(), 2, to, 9, null_mut());
        refused(status, DRNN_ERROR_STREAM_ID, "twice");
        let status = drnn_stream_batch_restore(batch.0, ids[0], [1u8].as_ptr(), 1);
        refused(status, DRNN_ERROR_SNAPSHOT, "not a snapshot");
        // Nothing has moved: nothing is due.
        let mut counts = [9; 2];
        ok(drnn_stream_batch_finish(batch.0, two, 2, to, 6, counts.as_mut_ptr()));
        assert_eq!(counts, [0, 0]);
    }
}

#[test]
fn what_a_model_cannot_do() {
    let model = in_c(&bidirectional());
    let info = info(&model);
    assert_eq!((info.streams, info.snapshot_size), (0, 0));
    // SAFETY: models, and places for handles.
    unsafe {
        let mut stream = ptr::dangling_mut();
        let status = drnn_stream_new(model.0, &mut stream);
        refused(status, DRNN_ERROR_UNSUPPORTED, "bidirectional");
        assert!(stream.is_null());
        let mut batch = ptr::dangling_mut();
        refused(
            drnn_stream_batch_new(model.0, &mut batch),
            DRNN_ERROR_UNSUPPORTED,
            "bidirectional",
        );
        assert!(batch.is_null());
        let mut task = ptr::dangling_mut();
        refused(drnn_task_stream_new(model.0, &mut task), DRNN_ERROR_UNSUPPORTED, "bidirectional");
        assert!(task.is_null());
    }
    let bytes = std::fs::read(repository("crates/drnn-cli/models/tagger-en.safetensors")).unwrap();
    let (status, tagger) = load_bytes(&bytes, 1);
    ok(status);
    let found = common::info(&tagger);
    assert_eq!((found.network, found.streams, found.inputs), (0, 1, 0));
    let mut stream = null_mut();
    // SAFETY: a model, and a place for a handle.
    let status = unsafe { drnn_stream_new(tagger.0, &mut stream) };
    refused(status, DRNN_ERROR_UNSUPPORTED, "drnn_task_stream_new");
}

#[test]
fn two_threads_with_one_stream_lose_nothing() {
    let model = in_c(&dense(0, Padding::Null));
    let stream = stream(&model);
    let address = stream.0 as usize;
    let read: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let shared = ptr::with_exposed_provenance_mut(address);
                    let (x, mut y, mut read) = ([0.1f32, 0.2], [0.0f32; 3], 0);
                    for _ in 0..2000 {
                        let (x, y) = (x.as_ptr(), y.as_mut_ptr());
                        // SAFETY: a stream, and arrays of the sizes stated.
                        match unsafe { drnn_stream_push(shared, x, 2, y, 3, null_mut()) } {
                            DRNN_OK => read += 1,
                            status => refused(status, DRNN_ERROR_BUSY, "another thread"),
                        }
                    }
                    read
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(seen(&stream), read);
}
