//! Predictions, and their JSON.
//!
//! ```json
//! {"position": 4, "values": [0.1, -2.5]}                                       plain
//! {"position": 4, "values": {"temperature": 21.5}}                             series, in the target's units
//! {"position": 4, "class": "walk", "probability": 0.9, "probabilities": {"walk": 0.9, "rest": 0.1}}
//! {"position": 4, "word": "ants", "tag": "NOUN", "probability": 0.98}
//! {"position": 4, "character": "t", "masked": true, "alternatives": [{"character": "t", "probability": 0.7}]}
//! ```
//!
//! A position is the index of the element in its sequence.

use serde::ser::{SerializeMap, Serializer};

/// The prediction for one element.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Prediction<'m> {
    /// Index of the element in its sequence.
    pub position: u64,
    /// What is predicted.
    #[serde(flatten)]
    pub value: Predicted<'m>,
}

/// What is predicted. Names are borrowed from the model.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Predicted<'m> {
    /// The network's outputs, of a model without a task.
    Numbers {
        /// m outputs.
        values: Vec<f32>,
    },
    /// Targets of a series.
    Named {
        /// Name and value in the target's units, in the model's order.
        #[serde(serialize_with = "in_order")]
        values: Vec<(&'m str, f64)>,
    },
    /// A class of a series.
    Class {
        /// The most probable class.
        class: &'m str,
        /// Its probability.
        probability: f64,
        /// All classes, the most probable first.
        #[serde(serialize_with = "in_order")]
        probabilities: Vec<(&'m str, f64)>,
    },
    /// A word's tag.
    Tag {
        /// The word as it was sent.
        word: String,
        /// The most probable tag.
        tag: &'m str,
        /// Its probability.
        probability: f64,
    },
    /// A character: the given one, or the most probable one for a mask.
    Character {
        /// The character.
        character: char,
        /// Whether it was masked.
        masked: bool,
        /// For a masked one: the most probable characters, best first.
        alternatives: Vec<Alternative>,
    },
}

/// A candidate for a masked character.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Alternative {
    /// The character.
    pub character: char,
    /// Its probability.
    pub probability: f64,
}

fn in_order<S: Serializer>(pairs: &[(&str, f64)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(pairs.len()))?;
    for (name, value) in pairs {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

impl Prediction<'_> {
    /// As JSON, on one line.
    pub fn json(&self) -> String {
        // Strings and numbers can always be serialised.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Classes with their softmax probabilities, the most probable first; `y` are the logits.
pub fn ranked(y: &[f32]) -> Vec<(usize, f64)> {
    let largest = y.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let powers = || y.iter().map(|y| f64::from(y - largest).exp());
    let total: f64 = powers().sum();
    let mut found: Vec<(usize, f64)> = powers().map(|p| p / total).enumerate().collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}
