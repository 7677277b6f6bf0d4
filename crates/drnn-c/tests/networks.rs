//! Networks through the C interface give the numbers that Rust gives, to the bit.

mod common;

use common::*;
use drnn::random::Rng;
use drnn::{Batch, BatchFirst, InputSpec, Model, Outputs, Rows, States, Steps, Stream};
use drnn_c::batch::*;
use drnn_c::model::*;
use drnn_c::run::*;
use drnn_c::stream::*;
use std::ffi::{CStr, CString};
use std::ptr;

/// Elements for T steps of B sequences; one of the two has them.
fn elements(model: &Model, count: usize, rng: &mut Rng) -> (Vec<f32>, Vec<u32>) {
    match model.spec().input() {
        InputSpec::Dense(q) => ((0..count * q).map(|_| rng.symmetric(1.0)).collect(), vec![]),
        InputSpec::Tokens { symbols, .. } => {
            (vec![], (0..count).map(|_| rng.below(symbols) as u32).collect())
        }
    }
}

fn states(h: &mut [f32], c: &mut [f32]) -> drnn_states {
    drnn_states { h: h.as_mut_ptr(), h_len: h.len(), c: c.as_mut_ptr(), c_len: c.len() }
}

/// The run that C should repeat.
fn in_rust(
    model: &Model,
    (x, tokens): (&[f32], &[u32]),
    (steps, rows): (Steps, Rows),
    batch_first: bool,
    lengths: &[usize],
    start: &States,
) -> Outputs {
    let dense = matches!(model.spec().input(), InputSpec::Dense(_));
    let owned;
    let batch = match (batch_first, dense) {
        (false, true) => Batch::dense(x, steps, rows),
        (false, false) => Batch::tokens(tokens, steps, rows),
        (true, true) => {
            owned = BatchFirst::dense(x, rows, steps).unwrap();
            owned.batch()
        }
        (true, false) => {
            owned = BatchFirst::tokens(tokens, rows, steps).unwrap();
            owned.batch()
        }
    };
    model.run(&batch.lengths(lengths), Some(start)).unwrap()
}

#[test]
fn whole_sequences_of_all_networks() {
    let mut rng = Rng::new(1);
    for model in networks() {
        let (spec, handle) = (model.spec(), in_c(&model));
        let info = info(&handle);
        for (steps, rows, batch_first) in
            [(6, 3, false), (5, 2, true), (1, 1, false), (0, 2, false)]
        {
            let (x, tokens) = elements(&model, steps * rows, &mut rng);
            let lengths: Vec<usize> = (0..rows).map(|row| steps.saturating_sub(row)).collect();
            let mut h: Vec<f32> = (0..info.h_width * rows).map(|_| rng.symmetric(0.5)).collect();
            let mut c: Vec<f32> = (0..info.c_width * rows).map(|_| rng.symmetric(0.5)).collect();
            let start = States { h: h.clone(), c: c.clone() };
            let shape = (Steps(steps), Rows(rows));
            let expected = in_rust(&model, (&x, &tokens), shape, batch_first, &lengths, &start);
            let sequences = drnn_sequences {
                x: if info.inputs > 0 { x.as_ptr() } else { ptr::null() },
                x_len: x.len(),
                tokens: if info.symbols > 0 { tokens.as_ptr() } else { ptr::null() },
                tokens_len: tokens.len(),
                steps,
                rows,
                lengths: lengths.as_ptr(),
                batch_first: batch_first.into(),
            };
            let mut outputs = vec![f32::NAN; expected.values.len()];
            assert_eq!(outputs.len(), steps.saturating_sub(info.look_ahead) * rows * info.outputs);
            // States are updated where they are.
            let both = states(&mut h, &mut c);
            let (y, len) = (outputs.as_mut_ptr(), outputs.len());
            // SAFETY: a model, and arrays of the sizes stated.
            ok(unsafe { drnn_model_run(handle.0, &sequences, &both, y, len, &both) });
            let values =
                if batch_first { expected.to_batch_first() } else { expected.values.clone() };
            assert_eq!(outputs, values, "{spec}");
            assert_eq!((h, c), (expected.last.h, expected.last.c), "{spec}");
        }
    }
}

