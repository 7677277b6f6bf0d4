//! Streams a sequence through a delayed network, stops halfway and continues from a snapshot:
//! `cargo run --release --example stream`.

use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, Steps, Stream};

fn main() -> drnn::Result<()> {
    let delay = 2;
    let spec = NetSpec::builder(Cell::Gru)
        .dense(1)
        .units([16])
        .delay(delay, Padding::Null)
        .outputs(1)
        .build()?;
    let model = Model::init(&spec, 1)?;
    let x: Vec<f32> = (0..8).map(|t| (t as f32 * 0.5).cos()).collect();
    let mut outputs = Vec::new();

    // The first half. The output for element t is known once element t + 2 has been read.
    let mut stream = Stream::new(&model)?;
    for (t, &value) in x[..4].iter().enumerate() {
        match stream.push(&[value])? {
            Some(y) => {
                println!("read x_{t}: y_{} = {:.4}", t - delay, y[0]);
                outputs.push(y[0]);
            }
            None => println!("read x_{t}: no output yet"),
        }
    }
    // The state as bytes: in a file or a database, until the next element arrives.
    let snapshot = stream.snapshot();
    println!("snapshot: {} bytes", snapshot.len());
    drop(stream);

    // The second half, perhaps in another process.
    let mut stream = Stream::new(&model)?;
    stream.restore(&snapshot)?;
    for (t, &value) in x.iter().enumerate().skip(4) {
        if let Some(y) = stream.push(&[value])? {
            println!("read x_{t}: y_{} = {:.4}", t - delay, y[0]);
            outputs.push(y[0]);
        }
    }
    // The last outputs need no more elements: the sequence has ended.
    let rest = stream.finish().concat();
    println!("the end: {rest:.4?}");
    outputs.extend(rest);

    let whole = model.run(&Batch::dense(&x, Steps(x.len()), Rows(1)), None)?;
    assert_eq!(outputs, whole.values);
    println!("the same bits as a run over the whole sequence");
    Ok(())
}
