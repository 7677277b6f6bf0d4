//! The recurrence in a state dict: which tensors it is made of, and what they say about it.
//!
//! Everything but a plain RNN's activation can be read off names and shapes: layers from the number in
//! the name, both directions from `_reverse`, the cell from the rows of `weight_hh` per unit, the width
//! that an LSTM's states are projected to from `weight_hr`. Cells
//! with numbers (`cells.0.`, `cells.1.`) whose widths fit are the layers of one stack. Biases may be
//! missing (`bias=False`): they are zero then.

use super::names::{Group, Kind, Place, groups, numbered_prefix};
use super::refusal::{nothing_found, variant};
use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::tensors::TensorFile;
use crate::prelude::*;
use crate::spec::params::Layout;
use crate::spec::{Cell, NetSpec, NetSpecBuilder};
use alloc::collections::BTreeMap;

/// Recurrences that a message names.
const MAX_LISTED: usize = 12;
/// What may stand between a prefix and a name.
const SEPARATORS: [char; 4] = ['.', '_', '/', ':'];

/// One recurrent network: groups of tensors, each a layer or several, the lowest first.
pub(super) struct Recurrence {
    groups: Vec<Group>,
    /// What its names have in common: `encoder.lstm.`, or `cells.` of a stack of cells.
    pub prefix: String,
}

/// What shapes say about a group.
struct Sizes {
    gates: usize,
    inputs: usize,
    /// Width of h of each layer.
    hidden: Vec<usize>,
    directions: usize,
}

impl Recurrence {
    fn one(group: &Group) -> Recurrence {
        Recurrence { prefix: group.prefix.clone(), groups: vec![group.clone()] }
    }

    /// The recurrence of that prefix, or the only one in the file.
    pub fn find(file: &TensorFile, prefix: Option<&str>) -> Result<Recurrence> {
        let all = groups(file);
        if let Some(prefix) = prefix {
            return with_prefix(file, &all, prefix).ok_or_else(|| {
                let listed = match all.is_empty() {
                    true => "none".into(),
                    false => listed(file, &all),
                };
                let prefix = short(prefix);
                refuse(format!(
                    "no recurrent network has the prefix `{prefix}`; prefixes that have one: {listed}"
                ))
            });
        }
        match all.as_slice() {
            [] => Err(nothing_found(file)),
            [group] => Ok(Recurrence::one(group)),
            all => whole_stack(file, all).ok_or_else(|| {
                let (count, listed) = (all.len(), listed(file, all));
                let first = short(all[0].prefix.trim_end_matches(SEPARATORS));
                refuse(format!(
                    "holds {count} recurrent networks: {listed}; \
                     choose one by its prefix, such as --prefix {first}"
                ))
            }),
        }
    }