/// All outputs of one sequence, by Rust.
fn expected(model: &Model, x: &[f32], tokens: &[u32]) -> Vec<f32> {
    let batch = match model.spec().input() {
        InputSpec::Dense(q) => Batch::dense(x, Steps(x.len() / q), Rows(1)),
        InputSpec::Tokens { .. } => Batch::tokens(tokens, Steps(tokens.len()), Rows(1)),
    };
    model.run(&batch, None).unwrap().values
}

#[test]
fn streams_of_all_networks() {
    let mut rng = Rng::new(2);
    for model in networks().into_iter().filter(|model| Stream::new(model).is_ok()) {
        let handle = in_c(&model);
        let info = info(&handle);
        let (first, second) = (stream(&handle), stream(&handle));
        // Streams outlive their model.
        drop(handle);
        let (m, q, spec) = (info.outputs, info.inputs, model.spec());
        for steps in [1, 2, 7, 12] {
            let (x, tokens) = elements(&model, steps, &mut rng);
            let mut found = Vec::new();
            for t in 0..steps {
                let (status, outputs) = match q {
                    0 => push_tokens(&first, m, &tokens[t..t + 1]),
                    q => push(&first, m, &x[t * q..][..q], 1),
                };
                ok(status);
                found.extend(outputs);
                if t == steps / 2 {
                    // Break off, go on elsewhere.
                    let bytes = snapshot(&first, &info);
                    // SAFETY: streams, and that many bytes.
                    ok(unsafe { drnn_stream_reset(first.0) });
                    assert_eq!(seen(&first), 0);
                    assert_eq!(seen(stream_from(&second, &bytes)), t as u64 + 1);
                    // SAFETY: as above.
                    ok(unsafe { drnn_stream_restore(first.0, bytes.as_ptr(), bytes.len()) });
                }
            }
            found.extend(finish(&first, &info));
            assert_eq!(found, expected(&model, &x, &tokens), "{spec}, {steps} steps");
            assert_eq!((seen(&first), finish(&first, &info)), (0, vec![]));

            // The same, all at once.
            let (status, mut found) = match q {
                0 => push_tokens(&first, m, &tokens),
                _ => push(&first, m, &x, steps),
            };
            ok(status);
            assert_eq!(found.len(), steps.saturating_sub(info.delay) * m);
            found.extend(finish(&first, &info));
            assert_eq!(found, expected(&model, &x, &tokens), "{spec}, {steps} steps at once");
        }
    }
}

fn stream_from<'a>(stream: &'a Owned<drnn_stream>, bytes: &[u8]) -> &'a Owned<drnn_stream> {
    // SAFETY: a stream, and that many bytes.
    ok(unsafe { drnn_stream_restore(stream.0, bytes.as_ptr(), bytes.len()) });
    stream
}

/// A stream of a batch, what it has read, and its outputs so far.
struct Member {
    id: u64,
    x: Vec<f32>,
    tokens: Vec<u32>,
    outputs: Vec<f32>,
}

