//! The embedding before a recurrence and the output layer after it.
//!
//! A state dict does not say how its modules are connected. If the module that contains the
//! recurrence holds nothing else than an embedding as wide as its input and a linear layer that reads
//! its states, they are taken for one model. If there is more (attention, convolutions, a second
//! linear layer), nothing is taken that was not named, and what could be taken is noted.

use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::tensors::TensorFile;
use crate::prelude::*;
use alloc::collections::BTreeSet;

/// Which layer before or after the recurrence belongs to the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Part {
    /// One that is recognised by its shape, where nothing else is there to be in between.
    #[default]
    Recognised,
    /// None: the recurrence reads vectors, and answers with its states.
    None,
    /// The one of this name: `decoder.fc`, or the name of its weight.
    Named(String),
}

/// A matrix, with its bias where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Linear {
    pub weight: String,
    pub bias: Option<String>,
    pub rows: usize,
    columns: usize,
}

/// Layers around a recurrence.
#[derive(Default)]
pub(super) struct Parts {
    pub embedding: Option<Linear>,
    pub output: Option<Linear>,
    /// Layers that could belong to it and were not taken, as options that take them.
    pub possible: Vec<String>,
    /// Whether one was taken without being named.
    pub recognised: bool,
}

/// A recurrence as its neighbours see it.
pub(super) struct Between<'a> {
    pub file: &'a TensorFile<'a>,
    /// Names of its tensors.
    pub used: BTreeSet<&'a str>,
    pub prefix: &'a str,
    /// Floats that it reads.
    pub inputs: usize,
    /// Floats that it answers with.
    pub hidden: usize,
}

/// Endings of the names of weights, and those of their biases.
const ENDINGS: [(&str, &str); 4] =
    [(".weight", ".bias"), ("_weight", "_bias"), ("_w", "_b"), ("/kernel", "/bias")];
/// What names of embeddings have in them, and names of output layers.
const EMBEDDINGS: [&str; 3] = ["emb", "lookup", "wte"];
const OUTPUTS: [&str; 10] =
    ["fc", "lin", "out", "dec", "head", "proj", "class", "dense", "logit", "pred"];
/// Options that a note names.
const MAX_POSSIBLE: usize = 4;

