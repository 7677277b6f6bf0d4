//! What a checkpoint is of, and how that differs from the training that would continue it.
//!
//! ```text
//! name; network; 100 + 20 sequences; {options as JSON}
//! ```
//!
//! The maximum number of epochs and the patience may differ: a training goes on with others.

use crate::error::{Error, Result};
use crate::training::Options;
use serde_json::{Map, Value};

/// What a training's checkpoints must be of.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// As this version writes it, and as version 0.1.0 did.
    texts: [String; 2],
    options: Options,
}

impl Identity {
    /// `networks` are in the words of this version, and of version 0.1.0; `sequences` of the
    /// training and the validation set.
    pub fn new(
        name: &str,
        networks: [String; 2],
        [train, valid]: [usize; 2],
        options: Options,
    ) -> Result<Identity> {
        let json = serde_json::to_string(&options).map_err(|e| Error::Options(e.to_string()))?;
        let texts = networks
            .map(|network| format!("{name}; {network}; {train} + {valid} sequences; {json}"));
        Ok(Identity { texts, options })
    }

    /// What a checkpoint says.
    pub fn text(&self) -> &str {
        &self.texts[0]
    }

    /// How a checkpoint that says `there` differs; None where it is of this training.
    pub fn difference(&self, there: &str) -> Option<String> {
        if self.texts.iter().any(|here| here == there) {
            return None;
        }
        let is_older = !there.contains("drnn-spec/1 ");
        let here = &self.texts[usize::from(is_older)];
        let (Some((here, _)), Some((there, options))) = (parts(here), parts(there)) else {
            return Some("it does not say of which".into());
        };
        let found = differences(here, there, &self.options, options);
        (!found.is_empty()).then(|| found.join("; "))
    }
}

/// Everything but the options, and the options.
fn parts(text: &str) -> Option<(&str, Options)> {
    let (what, json) = text.rsplit_once("; {")?;
    Some((what, serde_json::from_str(&format!("{{{json}")).ok()?))
}

/// What differs, in the order in which it is most likely the cause. Other data are named only where
/// nothing else is, because a seed, for one, changes them too.
fn differences(here: &str, there: &str, options: &Options, theirs: Options) -> Vec<String> {
    let mut comparable = Options { epochs: options.epochs, ..theirs };
    comparable.stopping.patience = options.stopping.patience;
    let mut found = Vec::new();
    let segments = |text: &str| -> Vec<String> { text.split("; ").map(Into::into).collect() };
    let (mut here, mut there) = (segments(here), segments(there));
    let (mine, other) = ([here.pop(), here.pop()], [there.pop(), there.pop()]);
    let ([counts, Some(network)], [other_counts, Some(other_network)]) = (mine, other) else {
        return vec!["it does not say of which".into()];
    };
    let is_data_same = here == there && counts == other_counts;
    network_differences(&network, &other_network, &mut found);
    // By way of text, which has the shortest digits of single-precision numbers.
    let json = |options: &Options| -> Option<Value> {
        serde_json::from_str(&serde_json::to_string(options).ok()?).ok()
    };
    if let (Some(mine), Some(other)) = (json(options), json(&comparable)) {
        // The default batch follows the data.
        option_differences("", &mine, &other, &mut found);
        found.retain(|(name, ..)| is_data_same || !["--batch", "inputs", "outputs"].contains(name));
    }
    if found.is_empty() && !is_data_same {
        let of = |text: Option<&String>| text.map_or("nothing".into(), |text| printable(text));
        let place = here.iter().zip(&there).position(|(a, b)| a != b);
        let (a, b) = match place {
            Some(i) => (here.get(i), there.get(i)),
            None if here.len() != there.len() => (here.last(), there.last()),
            None => (counts.as_ref(), other_counts.as_ref()),
        };
        return vec![format!("its data are \"{}\", not \"{}\"", of(b), of(a))];
    }
    let say = |(name, mine, other)| format!("{name} {mine}, but the checkpoint has {other}");
    found.into_iter().map(say).collect()
}

