//! The C interface as a C program calls it, and models to call it with.
#![allow(dead_code, reason = "each test uses some of it")]

use drnn::{Cell, Model, NetSpec, NetSpecBuilder, Padding};
use drnn_c::batch::*;
use drnn_c::model::*;
use drnn_c::status::drnn_status::DRNN_OK;
use drnn_c::status::*;
use drnn_c::stream::*;
use std::ffi::CStr;
use std::path::PathBuf;
use std::ptr;

/// The message of the last error.
pub fn message() -> String {
    // SAFETY: a text that ends with NUL, valid until this thread's next error.
    unsafe { CStr::from_ptr(drnn_last_error()) }.to_str().unwrap().into()
}

/// Fails with the message unless a call succeeded.
#[track_caller]
pub fn ok(status: drnn_status) {
    assert_eq!(status, DRNN_OK, "{}", message());
}

/// Fails unless a call has returned this error, with this in its message.
#[track_caller]
pub fn refused(status: drnn_status, expected: drnn_status, words: &str) {
    assert_eq!(status, expected, "{}", message());
    assert!(message().contains(words), "`{}` has no `{words}`", message());
}

/// A handle of the interface, freed at the end.
pub struct Owned<T>(pub *mut T, pub unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: a handle that nobody else frees, or NULL.
        unsafe { (self.1)(self.0) }
    }
}

pub fn load_bytes(bytes: &[u8], threads: u32) -> (drnn_status, Owned<drnn_model>) {
    let mut model = ptr::dangling_mut();
    // SAFETY: that many bytes, and a place for a handle.
    let status = unsafe { drnn_model_load_bytes(bytes.as_ptr(), bytes.len(), threads, &mut model) };
    (status, Owned(model, drnn_model_free))
}

/// A model as C has it: through its file.
pub fn in_c(model: &Model) -> Owned<drnn_model> {
    let (status, handle) = load_bytes(&model.to_bytes().unwrap(), 1);
    ok(status);
    handle
}

pub fn info(model: &Owned<drnn_model>) -> drnn_model_info {
    let mut info = drnn_model_info::default();
    // SAFETY: a model, and memory of that size.
    ok(unsafe { drnn_model_get_info(model.0, &mut info, size_of::<drnn_model_info>()) });
    info
}

pub fn stream(model: &Owned<drnn_model>) -> Owned<drnn_stream> {
    let mut stream = ptr::null_mut();
    // SAFETY: a model, and a place for a handle.
    ok(unsafe { drnn_stream_new(model.0, &mut stream) });
    Owned(stream, drnn_stream_free)
}

pub fn batch(model: &Owned<drnn_model>) -> Owned<drnn_stream_batch> {
    let mut batch = ptr::null_mut();
    // SAFETY: a model, and a place for a handle.
    ok(unsafe { drnn_stream_batch_new(model.0, &mut batch) });
    Owned(batch, drnn_stream_batch_free)
}

/// Pushes elements; the status, and the outputs written.
pub fn push(stream: &Owned<drnn_stream>, m: usize, x: &[f32], k: usize) -> (drnn_status, Vec<f32>) {
    let (mut outputs, mut count) = (vec![f32::NAN; k * m], usize::MAX);
    let (x, x_len, len) = (x.as_ptr(), x.len(), outputs.len());
    // SAFETY: a stream, and arrays of these sizes.
    let status =
        unsafe { drnn_stream_push(stream.0, x, x_len, outputs.as_mut_ptr(), len, &mut count) };
    outputs.truncate(count * m);
    (status, outputs)
}

/// The same for tokens.
pub fn push_tokens(stream: &Owned<drnn_stream>, m: usize, x: &[u32]) -> (drnn_status, Vec<f32>) {
    let (mut outputs, mut count) = (vec![f32::NAN; x.len() * m], usize::MAX);
    let (x, x_len, len) = (x.as_ptr(), x.len(), outputs.len());
    // SAFETY: a stream, and arrays of these sizes.
    let status = unsafe {
        drnn_stream_push_tokens(stream.0, x, x_len, outputs.as_mut_ptr(), len, &mut count)
    };
    outputs.truncate(count * m);
    (status, outputs)
}

pub fn finish(stream: &Owned<drnn_stream>, info: &drnn_model_info) -> Vec<f32> {
    let (mut outputs, mut count) = (vec![f32::NAN; info.finish_outputs * info.outputs], 0);
    let len = outputs.len();
    // SAFETY: a stream, and an array of this size.
    ok(unsafe { drnn_stream_finish(stream.0, outputs.as_mut_ptr(), len, &mut count) });
    outputs.truncate(count * info.outputs);
    outputs
}

pub fn snapshot(stream: &Owned<drnn_stream>, info: &drnn_model_info) -> Vec<u8> {
    let (mut bytes, mut written) = (vec![0; info.snapshot_size], 0);
    // SAFETY: a stream, and an array of this size.
    ok(unsafe { drnn_stream_snapshot(stream.0, bytes.as_mut_ptr(), bytes.len(), &mut written) });
    assert_eq!(written, info.snapshot_size);
    bytes
}

pub fn seen(stream: &Owned<drnn_stream>) -> u64 {
    let mut seen = 0;
    // SAFETY: a stream, and a place for a number.
    ok(unsafe { drnn_stream_seen(stream.0, &mut seen) });
    seen
}

fn init(builder: NetSpecBuilder, seed: u64) -> Model {
    Model::init(&builder.build().unwrap(), seed).unwrap()
}

/// A network that reads vectors of 2 and has 3 outputs.
pub fn dense(delay: usize, padding: Padding) -> Model {
    init(NetSpec::builder(Cell::Lstm).dense(2).units([9]).delay(delay, padding).outputs(3), 3)
}

/// One that reads tokens below 6 and has 4 outputs.
pub fn tokens() -> Model {
    let builder = NetSpec::builder(Cell::Gru).tokens(6, 4).units([7, 5]);
    init(builder.delay(2, Padding::Symbol(5)).outputs(4), 4)
}

pub fn bidirectional() -> Model {
    let builder = NetSpec::builder(Cell::Lstm).dense(2).units([4, 3]);
    init(builder.bidirectional().outputs(2), 5)
}

/// Networks of all kinds.
pub fn networks() -> Vec<Model> {
    let stack = NetSpec::builder(Cell::Gru).dense(1).units([6, 6]).outputs(2);
    let stack = init(stack, 8);
    let projected = NetSpec::builder(Cell::Lstm).dense(3).units([8]).projection(4);
    vec![
        dense(0, Padding::Null),
        dense(3, Padding::Null),
        dense(2, Padding::LookAhead),
        tokens(),
        bidirectional(),
        stack.flatten(drnn::StartState::Held).unwrap(),
        stack,
        init(projected.delay(1, Padding::Null), 6),
    ]
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", path].iter().collect()
}
