//! What keeps a network from learning its training set by heart, the same for `train` and `sweep`.

use clap::Args;
use drnn_train::{AdamOptions, Options};

/// Dropout and weight decay.
#[derive(Debug, Clone, Copy, Args)]
pub struct Regularisation {
    /// Dropout between layers and on the outputs of the last one: the probability of a zero in
    /// training, from 0 to below 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    dropout: f32,
    /// Weight decay of all parameters, decoupled from the gradient (AdamW)
    #[arg(long, value_name = "W", default_value_t = 0.0, value_parser = decay)]
    weight_decay: f32,
}

impl Regularisation {
    /// The options with both.
    pub fn apply(&self, options: Options) -> Options {
        let Regularisation { dropout, weight_decay } = *self;
        let adam = AdamOptions { weight_decay, ..options.adam };
        Options { dropout, adam, ..options }
    }
}

fn probability(text: &str) -> Result<f32, String> {
    let p: f32 = text.parse().map_err(|e| format!("{e}"))?;
    match (0.0..1.0).contains(&p) {
        true => Ok(p),
        false => Err("expected a probability from 0 to below 1".into()),
    }
}

fn decay(text: &str) -> Result<f32, String> {
    let decay: f32 = text.parse().map_err(|e| format!("{e}"))?;
    match decay >= 0.0 && decay.is_finite() {
        true => Ok(decay),
        false => Err("expected 0 or more; usual values are 0.01 to 0.1".into()),
    }
}
