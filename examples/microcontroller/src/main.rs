//! A network on a Cortex-M4F, without an operating system: made, written to bytes, read again, run and
//! streamed. Ends with success if a stream answers as a run does, to the bit, and allocates nothing.

#![no_std]
#![no_main]

extern crate alloc;

mod board;

use alloc::vec::Vec;
use board::{HEAP, print};
use drnn::{Batch, Cell, Error, Model, NetSpec, Padding, Rows, Steps, Stream};

/// Units of the LSTM; inputs and outputs; elements of the sequence.
const UNITS: usize = 32;
const WIDTH: usize = 4;
const LENGTH: usize = 100;
/// The first output, as `crates/drnn/tests/without_std.rs` has it on other processors.
const EXPECTED: f32 = -0.036_713_15;

fn network() -> Result<(), Error> {
    let spec = NetSpec::builder(Cell::Lstm).dense(WIDTH).units([UNITS]).outputs(WIDTH);
    let spec = spec.delay(3, Padding::Null).build()?;
    let bytes = Model::init(&spec, 1)?.to_bytes()?;
    let before = HEAP.live();
    let model = Model::from_bytes(&bytes)?;
    print!("{spec}\n{} parameters, file of {} bytes\n", spec.parameters(), bytes.len());
    print!("model: {} bytes of heap\n", HEAP.live() - before);

    let x: Vec<f32> = (0..LENGTH * WIDTH).map(|i| (i % 7) as f32 * 0.25 - 0.75).collect();
    let whole = model.run(&Batch::dense(&x, Steps(LENGTH), Rows(1)), None)?;
    let first = whole.at(0, 0)[0];
    print!("first output: {first}\n");
    assert!((first - EXPECTED).abs() < 1e-5, "expected {EXPECTED}");

    let before = HEAP.live();
    let mut stream = Stream::new(&model)?;
    print!("stream: {} bytes of heap\n", HEAP.live() - before);
    let mut answered = 0;
    let before = HEAP.allocated();
    for x in x.chunks_exact(WIDTH) {
        if let Some(y) = stream.push(x)? {
            assert_eq!(y, whole.at(answered, 0));
            answered += 1;
        }
    }
    assert_eq!(HEAP.allocated(), before, "a step allocates");
    for y in stream.finish() {
        assert_eq!(y, whole.at(answered, 0));
        answered += 1;
    }
    assert_eq!(answered, LENGTH);
    print!(
        "{answered} outputs of the stream equal the run's; heap at most {} bytes\n",
        HEAP.peak()
    );
    Ok(())
}

/// Called with the floating point unit on.
fn main() {
    if let Err(error) = network() {
        panic!("{error}");
    }
    board::exit(true)
}