    /// Names of all its tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| group.names.values()).map(String::as_str)
    }

    /// A stack of separate cells or networks, for messages.
    pub fn stacked(&self) -> Option<String> {
        let prefixes = self.groups.iter().map(|group| format!("`{}`", short(&group.prefix)));
        (self.groups.len() > 1).then(|| prefixes.collect::<Vec<_>>().join(", "))
    }

    /// Name of the tensor that `name` of the layout is read from; None where there is none.
    pub fn name(&self, name: &str) -> Option<&str> {
        let (group, place) = self.place(name)?;
        group.names.get(&place).map(String::as_str)
    }

    /// The group of a tensor of the layout, and its place there.
    fn place(&self, name: &str) -> Option<(&Group, Place)> {
        let mut place = Place::of(name)?;
        for group in &self.groups {
            match place.layer.checked_sub(group.layers()) {
                None => return Some((group, place)),
                Some(layer) => place.layer = layer,
            }
        }
        None
    }

    /// Cell, layers, directions and width of the input.
    pub fn spec(&self, file: &TensorFile, relu: bool) -> Result<(NetSpecBuilder, usize)> {
        let (mut units, mut gates, mut projection) = (Vec::new(), None, None);
        for group in &self.groups {
            for layer in 0..group.layers() {
                let shape = LayerShape::of(file, group, layer)?;
                let LayerShape { rows, units: n, hidden } = shape;
                let of = *gates.get_or_insert(rows / n);
                if rows != of * n {
                    let name = expected(group, layer, Kind::WeightHh);
                    return Err(refuse(format!(
                        "tensor `{name}` has shape [{rows}, {hidden}], expected {of} rows per unit"
                    )));
                }
                units.push(n);
                projection = projection.or(shape.projection());
            }
        }
        if relu && gates != Some(1) {
            return Err(refuse("only a plain RNN (nn.RNN) has relu for an activation"));
        }
        let cell = match gates {
            Some(4) => Cell::Lstm,
            Some(3) => Cell::Gru,
            Some(1) if relu => Cell::RnnRelu,
            Some(1) => Cell::RnnTanh,
            gates => {
                let (name, gates) = (self.first(Kind::WeightHh), gates.unwrap_or(0));
                return Err(refuse(format!(
                    "tensor `{name}` has {gates} rows per unit, expected 1 (RNN), 3 (GRU) or 4 (LSTM)"
                )));
            }
        };
        let [_, inputs] = matrix(file, &self.first(Kind::WeightIh))?;
        let mut builder = NetSpec::builder(cell).units(units);
        if let Some(p) = projection {
            if cell != Cell::Lstm {
                let name = self.first(Kind::WeightHr);
                return Err(refuse(format!("tensor `{name}`: only an LSTM has a projection")));
            }
            builder = builder.projection(p);
        }
        if self.groups[0].is_bidirectional() {
            builder = builder.bidirectional();
        }
        Ok((builder, inputs))
    }

    fn first(&self, kind: Kind) -> String {
        expected(&self.groups[0], 0, kind)
    }

    /// Either all biases are there or none are, and nothing is there that the network would not use.
    pub fn check(&self, file: &TensorFile, layout: &Layout, spec: &NetSpec) -> Result<()> {
        let is_bias = |kind| matches!(kind, Kind::BiasIh | Kind::BiasHh);
        let mut places = self.groups.iter().flat_map(|group| group.names.keys());
        let has_biases = places.any(|place| is_bias(place.kind));
        let mut used = 0;
        for tensor in layout.tensors() {
            let Some((group, place)) = self.place(&tensor.name) else { continue };
            match group.names.contains_key(&place) {
                true => used += 1,
                false if is_bias(place.kind) && !has_biases => {}
                false => {
                    let name = short(&group.expected(place));
                    return Err(refuse(format!("tensor `{name}` is missing")));
                }
            }
        }
        let unused =
            |name: &&str| !layout.tensors().iter().any(|t| self.name(&t.name) == Some(name));
        if used < self.names().count()
            && let Some(name) = self.names().find(unused)
        {
            return Err(unexpected(name, spec));
        }
        self.groups.iter().try_for_each(|group| check_children(file, group, spec))
    }
}

/// Tensors of a module that computes something else than PyTorch's cell.
fn check_children(file: &TensorFile, group: &Group, spec: &NetSpec) -> Result<()> {
    let prefix = group.prefix.as_str();
    // Of flat names (`enc_w_ih`), others with the same beginning may be anything.
    let is_module = prefix.is_empty() || prefix.ends_with('.');
    let pytorch = expected(group, 0, Kind::WeightIh).contains("weight_ih");
    let used: Vec<&String> = group.names.values().collect();
    for name in file.names().filter(|name| name.starts_with(prefix)) {
        let rest = &name[prefix.len()..];
        if used.iter().any(|used| *used == name) {
            continue;
        }
        if let Some(kind) = variant(rest, !prefix.is_empty()) {
            let name = short(name);
            return Err(refuse(format!(
                "tensor `{name}`: {kind}, which is not supported; only PyTorch's equations are"
            )));
        }
        if is_module && pytorch && !rest.contains('.') {
            return Err(unexpected(name, spec));
        }
    }
    Ok(())
}

fn unexpected(name: &str, spec: &NetSpec) -> crate::Error {
    refuse(format!("unexpected tensor `{}` in {spec}", short(name)))
}

fn expected(group: &Group, layer: usize, kind: Kind) -> String {
    short(&group.expected(Place { layer, kind, reverse: false }))
}

/// What `weight_hh` and, of a projected LSTM, `weight_hr` say about a layer.
struct LayerShape {
    /// Rows of `weight_hh`: gates times units.
    rows: usize,
    units: usize,
    /// Width of its h: its units, or fewer that they are projected to.
    hidden: usize,
}

impl LayerShape {
    fn of(file: &TensorFile, group: &Group, layer: usize) -> Result<LayerShape> {
        let expected = expected(group, layer, Kind::WeightHh);
        let name = group.name(layer, Kind::WeightHh, false);
        let name = name.ok_or_else(|| refuse(format!("tensor `{expected}` is missing")))?;
        let [rows, hidden] = matrix(file, name)?;
        let units = match group.name(layer, Kind::WeightHr, false) {
            Some(name) => matrix(file, name)?[1],
            None => hidden,
        };
        if units == 0 || hidden == 0 {
            let shape = format!("tensor `{expected}` has shape [{rows}, {hidden}]");
            return Err(refuse(format!("{shape}: no units")));
        }
        if rows < hidden {
            return Err(refuse(format!(
                "tensor `{expected}` has shape [{rows}, {hidden}], fewer rows than columns: it looks \
                 transposed, and the order of its gates is unknown"
            )));
        }
        Ok(LayerShape { rows, units, hidden })
    }