#[test]
fn batches_whose_streams_come_and_go() {
    let mut rng = Rng::new(3);
    for model in networks().into_iter().filter(|model| Stream::new(model).is_ok()) {
        let handle = in_c(&model);
        let info = info(&handle);
        let batch = batch(&handle);
        drop(handle);
        let m = info.outputs;
        let mut live: Vec<Member> = Vec::new();
        for round in 0..40 {
            if live.len() < 5 && rng.below(2) == 0 {
                let mut id = 0;
                // SAFETY: a batch, and a place for a number.
                ok(unsafe { drnn_stream_batch_join(batch.0, &mut id) });
                assert!(id != 0 && live.iter().all(|member| member.id != id));
                live.push(Member { id, x: vec![], tokens: vec![], outputs: vec![] });
            }
            let stepped: Vec<usize> = (0..live.len()).filter(|_| rng.below(3) > 0).collect();
            let ids: Vec<u64> = stepped.iter().map(|at| live[*at].id).collect();
            let (x, tokens) = elements(&model, ids.len(), &mut rng);
            let mut outputs = vec![f32::NAN; ids.len() * m];
            let mut known = vec![9; ids.len()];
            let (y, len, is) = (outputs.as_mut_ptr(), outputs.len(), known.as_mut_ptr());
            // SAFETY: a batch, and arrays of the sizes stated.
            ok(unsafe {
                match info.inputs {
                    0 => drnn_stream_batch_step_tokens(
                        batch.0,
                        ids.as_ptr(),
                        ids.len(),
                        tokens.as_ptr(),
                        tokens.len(),
                        y,
                        len,
                        is,
                    ),
                    _ => drnn_stream_batch_step(
                        batch.0,
                        ids.as_ptr(),
                        ids.len(),
                        x.as_ptr(),
                        x.len(),
                        y,
                        len,
                        is,
                    ),
                }
            });
            for (row, at) in stepped.iter().enumerate() {
                let member = &mut live[*at];
                member.x.extend(x.get(row * info.inputs..(row + 1) * info.inputs).unwrap_or(&[]));
                member.tokens.extend(tokens.get(row));
                match known[row] {
                    1 => member.outputs.extend(&outputs[row * m..][..m]),
                    known => assert_eq!((known, outputs[row * m].is_nan()), (0, true)),
                }
            }
            if round % 7 == 6 || round == 39 {
                end(&model, &batch, &info, &mut live, &mut rng);
            }
        }
    }
}

/// Some leave, the others end, and have all outputs of their sequences.
fn end(
    model: &Model,
    batch: &Owned<drnn_stream_batch>,
    info: &drnn_model_info,
    live: &mut Vec<Member>,
    rng: &mut Rng,
) {
    if live.len() > 3 {
        let gone = live.swap_remove(rng.below(live.len()));
        // SAFETY: a batch.
        ok(unsafe { drnn_stream_batch_leave(batch.0, gone.id) });
        // SAFETY: as above.
        let again = unsafe { drnn_stream_batch_leave(batch.0, gone.id) };
        assert_eq!(again, drnn_c::status::drnn_status::DRNN_ERROR_STREAM_ID);
    }
    let ids: Vec<u64> = live.iter().map(|member| member.id).collect();
    let each = info.finish_outputs * info.outputs;
    let (mut outputs, mut counts) = (vec![f32::NAN; ids.len() * each], vec![9; ids.len()]);
    let (y, len) = (outputs.as_mut_ptr(), outputs.len());
    // SAFETY: a batch, and arrays of the sizes stated.
    ok(unsafe {
        drnn_stream_batch_finish(batch.0, ids.as_ptr(), ids.len(), y, len, counts.as_mut_ptr())
    });
    for (row, member) in live.drain(..).enumerate() {
        let mut found = member.outputs;
        found.extend(&outputs[row * each..][..counts[row] * info.outputs]);
        assert_eq!(found, expected(model, &member.x, &member.tokens), "{}", model.spec());
    }
}

#[test]
fn snapshots_go_from_a_batch_to_a_stream_and_to_rust() {
    let model = dense(3, drnn::Padding::Null);
    let handle = in_c(&model);
    let (info, batch, single) = (info(&handle), batch(&handle), stream(&handle));
    let x = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
    let mut rust = Stream::new(&model).unwrap();
    let (mut id, mut written) = (0, 0);
    let mut bytes = vec![0; info.snapshot_size + 3];
    // SAFETY: a batch, and arrays of the sizes stated.
    unsafe {
        ok(drnn_stream_batch_join(batch.0, &mut id));
        let mut y = [0.0; 3];
        let (to, known) = (y.as_mut_ptr(), ptr::null_mut());
        ok(drnn_stream_batch_step(batch.0, &id, 1, x.as_ptr(), 2, to, 3, known));
        let (to, len) = (bytes.as_mut_ptr(), bytes.len());
        ok(drnn_stream_batch_snapshot(batch.0, id, to, len, &mut written));
    }
    bytes.truncate(written);
    rust.push(&[0.1, 0.2]).unwrap();
    assert_eq!(rust.snapshot(), bytes);
    let (status, found) = push(stream_from(&single, &bytes), 3, &x[2..], 3);
    ok(status);
    let mut expected = Vec::new();
    for x in x[2..].chunks(2) {
        expected.extend_from_slice(rust.push(x).unwrap().unwrap_or_default());
    }
    assert_eq!(found, expected);
    // And back into the batch.
    let bytes = rust.snapshot();
    // SAFETY: a batch, and that many bytes.
    ok(unsafe { drnn_stream_batch_restore(batch.0, id, bytes.as_ptr(), bytes.len()) });
}

