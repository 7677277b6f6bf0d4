//! What the names of tensors say: which recurrence one belongs to, and as what.
//!
//! ```text
//! encoder.lstm.weight_ih_l1_reverse   nn.LSTM, nn.GRU, nn.RNN: layer 1, backward
//! cells.0.weight_ih                   nn.LSTMCell, nn.GRUCell, nn.RNNCell: one layer
//! enc_w_ih                            the same, as NumPy files have it
//! ```

use crate::io::tensors::TensorFile;
use crate::prelude::*;
use alloc::collections::BTreeMap;

/// What a tensor of a recurrence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    WeightIh,
    WeightHh,
    BiasIh,
    BiasHh,
    WeightHr,
}

/// PyTorch's names for them, and the short ones.
const KINDS: [(Kind, &str, &str); 5] = [
    (Kind::WeightIh, "weight_ih", "w_ih"),
    (Kind::WeightHh, "weight_hh", "w_hh"),
    (Kind::BiasIh, "bias_ih", "b_ih"),
    (Kind::BiasHh, "bias_hh", "b_hh"),
    (Kind::WeightHr, "weight_hr", "w_hr"),
];

/// A tensor's place in its recurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub layer: usize,
    pub kind: Kind,
    pub reverse: bool,
}

impl Place {
    /// The place that `name`, one of a [`Layout`](crate::spec::params::Layout), stands for.
    pub fn of(name: &str) -> Option<Place> {
        parse(name).filter(|found| found.prefix.is_empty()).map(|found| found.place)
    }
}

/// A name in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parsed<'a> {
    /// What comes before, with its last `.` or `_`.
    pub prefix: &'a str,
    pub place: Place,
    /// Whether it names its layer, as nn.LSTM's do and nn.LSTMCell's do not.
    pub numbered: bool,
}

/// The parts of a name, where it is one of a recurrence.
pub(super) fn parse(name: &str) -> Option<Parsed<'_>> {
    let (rest, reverse) = match name.strip_suffix("_reverse") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let digits = rest.len() - rest.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (rest, layer) = match rest.split_at(rest.len() - digits) {
        (before, layer) if digits > 0 => (before.strip_suffix("_l")?, Some(layer.parse().ok()?)),
        _ => (rest, None),
    };
    let ends = |end: &str| {
        let at = rest.len().checked_sub(end.len())?;
        let found = rest.get(at..)?;
        (found.eq_ignore_ascii_case(end)).then_some(&rest[..at])
    };
    let (kind, prefix) = KINDS.iter().find_map(|(kind, long, short)| {
        let prefix = ends(long).or_else(|| ends(short))?;
        Some((*kind, prefix))
    })?;
    let whole = prefix.is_empty() || prefix.ends_with(['.', '_', '/', ':']);
    let place = Place { layer: layer.unwrap_or(0), kind, reverse };
    whole.then_some(Parsed { prefix, place, numbered: layer.is_some() })
}

/// Tensors with one prefix that make up a recurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub prefix: String,
    pub numbered: bool,
    pub names: BTreeMap<Place, String>,
}

impl Group {
    /// Name of the tensor at a place.
    pub fn name(&self, layer: usize, kind: Kind, reverse: bool) -> Option<&str> {
        self.names.get(&Place { layer, kind, reverse }).map(String::as_str)
    }

    /// Name that a missing tensor would have.
    pub fn expected(&self, place: Place) -> String {
        let like = self.name(0, Kind::WeightIh, false).unwrap_or_default();
        let long = like.to_ascii_lowercase().contains("weight");
        let kind = KINDS.iter().find(|(kind, ..)| *kind == place.kind);
        let kind = kind.map_or("", |(_, full, short)| if long { full } else { short });
        let layer = if self.numbered { format!("_l{}", place.layer) } else { String::new() };
        format!("{}{kind}{layer}{}", self.prefix, if place.reverse { "_reverse" } else { "" })
    }

    /// Layers, as far as they are numbered without a gap.
    pub fn layers(&self) -> usize {
        (0..).take_while(|layer| self.name(*layer, Kind::WeightIh, false).is_some()).count()
    }

    /// Whether it has tensors of the other direction.
    pub fn is_bidirectional(&self) -> bool {
        self.name(0, Kind::WeightIh, true).is_some()
    }
}

/// All recurrences of a file, by prefix: those that have a first input matrix.
pub(super) fn groups(file: &TensorFile) -> Vec<Group> {
    let mut found: BTreeMap<(&str, bool), BTreeMap<Place, String>> = BTreeMap::new();
    for name in file.names() {
        if let Some(Parsed { prefix, place, numbered }) = parse(name) {
            found.entry((prefix, numbered)).or_default().insert(place, name.into());
        }
    }
    let groups = found.into_iter().map(|((prefix, numbered), names)| Group {
        prefix: prefix.into(),
        numbered,
        names,
    });
    groups.filter(|group| group.layers() > 0).collect()
}

/// The number at the end of a prefix, and what is before it: `cells.` and 1 of `cells.1.`, `lstm` and
/// 2 of `lstm2.`.
pub(super) fn numbered_prefix(prefix: &str) -> Option<(&str, usize)> {
    let rest = prefix.strip_suffix(['.', '_'])?;
    let base = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((base, rest[base.len()..].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_kinds() {
        let found = |name: &'static str| {
            parse(name).map(|p| (p.prefix, p.place.layer, p.place.kind, p.place.reverse))
        };
        assert_eq!(found("weight_ih_l0"), Some(("", 0, Kind::WeightIh, false)));
        let reverse = Some(("encoder.lstm.", 12, Kind::BiasHh, true));
        assert_eq!(found("encoder.lstm.bias_hh_l12_reverse"), reverse);
        assert_eq!(found("cells.0.weight_hh"), Some(("cells.0.", 0, Kind::WeightHh, false)));
        assert_eq!(found("enc_w_ih"), Some(("enc_", 0, Kind::WeightIh, false)));
        assert_eq!(found("gru/W_hh"), Some(("gru/", 0, Kind::WeightHh, false)));
        assert_eq!(found("lstm.weight_hr_l0"), Some(("lstm.", 0, Kind::WeightHr, false)));
        for other in ["fc.weight", "xweight_ih", "weight_ih_l", "weight_ih0", "b", "", "é_ih"] {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(numbered_prefix("cells.1."), Some(("cells.", 1)));
        assert_eq!(numbered_prefix("lstm2."), Some(("lstm", 2)));
        assert_eq!(numbered_prefix("rnn."), None);
    }
}