    fn projection(&self) -> Option<usize> {
        (self.hidden != self.units).then_some(self.hidden)
    }
}

fn matrix(file: &TensorFile, name: &str) -> Result<[usize; 2]> {
    let shape = file.shape(name)?;
    let &[rows, cols] = shape else {
        let name = short(name);
        return Err(refuse(format!("tensor `{name}` has shape {shape:?}, expected a matrix")));
    };
    Ok([rows, cols])
}

fn sizes(file: &TensorFile, group: &Group) -> Option<Sizes> {
    let layers = (0..group.layers()).map(|layer| LayerShape::of(file, group, layer).ok());
    let layers: Vec<LayerShape> = layers.collect::<Option<_>>()?;
    let LayerShape { rows, units, .. } = *layers.first()?;
    let [_, inputs] = matrix(file, group.name(0, Kind::WeightIh, false)?).ok()?;
    let hidden = layers.iter().map(|layer| layer.hidden).collect();
    let directions = if group.is_bidirectional() { 2 } else { 1 };
    Some(Sizes { gates: rows / units, inputs, hidden, directions })
}

/// Groups for a message: prefix, cell and widths.
fn listed(file: &TensorFile, all: &[Group]) -> String {
    let described = all.iter().take(MAX_LISTED).map(|group| {
        let prefix = short(&group.prefix);
        let Some(Sizes { gates, inputs, hidden, directions }) = sizes(file, group) else {
            return format!("`{prefix}`");
        };
        let cell = match gates {
            4 => "lstm ",
            3 => "gru ",
            1 => "rnn ",
            _ => "",
        };
        let both = if directions == 2 { "bi" } else { "" };
        let widths: Vec<String> = hidden.iter().map(|n| (n * directions).to_string()).collect();
        format!("`{prefix}` ({both}{cell}{inputs} -> {})", widths.join(" -> "))
    });
    let mut described: Vec<String> = described.collect();
    if all.len() > MAX_LISTED {
        described.push(format!("and {} more", all.len() - MAX_LISTED));
    }
    described.join(", ")
}

/// The recurrence that a user's prefix names: exactly, as a stack, as the only one inside it, or as
/// the only one whose prefix contains it (`rnn` of `module.rnn.`).
fn with_prefix(file: &TensorFile, all: &[Group], prefix: &str) -> Option<Recurrence> {
    let plain = |text: &str| text.trim_end_matches(SEPARATORS).to_string();
    let wanted = plain(prefix);
    if let Some(group) = all.iter().find(|group| plain(&group.prefix) == wanted) {
        return Some(Recurrence::one(group));
    }
    if let Some(stack) = stacks(file, all).into_iter().find(|stack| plain(&stack.prefix) == wanted)
    {
        return Some(stack);
    }
    let only = |found: Vec<Group>| match found.as_slice() {
        [] => None,
        [group] => Some(Recurrence::one(group)),
        many => whole_stack(file, many),
    };
    let matching = |matches: &dyn Fn(&str) -> bool| {
        only(all.iter().filter(|group| matches(&group.prefix)).cloned().collect())
    };
    let inside =
        |found: &str| found.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with(SEPARATORS));
    let within = |found: &str| format!(".{found}").contains(&format!(".{wanted}."));
    matching(&inside).or_else(|| matching(&within))
}

/// All of these groups as one stack, where they are cells.
fn whole_stack(file: &TensorFile, all: &[Group]) -> Option<Recurrence> {
    let cells = all.iter().all(|group| !group.numbered);
    stacks(file, all).into_iter().find(|stack| cells && stack.groups.len() == all.len())
}

/// Groups whose prefixes are numbered without a gap and whose widths fit each other.
fn stacks(file: &TensorFile, all: &[Group]) -> Vec<Recurrence> {
    let mut numbered: BTreeMap<&str, BTreeMap<usize, &Group>> = BTreeMap::new();
    for group in all {
        if let Some((base, number)) = numbered_prefix(&group.prefix) {
            numbered.entry(base).or_default().insert(number, group);
        }
    }
    let stacks = numbered.into_iter().filter_map(|(base, members)| {
        let first = *members.keys().next()?;
        let in_order = members.keys().copied().eq(first..first + members.len());
        let sizes: Option<Vec<Sizes>> = members.values().map(|group| sizes(file, group)).collect();
        let sizes = sizes?;
        let fit = sizes.windows(2).all(|pair| {
            let below = pair[0].hidden.last().map_or(0, |n| n * pair[0].directions);
            (pair[0].gates, pair[0].directions, below)
                == (pair[1].gates, pair[1].directions, pair[1].inputs)
        });
        let groups: Vec<Group> = members.into_values().cloned().collect();
        (first <= 1 && groups.len() > 1 && in_order && fit)
            .then(|| Recurrence { groups, prefix: base.into() })
    });
    stacks.collect()
}
