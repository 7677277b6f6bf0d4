//! Snapshots of streams: raw, and with a valid header and checksum, which a fuzzer cannot guess.
//! A stream that is restored from one writes the same bytes again and continues.
#![no_main]

use drnn::{Cell, Model, NetSpec, Padding, StartState, Stream, StreamBatch};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// A stack, and the same as one layer whose blocks begin one after another.
static MODELS: LazyLock<[Model; 2]> = LazyLock::new(|| {
    let spec = NetSpec::builder(Cell::Lstm).dense(1).units([2, 1]).delay(2, Padding::Null);
    let stack = Model::init(&spec.build().unwrap(), 1).unwrap();
    let flat = stack.flatten(StartState::Held).unwrap();
    [stack, flat]
});

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(17)
    })
}

fn restore(model: &Model, bytes: &[u8]) -> bool {
    let mut batch = StreamBatch::new(model).unwrap();
    let id = batch.join();
    let mut stream = Stream::new(model).unwrap();
    let taken = stream.restore(bytes).is_ok();
    assert_eq!(batch.restore(id, bytes).is_ok(), taken);
    if taken {
        assert_eq!(stream.snapshot(), bytes);
        assert_eq!(batch.snapshot(id).unwrap(), bytes);
    }
    let _ = stream.push(&[0.5]);
    let _ = batch.step(&[(id, [0.5].as_slice().into())], |_, _| ());
    stream.finish();
    let _ = batch.finish(&[id], |_, _| ());
    taken
}

fuzz_target!(|bytes: &[u8]| {
    for model in &*MODELS {
        restore(model, bytes);
        let mut whole = Stream::new(model).unwrap().snapshot();
        let (start, end) = (16, whole.len() - 8);
        let len = bytes.len().min(end - start);
        whole[start..start + len].copy_from_slice(&bytes[..len]);
        let sum = checksum(&whole[..end]);
        whole[end..].copy_from_slice(&sum.to_le_bytes());
        let finite = whole[24..end]
            .chunks_exact(4)
            .all(|b| f32::from_le_bytes(b.try_into().unwrap()).is_finite());
        assert_eq!(restore(model, &whole), finite);
    }
});
