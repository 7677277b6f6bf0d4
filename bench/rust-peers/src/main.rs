//! Times tract and candle on one case of `bench/peers.py`, which calls it:
//!
//! `rust-peers tract|candle MODEL.onnx DATA.npz --threads N --block K --seconds S`
//!
//! `DATA.npz` holds the parameters under PyTorch's names, the input `x` and the `expected` output. A case without an
//! output layer is a streaming one: a unit of work is one step, the state carried over; otherwise it is the whole
//! sequence. Prints one JSON object: `seconds` has the time of one unit, one entry per block of K units.

mod candle_peer;
mod tract_peer;

use anyhow::{bail, ensure, Context, Result};
use candle_core::{Device, Tensor};
use std::collections::HashMap;
use std::time::Instant;

/// What a case needs: parameters, input and the expected output.
pub struct Data(HashMap<String, Tensor>);

impl Data {
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Result<Tensor> {
        self.0.get(name).cloned().with_context(|| format!("no array `{name}` in the data file"))
    }

    /// One step with the state carried over, rather than a whole sequence.
    pub fn is_stream(&self) -> bool {
        !self.has("linear.weight")
    }

    /// A peer that computes something else must not be timed.
    pub fn check(&self, output: &[f32]) -> Result<()> {
        let expected = self.get("expected")?.flatten_all()?.to_vec1::<f32>()?;
        ensure!(
            output.len() == expected.len(),
            "{} values, expected {}",
            output.len(),
            expected.len()
        );
        let error = output.iter().zip(&expected).map(|(a, e)| (a - e).abs()).fold(0., f32::max);
        ensure!(error < 1e-4, "differs from the expected output by {error}");
        Ok(())
    }
}

/// Time of one unit of work in each of as many blocks as fill `seconds`, at least 3, after two blocks of warm-up.
fn measure(seconds: f64, block: usize, mut unit: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut run_block = || -> Result<f64> {
        let start = Instant::now();
        for _ in 0..block {
            unit()?;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    run_block()?;
    run_block()?;
    let (mut times, mut spent) = (vec![], 0.);
    while spent < seconds || times.len() < 3 {
        let elapsed = run_block()?;
        spent += elapsed;
        times.push(elapsed / block as f64);
    }
    Ok(times)
}

/// The version of a crate that this program was built with.
fn locked_version(name: &str) -> Option<&'static str> {
    let lock = include_str!("../Cargo.lock");
    let (_, entry) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    entry.split('"').next()
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut next = |what: &str| words.next().with_context(|| format!("missing {what}"));
    let (peer, model, data) = (next("peer")?, next("model")?, next("data")?);
    let (mut threads, mut block, mut seconds) = (1, 1, 0.3);
    while let Ok(option) = next("option") {
        let value = next("value")?;
        match option.as_str() {
            "--threads" => threads = value.parse()?,
            "--block" => block = value.parse()?,
            "--seconds" => seconds = value.parse()?,
            _ => bail!("unknown option {option}"),
        }
    }
    // candle's products run in rayon's global pool, whose number of threads this variable sets.
    std::env::set_var("RAYON_NUM_THREADS", threads.to_string());
    let arrays = Tensor::read_npz(&data)?.into_iter();
    let data = Data(
        arrays.map(|(name, t)| Ok((name, t.to_device(&Device::Cpu)?))).collect::<Result<_>>()?,
    );
    let times = match peer.as_str() {
        "tract" => tract_peer::time(&model, &data, threads, |unit| measure(seconds, block, unit))?,
        "candle" => candle_peer::time(&data, |unit| measure(seconds, block, unit))?,
        _ => bail!("unknown peer {peer}"),
    };
    let version = locked_version(if peer == "tract" { "tract-onnx" } else { "candle-nn" });
    println!(
        "{}",
        serde_json::json!({"peer": peer, "version": version, "threads": threads, "seconds": times})
    );
    Ok(())
}