/// The option that sets it, its value here, and in the checkpoint.
type Difference = (&'static str, String, String);

/// Differences between the networks: one, or a tagger's two.
fn network_differences(here: &str, there: &str, found: &mut Vec<Difference>) {
    let is_tagger = here.contains(" | ");
    for (i, (here, there)) in here.split(" | ").zip(there.split(" | ")).enumerate() {
        for (mine, other) in here.split(' ').zip(there.split(' ')).filter(|(a, b)| a != b) {
            let (field, mine) = mine.split_once('=').unwrap_or(("", mine));
            let name = match (field, is_tagger, i) {
                ("units", false, _) => "--units",
                ("units", true, 0) => "--char-units",
                ("units", true, _) => "--word-units",
                ("delay", false, _) => "--delay",
                ("delay" | "cell" | "direction", true, 0) => "--char",
                ("delay" | "cell" | "direction", true, _) => "--word",
                ("cell" | "direction", false, _) => "--net",
                ("input", ..) => "inputs",
                ("outputs", ..) => "outputs",
                _ => "network",
            };
            let other = other.split_once('=').map_or(other, |(_, value)| value);
            found.push((name, printable(mine), printable(other)));
        }
    }
}

/// Differences between options as JSON.
fn option_differences(key: &str, here: &Value, there: &Value, found: &mut Vec<Difference>) {
    match (here, there) {
        (Value::Object(here), Value::Object(there)) if key != "schedule" => {
            // What is off is left out, on either side.
            let of =
                |map: &Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            for key in here.keys().chain(there.keys().filter(|key| !here.contains_key(*key))) {
                option_differences(key, &of(here, key), &of(there, key), found);
            }
        }
        (here, there) if here != there => {
            let name = match key {
                "batch" => "--batch",
                "rate" => "--rate",
                "schedule" => "--schedule",
                "clip" => "--clip",
                "seed" => "--seed",
                "weight_decay" => "--weight-decay",
                "between_layers" | "outputs" | "dropout" => "--dropout",
                _ => "option",
            };
            let shown = |value: &Value| match value {
                Value::String(text) => printable(text),
                Value::Null => "none".into(),
                Value::Object(_) => {
                    value.as_object().and_then(|o| o.keys().next().cloned()).unwrap_or_default()
                }
                other => other.to_string(),
            };
            let of = |value: &Value| match name {
                "option" => format!("{key} {}", shown(value)),
                _ => shown(value),
            };
            found.push((name, of(here), of(there)));
        }
        _ => {}
    }
}

/// Without what would move a terminal's cursor: it is from a file.
fn printable(text: &str) -> String {
    drnn::text::shortened(&text.replace(char::is_control, "\u{FFFD}"), 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::Schedule;

    const SPEC: &str = "drnn-spec/1 cell=lstm input=dense:2 units=64 direction=forward delay=2 \
        padding=null outputs=2 blocks=none";
    const NAME: &str = "series: a.csv: x -> y; windows of at most 100; data 01ab";

    fn identity(name: &str, spec: &str, options: Options) -> Identity {
        Identity::new(name, [spec.into(), "LSTM".into()], [100, 20], options).unwrap()
    }

    fn difference(name: &str, spec: &str, options: Options) -> Option<String> {
        let there = identity(NAME, SPEC, Options::default());
        identity(name, spec, options).difference(there.text())
    }

    #[test]
    fn the_one_difference_is_named() {
        let of = |spec: &str, options| difference(NAME, spec, options).unwrap();
        let options = Options::default();
        let dropped = Options { dropout: 0.5, ..options };
        assert_eq!(of(SPEC, dropped), "--dropout 0.5, but the checkpoint has none");
        let there = identity(NAME, SPEC, dropped);
        let found = identity(NAME, SPEC, options).difference(there.text()).unwrap();
        assert_eq!(found, "--dropout none, but the checkpoint has 0.5");
        assert_eq!(
            of(&SPEC.replace("64", "200"), options),
            "--units 200, but the checkpoint has 64"
        );
        assert_eq!(
            of(&SPEC.replace("delay=2", "delay=5"), options),
            "--delay 5, but the checkpoint has 2"
        );
        assert_eq!(
            of(SPEC, Options { rate: 0.5, ..options }),
            "--rate 0.5, but the checkpoint has 0.001"
        );
        assert_eq!(
            of(SPEC, Options { schedule: Schedule::Cosine, ..options }),
            "--schedule cosine, but the checkpoint has constant"
        );
        let two = of(&SPEC.replace("lstm", "gru"), Options { seed: 7, ..options });
        assert_eq!(
            two,
            "--net gru, but the checkpoint has lstm; --seed 7, but the checkpoint has 1"
        );
        let windows = NAME.replace("100", "50");
        assert_eq!(
            difference(&windows, SPEC, options).unwrap(),
            "its data are \"windows of at most 100\", not \"windows of at most 50\""
        );
        // A seed that changes the data too.
        let seed = difference(&NAME.replace("01ab", "02"), SPEC, Options { seed: 7, ..options });
        assert_eq!(seed.unwrap(), "--seed 7, but the checkpoint has 1");
        let tagger =
            |words: &str| format!("{SPEC} | {} | learned vectors", SPEC.replace("64", words));
        let there = identity(NAME, &tagger("30"), options);
        let here = identity(NAME, &tagger("40"), options);
        assert_eq!(
            here.difference(there.text()).unwrap(),
            "--word-units 40, but the checkpoint has 30"
        );
        assert!(here.difference("something else").is_some());
    }

    #[test]
    fn epochs_and_patience_may_differ() {
        let mut options = Options { epochs: 7, ..Options::default() };
        options.stopping.patience = Some(3);
        assert_eq!(difference(NAME, SPEC, options), None);
        let older = identity(NAME, SPEC, Options::default()).texts[1].clone();
        assert_eq!(identity(NAME, SPEC, options).difference(&older), None);
    }
}