#[test]
fn what_a_model_is() {
    let model = dense(3, drnn::Padding::Null);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    model.save(&path).unwrap();
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let mut handle = ptr::null_mut();
    // SAFETY: a text that ends with NUL, and a place for a handle.
    ok(unsafe { drnn_model_load(path.as_ptr(), 0, &mut handle) });
    let handle = Owned(handle, drnn_model_free);
    let found = info(&handle);
    assert_eq!((found.network, found.streams), (1, 1));
    assert_eq!((found.inputs, found.symbols, found.outputs), (2, 0, 3));
    assert_eq!((found.delay, found.look_ahead, found.finish_outputs), (3, 0, 3));
    assert_eq!((found.h_width, found.c_width), (9, 9));
    assert_eq!(found.parameters, model.params().len() as u64);
    assert_eq!(found.fingerprint, model.fingerprint());
    // SAFETY: a model, whose text ends with NUL.
    let text = unsafe { CStr::from_ptr(drnn_model_description(handle.0)) };
    let text = text.to_str().unwrap();
    assert!(text.contains("dlstm(9 units, delay 3)"), "{text}");

    // A program with an older header, and one with a newer.
    let mut words = [u64::MAX; 40];
    for (size, known) in [(8, 8), (size_of::<drnn_model_info>() + 8, size_of::<drnn_model_info>())]
    {
        words.fill(u64::MAX);
        // SAFETY: a model, and memory of that size.
        ok(unsafe { drnn_model_get_info(handle.0, words.as_mut_ptr().cast(), size) });
        assert_eq!(words[0], 1 << 32 | 1);
        assert!(words[known / 8..size / 8].iter().all(|word| *word == 0));
        assert!(words[size / 8..].iter().all(|word| *word == u64::MAX));
    }
}

#[test]
fn files_of_other_programs() {
    for name in ["pt_lstm.pt", "onnx_torch_lstm.onnx", "lstm_f16.safetensors"] {
        let bytes = std::fs::read(repository("crates/drnn/tests/golden").join(name)).unwrap();
        let (status, handle) = load_bytes(&bytes, 1);
        ok(status);
        assert_eq!(info(&handle).network, 1, "{name}");
    }
}

#[test]
fn a_model_runs_on_many_threads_at_once() {
    let model = dense(2, drnn::Padding::Null);
    let handle = in_c(&model);
    let x: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin()).collect();
    let expected = expected(&model, &x, &[]);
    // The handle is the same for all; C needs no more either.
    let address = handle.0 as usize;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let model = ptr::with_exposed_provenance::<drnn_model>(address);
                let sequences = drnn_sequences {
                    x: x.as_ptr(),
                    x_len: x.len(),
                    tokens: ptr::null(),
                    tokens_len: 0,
                    steps: 20,
                    rows: 1,
                    lengths: ptr::null(),
                    batch_first: 0,
                };
                for _ in 0..50 {
                    let mut y = vec![0.0; 60];
                    let (start, to) = (ptr::null(), y.as_mut_ptr());
                    // SAFETY: a model, and arrays of the sizes stated.
                    ok(unsafe { drnn_model_run(model, &sequences, start, to, 60, start) });
                    assert_eq!(y, expected);
                }
            });
        }
    });
}
