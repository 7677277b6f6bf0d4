//! A stack of LSTMs as one delayed layer, saved as a file.
//!
//! ```sh
//! cargo run --release -p drnn --example flattened -- flat.safetensors            # four layers of 64
//! cargo run --release -p drnn --example flattened -- flat.safetensors 96,64,32   # of these widths
//! cargo run --release -p drnn --example flattened -- flat.safetensors 64,64 all  # unconstrained
//! cargo run --release -- inspect flat.safetensors --svg blocks.svg               # what it is made of
//! ```

use drnn::{Cell, Connections, Model, NetSpec, StartState};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let widths = arguments.next().unwrap_or("64,64,64,64".into());
    let widths: Vec<usize> = widths.split(',').map(str::parse).collect::<Result<_, _>>()?;

    let spec = NetSpec::builder(Cell::Lstm).dense(10).units(widths).outputs(5).build()?;
    let mut flat = Model::init(&spec, 1).flatten(StartState::Held)?;
    if arguments.next().as_deref() == Some("all") {
        // The same network still; training may now fill what was kept at zero. Random values stand for that.
        let free = flat.relax(Connections::All)?;
        let learned = Model::init(free.spec(), 2);
        let both = free.params().iter().zip(learned.params()).map(|(a, b)| a + 0.3 * b);
        flat = Model::from_params(free.spec(), both.collect())?;
    }
    println!("{flat}");
    Ok(flat.save(path)?)
}
