//! Runs a saved PyTorch model: `cargo run --release --example pytorch [FILE.pt|FILE.safetensors]`.
//!
//! The file was written with `torch.save(model.state_dict(), "lstm.pt")`. Its tensors say which
//! network it is; no pickle code is executed.

use drnn::{Batch, Import, Model, Rows, Steps};

fn main() -> drnn::Result<()> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pt_lstm.pt");
    let path = std::env::args().nth(1).unwrap_or_else(|| example.into());
    let model = Model::import(path, &Import::default())?;
    println!("{}", model.spec());

    // One sequence of four steps, in PyTorch's order (T, B, q).
    let width = model.spec().input().width();
    let x: Vec<f32> = (0..4 * width).map(|i| (i as f32 * 0.7).sin()).collect();
    let y = model.run(&Batch::dense(&x, Steps(4), Rows(1)), None)?;
    let [steps, _, outputs] = y.shape();
    println!("{steps} steps of {outputs} outputs");
    for step in 0..steps {
        println!("  t = {step}: {:.4?}", y.at(step, 0));
    }
    Ok(())
}
