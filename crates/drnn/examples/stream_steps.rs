//! Steps of one stream on one thread, and nothing else: for counters of instructions and profilers.
//! `tools/count_instructions` runs it on an emulated ARM processor.
//!
//! ```text
//! cargo run --release -p drnn --example stream_steps -- UNITS STEPS FORMAT ISA
//! ```

use drnn::{Cell, Cpu, Model, NetSpec, Stream};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [units, steps, format, isa] = args.as_slice() else {
        return Err("expected UNITS STEPS FORMAT ISA, for example 256 1000 int8 neon".into());
    };
    let (units, steps): (usize, usize) = (units.parse()?, steps.parse()?);
    let spec = NetSpec::builder(Cell::Lstm).dense(64).units([units]).build()?;
    let cpu = Cpu::with_instruction_set(isa.parse()?, 1)?;
    let model = Model::init(&spec, 1)?.quantize(format.parse()?)?.on(&cpu);
    let mut stream = Stream::new(&model)?;
    let x: Vec<f32> = (0..64).map(|i| (i % 7) as f32 * 0.25 - 0.75).collect();
    let mut sum = 0.0;
    for _ in 0..steps {
        let h = stream.push(x.as_slice())?.ok_or("no output")?;
        sum += h[0];
    }
    println!("{steps} steps of {spec}, {format} on {isa}: {sum}");
    Ok(())
}
