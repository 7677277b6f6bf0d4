//! What comes out, and how it looks as JSON.
//!
//! ```json
//! {"position": 4, "values": [0.1, -2.5]}                                       plain
//! {"position": 4, "values": {"temperature": 21.5}}                             series, in the target's own units
//! {"position": 4, "class": "walk", "probability": 0.9, "probabilities": {"walk": 0.9, "rest": 0.1}}
//! {"position": 4, "word": "ants", "tag": "NOUN", "probability": 0.98}
//! {"position": 4, "character": "t", "masked": true, "alternatives": [{"character": "t", "probability": 0.7}]}
//! ```
//!
//! Positions are those of the elements in their sequence, counted from 0.

use serde::ser::{SerializeMap, Serializer};

/// The answer to one element.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Answer<'m> {
    /// Which element, counted from 0.
    pub position: u64,
    /// What it is.
    #[serde(flatten)]
    pub value: Value<'m>,
}

/// What an answer says. Names are the model's.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value<'m> {
    /// The network's numbers as they are.
    Numbers {
        /// m of them.
        values: Vec<f32>,
    },
    /// Targets of a series, in their own units.
    Named {
        /// By name, in the model's order.
        #[serde(serialize_with = "in_order")]
        values: Vec<(&'m str, f64)>,
    },
    /// A class of a series.
    Class {
        /// The likeliest.
        class: &'m str,
        /// Its probability.
        probability: f64,
        /// All of them, the likeliest first.
        #[serde(serialize_with = "in_order")]
        probabilities: Vec<(&'m str, f64)>,
    },
    /// A word's tag.
    Tag {
        /// The word as it came.
        word: String,
        /// The likeliest.
        tag: &'m str,
        /// Its probability.
        probability: f64,
    },
    /// A character: one that was given, or the likeliest for one that was masked.
    Character {
        /// The character.
        character: char,
        /// Whether it was to be filled in.
        masked: bool,
        /// Of a masked one: the likeliest, best first.
        alternatives: Vec<Alternative>,
    },
}

/// What a masked character may have been.
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

impl Answer<'_> {
    /// As a line of JSON, without its end.
    pub fn json(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Classes with their probabilities, `exp(y_i) / sum exp(y)`, the likeliest first.
pub fn ranked(y: &[f32]) -> Vec<(usize, f64)> {
    let largest = y.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let powers = || y.iter().map(|y| f64::from(y - largest).exp());
    let total: f64 = powers().sum();
    let mut found: Vec<(usize, f64)> = powers().map(|p| p / total).enumerate().collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}
