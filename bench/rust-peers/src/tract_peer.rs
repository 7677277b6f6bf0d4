//! tract runs the same ONNX file as ONNX Runtime.

use crate::Data;
use anyhow::Result;
use candle_core::DType;
use tract_linalg::multithread::{set_default_executor, Executor};
use tract_onnx::prelude::*;

/// Times `model`, an ONNX file with all shapes fixed.
pub fn time(
    model: &str,
    data: &Data,
    threads: usize,
    measure: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<Vec<f64>>,
) -> Result<Vec<f64>> {
    if threads > 1 {
        set_default_executor(Executor::multithread(threads));
    }
    let plan = tract_onnx::onnx().model_for_path(model)?.into_optimized()?.into_runnable()?;
    let x = data.get("x")?;
    let shape = x.dims().to_vec();
    let x: TValue = if x.dtype() == DType::I64 {
        Tensor::from_shape(&shape, &x.flatten_all()?.to_vec1::<i64>()?)?.into()
    } else {
        Tensor::from_shape(&shape, &x.flatten_all()?.to_vec1::<f32>()?)?.into()
    };
    if !data.is_stream() {
        data.check(plan.run(tvec![x.clone()])?[0].try_as_plain_ram()?.as_slice::<f32>()?)?;
        return measure(&mut || {
            plan.run(tvec![x.clone()])?;
            Ok(())
        });
    }
    let n = data.get("lstm.weight_hh_l0")?.dim(1)?;
    let zero: TValue = Tensor::zero::<f32>(&[1, shape[1], n])?.into();
    let mut plan = plan.spawn()?;
    let mut state = plan.run(tvec![x.clone(), zero.clone(), zero])?;
    data.check(state[0].try_as_plain_ram()?.as_slice::<f32>()?)?;
    measure(&mut || {
        let (h, c) = (state[0].clone(), state[1].clone());
        state = plan.run(tvec![x.clone(), h, c])?;
        Ok(())
    })
}