impl Between<'_> {
    /// The parts that were named, and those that are recognised.
    pub fn parts(&self, embedding: &Part, output: &Part) -> Result<Parts> {
        let mut parts = Parts::default();
        if let Part::Named(name) = embedding {
            let found = self.named(name, "embedding", self.inputs)?;
            if let Some(bias) = &found.bias {
                let (weight, bias) = (short(&found.weight), short(bias));
                return Err(refuse(format!(
                    "`{weight}` has a bias, `{bias}`: a linear layer, not an embedding"
                )));
            }
            parts.embedding = Some(found);
        }
        if let Part::Named(name) = output {
            parts.output = Some(self.named(name, "output layer", self.hidden)?);
        }
        let named: Vec<Linear> = parts.embedding.iter().chain(&parts.output).cloned().collect();
        let mut used = self.used.clone();
        used.extend(named.iter().flat_map(Linear::names));
        let (free, whole) = self.neighbours(&used);
        let (found_embedding, found_output) = if whole { self.assign(&free) } else { (None, None) };
        if *embedding == Part::Recognised && found_embedding.is_some() {
            parts.embedding = found_embedding.cloned();
            parts.recognised = true;
        }
        if *output == Part::Recognised && found_output.is_some() {
            parts.output = found_output.cloned();
            parts.recognised = true;
        }
        let mut possible = Vec::new();
        for part in self.linears(&used, "") {
            let option = |option: &str| format!("{option} {}", short(part.base()));
            if *embedding == Part::Recognised
                && parts.embedding.is_none()
                && self.is_embedding(&part)
            {
                possible.push(option("--embedding-layer"));
            } else if *output == Part::Recognised && parts.output.is_none() && self.is_output(&part)
            {
                possible.push(option("--output-layer"));
            }
        }
        possible.truncate(MAX_POSSIBLE);
        parts.possible = possible;
        Ok(parts)
    }

    /// Layers next to the recurrence: those in the smallest module that has more tensors than it;
    /// and whether they are all that the module has.
    fn neighbours(&self, used: &BTreeSet<&str>) -> (Vec<Linear>, bool) {
        let others = |scope: &str| {
            let inside = self.file.names().filter(|name| name.starts_with(scope));
            inside.filter(|name| !used.contains(name)).count()
        };
        let mut scopes = vec![self.prefix];
        scopes.extend(self.prefix.rmatch_indices('.').map(|(at, _)| &self.prefix[..=at]));
        scopes.push("");
        let Some(scope) = scopes.into_iter().find(|scope| others(scope) > 0) else {
            return (Vec::new(), false);
        };
        let found = self.linears(used, scope);
        let tensors: usize = found.iter().map(|part| part.names().count()).sum();
        let whole = tensors == others(scope) && found.len() <= 2;
        (found, whole)
    }

    /// Matrices below `scope`, with their biases, that are free.
    fn linears(&self, used: &BTreeSet<&str>, scope: &str) -> Vec<Linear> {
        let free = self.file.names().filter(|name| name.starts_with(scope) && !used.contains(name));
        free.filter_map(|name| self.linear(name)).collect()
    }

    fn linear(&self, weight: &str) -> Option<Linear> {
        let Ok(&[rows, columns]) = self.file.shape(weight) else { return None };
        let bias = ENDINGS.iter().find_map(|(end, bias)| {
            let bias = format!("{}{bias}", weight.strip_suffix(end)?);
            (self.file.shape(&bias).ok()? == [rows]).then_some(bias)
        });
        Some(Linear { weight: weight.into(), bias, rows, columns })
    }

    /// Which is the embedding and which the output layer, where that is clear.
    fn assign<'l>(&self, free: &'l [Linear]) -> (Option<&'l Linear>, Option<&'l Linear>) {
        let embeddings: Vec<&Linear> = free.iter().filter(|part| self.is_embedding(part)).collect();
        let outputs: Vec<&Linear> = free.iter().filter(|part| self.is_output(part)).collect();
        match (free.len(), embeddings.as_slice(), outputs.as_slice()) {
            (1, [embedding], []) => (Some(embedding), None),
            (1, [], [output]) => (None, Some(output)),
            (2, [embedding], [output]) if embedding != output => (Some(embedding), Some(output)),
            _ => (None, None),
        }
    }

    fn is_embedding(&self, part: &Linear) -> bool {
        part.bias.is_none()
            && part.columns == self.inputs
            && (part.is_called(&EMBEDDINGS) || (part.is_weight() && !part.is_called(&OUTPUTS)))
            && part.rows > 0
    }

    fn is_output(&self, part: &Linear) -> bool {
        let named = part.bias.is_some() || part.is_called(&OUTPUTS);
        part.columns == self.hidden
            && !part.is_called(&EMBEDDINGS)
            && (named || (part.is_weight() && self.hidden != self.inputs))
            && part.rows > 0
    }

    /// The layer of a user's name, checked against the width it must have.
    fn named(&self, name: &str, what: &str, width: usize) -> Result<Linear> {
        let found = self.matching(name).ok_or_else(|| {
            let name = short(name);
            refuse(format!("has no matrix `{name}` or `{name}.weight` for the {what}"))
        })?;
        if found.columns != width {
            let (weight, rows, columns) = (short(&found.weight), found.rows, found.columns);
            return Err(refuse(format!(
                "tensor `{weight}` has shape [{rows}, {columns}], expected {width} columns: the {what} \
                 does not fit the recurrence"
            )));
        }
        Ok(found)
    }

    /// By its whole name, or the only one that ends so (`fc` of `module.fc.weight`).
    fn matching(&self, name: &str) -> Option<Linear> {
        let name = name.trim_end_matches('.');
        let exact = |base: &str| {
            let weights = ENDINGS.iter().map(|(end, _)| format!("{base}{end}"));
            core::iter::once(base.to_string()).chain(weights).find_map(|name| self.linear(&name))
        };
        exact(name).or_else(|| {
            let all = self.linears(&BTreeSet::new(), "");
            let ends = |part: &&Linear| part.base().ends_with(&format!(".{name}"));
            match all.iter().filter(ends).collect::<Vec<_>>().as_slice() {
                [one] => Some((*one).clone()),
                _ => None,
            }
        })
    }
}

impl Linear {
    /// Names of its tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        core::iter::once(&self.weight).chain(&self.bias).map(String::as_str)
    }

    /// Its name without that of the weight.
    pub fn base(&self) -> &str {
        let without = ENDINGS.iter().find_map(|(end, _)| self.weight.strip_suffix(end));
        without.unwrap_or(&self.weight)
    }

    fn is_weight(&self) -> bool {
        self.base() != self.weight
    }

    fn is_called(&self, words: &[&str]) -> bool {
        let name = self.base().rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        words.iter().any(|word| name.contains(word))
    }
}
