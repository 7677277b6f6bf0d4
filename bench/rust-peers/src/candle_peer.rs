//! candle's own LSTM layer, with its embedding and linear layers around it. candle is batch-first.

use crate::Data;
use anyhow::Result;
use candle_core::{DType, Device, Tensor};
use candle_nn::rnn::{lstm, LSTMConfig, RNN};
use candle_nn::{Embedding, Linear, Module, VarBuilder};

/// Times the network whose parameters are in `data`.
pub fn time(
    data: &Data,
    measure: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<Vec<f64>>,
) -> Result<Vec<f64>> {
    let vars = VarBuilder::from_tensors(data.0.clone(), DType::F32, &Device::Cpu);
    let w_ih = data.get("lstm.weight_ih_l0")?;
    let (n, q) = (w_ih.dim(0)? / 4, w_ih.dim(1)?);
    let lstm = lstm(q, n, LSTMConfig::default(), vars.pp("lstm"))?;
    let x = data.get("x")?; // (T, B, q) floats or (T, B) tokens
    if data.is_stream() {
        let x = x.get(0)?.contiguous()?;
        let mut state = lstm.step(&x, &lstm.zero_state(x.dim(0)?)?)?;
        data.check(&state.h.flatten_all()?.to_vec1::<f32>()?)?;
        return measure(&mut || {
            state = lstm.step(&x, &state)?;
            Ok(())
        });
    }
    let x = x.transpose(0, 1)?.contiguous()?;
    let embedding = match data.has("embedding.weight") {
        true => Some(Embedding::new(data.get("embedding.weight")?, q)),
        false => None,
    };
    let linear = Linear::new(data.get("linear.weight")?, Some(data.get("linear.bias")?));
    let (batch, steps) = (x.dim(0)?, x.dim(1)?);
    let kept = data.get("expected")?.dim(0)? / batch; // the output layer reads only the last `kept` steps
    let forward = || -> Result<Tensor> {
        let x = match &embedding {
            Some(embedding) => embedding.forward(&x)?,
            None => x.clone(),
        };
        let states = lstm.seq(&x)?;
        let h = lstm.states_to_tensor(&states[steps - kept..])?; // (B, kept, n)
        Ok(linear.forward(&h)?)
    };
    data.check(&forward()?.transpose(0, 1)?.contiguous()?.flatten_all()?.to_vec1::<f32>()?)?;
    measure(&mut || {
        forward()?;
        Ok(())
    })
}
