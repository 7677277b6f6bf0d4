//! Weights of classes in the loss.

use crate::error::{Error, Result};
use drnn_tasks::text::{listed, quote};

/// More than this makes steps so large that training is of no use.
pub const MAX_CLASS_WEIGHT: f32 = 1e6;

/// Weights that make each class count as much as any other, however rare it is: steps / (classes *
/// steps of the class), so that the mean weight of a step is 1. `counts` are the steps of each class.
pub fn balanced_class_weights(counts: &[usize]) -> Vec<f32> {
    let (all, classes) = (counts.iter().sum::<usize>(), counts.iter().filter(|n| **n > 0).count());
    let weight = |&n: &usize| match n {
        0 => 1.0,
        n => (all as f64 / (classes as f64 * n as f64)) as f32,
    };
    counts.iter().map(weight).collect()
}

/// A weight for each of `names`, 1 for those that `pairs` do not name.
pub fn named_class_weights(pairs: &[(String, f32)], names: &[String]) -> Result<Vec<f32>> {
    let refuse = |why: String| Err(Error::Options(format!("class weights: {why}")));
    let mut weights = vec![None; names.len()];
    for (class, weight) in pairs {
        let Some(at) = names.iter().position(|name| name == class) else {
            return refuse(format!(
                "no class {} in the training set, which has {}",
                quote(class),
                listed(names.iter().map(String::as_str))
            ));
        };
        if !(0.0..=MAX_CLASS_WEIGHT).contains(weight) {
            return refuse(format!(
                "{} has weight {weight}, not from 0 to 1,000,000",
                quote(class)
            ));
        }
        if weights[at].replace(*weight).is_some() {
            return refuse(format!("{} has two weights", quote(class)));
        }
    }
    let weights: Vec<f32> = weights.into_iter().map(|weight| weight.unwrap_or(1.0)).collect();
    match weights.iter().any(|weight| *weight > 0.0) {
        true => Ok(weights),
        false => refuse("all weights are 0".into()),
    }
}
