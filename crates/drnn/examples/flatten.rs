//! Converts a stack of layers into one delayed layer and back:
//! `cargo run --release --example flatten`.

use drnn::{Batch, Cell, Model, NetSpec, Rows, StartState, Steps};

fn main() -> drnn::Result<()> {
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([8, 8, 8]).outputs(2).build()?;
    let stack = Model::init(&spec, 1)?;
    println!("   {}", stack.spec());

    // k layers become one of as many units in k blocks; its delay is k - 1.
    let flat = stack.flatten(StartState::Held)?;
    println!("-> {}", flat.spec());

    // The outputs are the same, bit for bit: two sequences of ten steps.
    let x: Vec<f32> = (0..10 * 2 * 3).map(|i| (i as f32 * 0.3).sin()).collect();
    let batch = Batch::dense(&x, Steps(10), Rows(2));
    let [a, b] = [stack.run(&batch, None)?, flat.run(&batch, None)?];
    assert_eq!(a.values, b.values);
    println!("the same outputs, for example {:.4?} at the last step", b.at(9, 0));

    let back = flat.unflatten(None)?;
    assert_eq!(back.params(), stack.params());
    println!("and back: the same {} parameters", back.params().len());
    Ok(())
}
