//! The C interface: any bytes as a model file, as a snapshot and as an element. They are accepted, or
//! refused with a code that fits and a message; what was read runs, and streams as it runs.
#![no_main]

use drnn::{Cell, Model, NetSpec, Padding};
use drnn_c::model::*;
use drnn_c::run::*;
use drnn_c::status::drnn_status::*;
use drnn_c::status::*;
use drnn_c::stream::*;
use drnn_c::task::*;
use libfuzzer_sys::fuzz_target;
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

/// A model whose streams read the bytes as snapshots.
static MODEL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let spec = NetSpec::builder(Cell::Lstm).dense(2).units([3]).delay(1, Padding::Null);
    Model::init(&spec.build().unwrap(), 1).unwrap().to_bytes().unwrap()
});

fn message() -> String {
    // SAFETY: a text that ends with NUL, valid until the next error.
    unsafe { CStr::from_ptr(drnn_last_error()) }.to_str().unwrap().into()
}

fn load(bytes: &[u8]) -> Option<*mut drnn_model> {
    let mut model = null_mut();
    // SAFETY: that many bytes, and a place for a handle.
    let status = unsafe { drnn_model_load_bytes(bytes.as_ptr(), bytes.len(), 1, &mut model) };
    if status == DRNN_OK {
        return Some(model);
    }
    assert!([DRNN_ERROR_FORMAT, DRNN_ERROR_MEMORY].contains(&status), "{status:?}: {}", message());
    assert!(model.is_null() && !message().is_empty());
    None
}

/// One element, whole and live.
fn run(model: *mut drnn_model, info: &drnn_model_info) {
    let (x, token) = (vec![0.5; info.inputs], [0]);
    let dense = info.symbols == 0;
    let sequences = drnn_sequences {
        x: if dense { x.as_ptr() } else { null() },
        x_len: x.len(),
        tokens: if dense { null() } else { token.as_ptr() },
        tokens_len: usize::from(!dense),
        steps: 1,
        rows: 1,
        lengths: null(),
        batch_first: 0,
    };
    let m = info.outputs;
    let mut whole = vec![0.0; usize::from(info.look_ahead == 0) * m];
    let mut live = vec![0.0; (info.finish_outputs + 1) * m];
    let (to, len, live_len) = (whole.as_mut_ptr(), whole.len(), live.len());
    // SAFETY: a model, and arrays of the sizes stated.
    unsafe {
        let status = drnn_model_run(model, &sequences, null(), to, len, null());
        let mut stream = null_mut();
        if status != DRNN_OK || drnn_stream_new(model, &mut stream) != DRNN_OK {
            return;
        }
        let (to, mut pushed, mut rest) = (live.as_mut_ptr(), 0, 0);
        let status = match dense {
            true => drnn_stream_push(stream, x.as_ptr(), x.len(), to, live_len, &mut pushed),
            false => drnn_stream_push_tokens(stream, &token[0], 1, to, live_len, &mut pushed),
        };
        assert_eq!(status, DRNN_OK, "{}", message());
        let to = to.add(pushed * m);
        let status = drnn_stream_finish(stream, to, live_len - pushed * m, &mut rest);
        assert_eq!(status, DRNN_OK, "{}", message());
        drnn_stream_free(stream);
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&live[..(pushed + rest) * m]), bits(&whole));
    }
}

/// The bytes as a snapshot, and as an element.
fn others(model: *mut drnn_model, bytes: &[u8]) {
    // SAFETY: a model, that many bytes, text that ends with NUL, and places for pointers.
    unsafe {
        let mut stream = null_mut();
        if drnn_stream_new(model, &mut stream) == DRNN_OK {
            let status = drnn_stream_restore(stream, bytes.as_ptr(), bytes.len());
            assert!([DRNN_OK, DRNN_ERROR_SNAPSHOT].contains(&status), "{status:?}");
            drnn_stream_free(stream);
        }
        let (mut stream, mut found) = (null_mut(), null());
        if drnn_task_stream_new(model, &mut stream) == DRNN_OK {
            let text: Vec<u8> = bytes.iter().copied().filter(|b| *b != 0).take(200).collect();
            let text = CString::new(text).unwrap_or_default();
            let status = drnn_task_stream_push(stream, text.as_ptr(), &mut found);
            assert!(status != DRNN_ERROR_INTERNAL, "{}", message());
            while drnn_task_stream_finish(stream, &mut found) == DRNN_OK && !found.is_null() {}
            drnn_task_stream_free(stream);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(model) = load(bytes) {
        let mut info = drnn_model_info::default();
        // SAFETY: a model, and memory of that size.
        let status = unsafe { drnn_model_get_info(model, &mut info, size_of::<drnn_model_info>()) };
        assert_eq!(status, DRNN_OK);
        if info.network == 1 && info.parameters < 2000 && info.delay < 100 {
            run(model, &info);
        }
        others(model, bytes);
        // SAFETY: once.
        unsafe { drnn_model_free(model) };
    }
    let known = load(&MODEL).unwrap();
    others(known, bytes);
    // SAFETY: once.
    unsafe { drnn_model_free(known) };
});
