//! Training options for which there are no kernels: refused before a step is taken, never ignored.

use crate::error::{Error as CudaError, Result as CudaResult};
use drnn_train::{AdamOptions, Batches, Dataset, Options, Result};

fn refuse<T>(what: &str, option: &str) -> CudaResult<T> {
    let why = format!("{what} ({option}) only with --device cpu: a GPU cannot do it yet");
    Err(CudaError::Unsupported(why))
}

/// Refuses options of a training that a GPU cannot do: weight decay and dropout. Engines refuse them
/// too, when they are made and before a step; this says so before there is an engine.
pub fn check_options(options: &Options) -> CudaResult<()> {
    check_adam(&options.adam)?;
    if options.dropout == 0.0 { Ok(()) } else { refuse("dropout", "--dropout") }
}

/// Refuses weight decay.
pub(crate) fn check_adam(adam: &AdamOptions) -> CudaResult<()> {
    if adam.weight_decay == 0.0 { Ok(()) } else { refuse("weight decay", "--weight-decay") }
}

/// Refuses dropout.
pub(crate) fn check_batches(batches: &Batches) -> Result<()> {
    match batches.dropout {
        Some(_) => Ok(refuse("dropout", "--dropout")?),
        None => Ok(()),
    }
}

/// Refuses data with class weights.
pub(crate) fn check_data(data: &dyn Dataset) -> Result<()> {
    match data.class_weights() {
        Some(_) => Ok(refuse("class weights", "--class-weights")?),
        None => Ok(()),
    }
}
