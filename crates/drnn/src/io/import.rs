//! PyTorch's `nn.RNN`, `nn.LSTM` and `nn.GRU` from their tensors alone.
//!
//! Everything but a plain RNN's activation can be read off names and shapes: layers from the number in
//! the name, both directions from `_reverse`, the cell from the rows of `weight_hh` per unit. Biases may
//! be missing (`bias=False`): they are zero then. The model has no embedding and no output layer, so it
//! answers with hidden states.

use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::tensors::TensorFile;
use crate::model::Model;
use crate::spec::params::{Layout, Tensor};
use crate::spec::{Cell, NetSpec};

/// What a state dict does not say.
#[derive(Debug, Clone, Default)]
pub struct Import {
    /// What stands before the names: `encoder.lstm.`; found by itself where there is only one network.
    /// Tensors without it, or with one where there is none, are not looked at.
    pub prefix: Option<String>,
    /// A plain RNN was trained with `nonlinearity='relu'`.
    pub relu: bool,
}

const FIRST: &str = "weight_ih_l0";
/// Prefixes that a message names.
const MAX_LISTED: usize = 12;

impl Model {
    /// Imports a PyTorch state dict from the bytes of a safetensors file or of what `torch.save` wrote.
    pub fn import_bytes(bytes: &[u8], options: &Import) -> Result<Model> {
        let file = TensorFile::parse(bytes)?;
        if file.header().is_some() {
            if options.prefix.is_some() || options.relu {
                return Err(refuse(
                    "is drnn's own, and says itself what its names and activation are",
                ));
            }
            return Model::from_file(&file);
        }
        let prefix = find_prefix(&file, options)?;
        let spec = find_spec(&file, &prefix, options)?;
        let layout = Layout::new(&spec);
        check_names(&file, &prefix, &layout, &spec)?;
        // Only biases may be missing, and are zero then.
        let named = layout.tensors().iter().map(|tensor| {
            let name = format!("{prefix}{}", tensor.name);
            (file.has(&name).then_some(name), tensor)
        });
        let named: Vec<(Option<String>, &Tensor)> = named.collect();
        for (name, tensor) in &named {
            name.as_ref().map_or(Ok(()), |name| file.check(name, &tensor.dims))?;
        }
        // Tensors may share their memory, but among weights that is rare, and not many times over.
        if layout.len() > file.len() {
            let (values, len) = (layout.len(), file.len());
            return Err(refuse(format!(
                "claims {values} weights, but the whole file has {len} bytes"
            )));
        }
        let mut params = Vec::new();
        for (name, tensor) in &named {
            match name {
                Some(name) => params.extend(file.values(name, &tensor.dims)?),
                None => params.resize(params.len() + tensor.range.len(), 0.0),
            }
        }
        Model::from_params(&spec, params)
    }
}

fn find_prefix(file: &TensorFile, options: &Import) -> Result<String> {
    let found: Vec<&str> = file.names().filter_map(|name| name.strip_suffix(FIRST)).collect();
    let mut listed: Vec<String> =
        found.iter().take(MAX_LISTED).map(|prefix| format!("`{}`", short(prefix))).collect();
    if found.len() > MAX_LISTED {
        listed.push(format!("and {} more", found.len() - MAX_LISTED));
    }
    let listed = listed.join(", ");
    match (&options.prefix, found.as_slice()) {
        (Some(prefix), _) if found.contains(&prefix.as_str()) => Ok(prefix.clone()),
        (Some(prefix), _) => {
            let listed = if listed.is_empty() { "none" } else { &listed };
            Err(refuse(format!(
                "tensor `{prefix}{FIRST}` is missing; prefixes that have one: {listed}"
            )))
        }
        (None, [prefix]) => Ok((*prefix).into()),
        (None, []) => Err(refuse(format!(
            "tensor `{FIRST}` is missing: not the state dict of an nn.RNN, nn.LSTM or nn.GRU"
        ))),
        (None, many) => Err(refuse(format!(
            "holds {} recurrent networks ({listed}): say which prefix",
            many.len()
        ))),
    }
}

fn find_spec(file: &TensorFile, prefix: &str, options: &Import) -> Result<NetSpec> {
    let has = |name: &str| file.has(&format!("{prefix}{name}"));
    let matrix = |name: &str| -> Result<[usize; 2]> {
        let name = format!("{prefix}{name}");
        let shape = file.shape(&name)?;
        let &[rows, cols] = shape else {
            let name = short(&name);
            return Err(refuse(format!("tensor `{name}` has shape {shape:?}, expected a matrix")));
        };
        Ok([rows, cols])
    };
    let mut units = Vec::new();
    let mut gates = None;
    while has(&format!("weight_ih_l{}", units.len())) {
        let name = format!("weight_hh_l{}", units.len());
        let [rows, n] = matrix(&name)?;
        if n == 0 {
            return Err(refuse(format!(
                "tensor `{prefix}{name}` has shape [{rows}, {n}]: no units"
            )));
        }
        let of = gates.get_or_insert(rows / n);
        if rows != *of * n {
            let expected = format!("{of} rows per unit");
            return Err(refuse(format!(
                "tensor `{prefix}{name}` has shape [{rows}, {n}], expected {expected}"
            )));
        }
        units.push(n);
    }
    if options.relu && gates != Some(1) {
        return Err(refuse("only a plain RNN (nn.RNN) has relu for an activation"));
    }
    let cell = match gates {
        Some(4) => Cell::Lstm,
        Some(3) => Cell::Gru,
        Some(1) if options.relu => Cell::RnnRelu,
        Some(1) => Cell::RnnTanh,
        gates => {
            let gates = gates.unwrap_or(0);
            return Err(refuse(format!(
                "tensor `{prefix}weight_hh_l0` has {gates} rows per unit, expected 1 (RNN), 3 (GRU) \
                 or 4 (LSTM)"
            )));
        }
    };
    let mut builder = NetSpec::builder(cell).dense(matrix(FIRST)?[1]).units(units);
    if has("weight_ih_l0_reverse") {
        builder = builder.bidirectional();
    }
    builder.build()
}

/// Either all biases are there or none are, and nothing is there that the network would not use.
fn check_names(file: &TensorFile, prefix: &str, layout: &Layout, spec: &NetSpec) -> Result<()> {
    let own = file.names().filter_map(|name| name.strip_prefix(prefix));
    let own: Vec<&str> = own.filter(|name| !name.contains('.')).collect();
    let biases = own.iter().filter(|name| name.starts_with("bias_")).count();
    for tensor in layout.tensors() {
        let optional = tensor.name.starts_with("bias_") && biases == 0;
        if !optional && !own.contains(&tensor.name.as_str()) {
            return Err(refuse(format!("tensor `{prefix}{}` is missing", tensor.name)));
        }
    }
    match own.iter().find(|name| layout.find(name).is_none()) {
        None => Ok(()),
        Some(name) if name.starts_with("weight_hr_") => Err(refuse(format!(
            "tensor `{}`: projections (proj_size) are not supported",
            short(&format!("{prefix}{name}"))
        ))),
        Some(name) => {
            let name = short(&format!("{prefix}{name}"));
            Err(refuse(format!("unexpected tensor `{name}` in {spec}")))
        }
    }
}
