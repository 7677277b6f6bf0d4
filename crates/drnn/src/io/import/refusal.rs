//! Why a file has no recurrence that can be read, as far as its names show.

use crate::error::Error;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::tensors::TensorFile;
use crate::prelude::*;

/// Names that a message shows.
const MAX_LISTED: usize = 5;

/// What parts of names say that a recurrence is stored otherwise.
const STORED: [(&str, &str); 6] = [
    ("weight_hh_l0_v", WEIGHT_NORM),
    ("weight_ih_l0_v", WEIGHT_NORM),
    ("parametrizations.weight_", WEIGHT_NORM),
    ("_packed_params", "its weights are quantised; save the state dict of the float model"),
    ("recurrent_kernel", "its names are those of Keras; convert the model to ONNX"),
    ("weight_hh_l0_raw", "its weights are wrapped (WeightDrop); save the plain module inside"),
];
const WEIGHT_NORM: &str = "its weights are stored as direction and length (weight_norm); fold them \
                           with torch.nn.utils.remove_weight_norm or remove_parametrizations";

/// The error about a file without a recurrence.
pub(super) fn nothing_found(file: &TensorFile) -> Error {
    let stored = STORED.iter().find(|(part, _)| file.names().any(|name| name.contains(part)));
    if let Some((part, why)) = stored {
        return refuse(format!("has no tensor `weight_ih_l0`, but names with `{part}`: {why}"));
    }
    let mut names: Vec<String> =
        file.names().take(MAX_LISTED).map(|name| format!("`{}`", short(name))).collect();
    let count = file.names().count();
    if count > MAX_LISTED {
        names.push(format!("and {} more", count - MAX_LISTED));
    }
    let names = if names.is_empty() { "no tensors".into() } else { names.join(", ") };
    refuse(format!(
        "tensor `weight_ih_l0` is missing: not the state dict of an nn.RNN, nn.LSTM, nn.GRU or of \
         their cells (`weight_ih`); it has {names}"
    ))
}

/// What a tensor next to the recurrence's own says that its cell is, if not PyTorch's. `rest` is its
/// name after the prefix; `inside`: it belongs to the recurrence's own module.
pub(super) fn variant(rest: &str, inside: bool) -> Option<&'static str> {
    let name = rest.to_ascii_lowercase();
    let of_gates = ["ih", "hh", "i2h", "h2h"].iter().any(|part| name.contains(part));
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let is_norm = has(&["layernorm", "layer_norm", "norm"])
        || name.split(['.', '_']).any(|part| part == "ln" || part == "bn");
    if is_norm && (inside || of_gates) {
        return Some("a cell with normalisation inside (LayerNorm)");
    }
    let peephole = ["weight_ci", "weight_cf", "weight_co", "weight_ch", "w_ci", "w_cf", "w_co"];
    if has(&["peephole"]) || peephole.iter().any(|start| name.starts_with(start)) {
        return Some("a cell with peephole connections");
    }
    None
}
