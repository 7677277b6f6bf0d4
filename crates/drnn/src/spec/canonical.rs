//! A spec as text that never changes, for files that must recognise their network.
//!
//! ```text
//! drnn-spec/1 cell=lstm input=dense:2 units=3 direction=forward delay=2 padding=null outputs=2 blocks=none
//! ```
//!
//! | field | values |
//! |---|---|
//! | `cell` | `rnn-tanh`, `rnn-relu`, `lstm`, `gru`, `gru-reset-before` |
//! | `input` | `dense:q`, `tokens:symbols:embedding` |
//! | `units` | one number per layer, separated by commas |
//! | `direction` | `forward`, `bidirectional` |
//! | `delay` | a number |
//! | `padding` | `null`, `symbol:id`, `look-ahead` |
//! | `outputs` | `none` or a number |
//! | `blocks` | `none` or `widths:connections:start`, e.g. `3,2:stacked:held`, `2,2:list(0-0,1-0,1-1):free` |
//!
//! Every field is there, in this order, separated by one space; numbers are decimal. A network that
//! this form cannot express needs a new version number, and the text of all others stays: a network with
//! a projection is `drnn-spec/2`, which has one field more, `projection=p`.
//!
//! Version 0.1.0 identified networks by the `Debug` text of a spec in snapshots, and by its `Display`
//! text in checkpoints. Both are reproduced here as they were then, so that those files still load.

use super::blocks::{Connections, StartState};
use super::{Cell, Direction, InputSpec, NetSpec, Padding};
use crate::error::text::grouped;
use crate::prelude::*;
use core::fmt::Display;

fn list<T: Display>(values: impl IntoIterator<Item = T>, separator: &str) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(separator)
}

impl NetSpec {
    /// Text that identifies the network, equal for equal specs only. It is the same in every version
    /// of drnn that writes `drnn-spec/1` (or 2), whatever becomes of `Display` and `Debug`: files use it.
    ///
    /// ```
    /// use drnn::{Cell, NetSpec, Padding};
    ///
    /// let spec = NetSpec::builder(Cell::Gru).tokens(28, 10).units([512]);
    /// let spec = spec.delay(8, Padding::LookAhead).outputs(27).build()?;
    /// assert_eq!(
    ///     spec.canonical(),
    ///     "drnn-spec/1 cell=gru input=tokens:28:10 units=512 direction=forward delay=8 \
    ///      padding=look-ahead outputs=27 blocks=none"
    /// );
    /// # Ok::<(), drnn::Error>(())
    /// ```
    pub fn canonical(&self) -> String {
        let cell = match self.cell {
            Cell::RnnTanh => "rnn-tanh",
            Cell::RnnRelu => "rnn-relu",
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
            Cell::GruResetBefore => "gru-reset-before",
        };
        let input = match self.input {
            InputSpec::Dense(q) => format!("dense:{q}"),
            InputSpec::Tokens { symbols, embedding } => format!("tokens:{symbols}:{embedding}"),
        };
        let direction = match self.direction {
            Direction::Forward => "forward",
            Direction::Bidirectional => "bidirectional",
        };
        let padding = match self.padding {
            Padding::Null => "null".to_string(),
            Padding::Symbol(id) => format!("symbol:{id}"),
            Padding::LookAhead => "look-ahead".to_string(),
        };
        let outputs = self.outputs.map_or("none".into(), |m| m.to_string());
        let blocks = self.blocks.as_ref().map_or("none".to_string(), |blocks| {
            let connections = match blocks.connected() {
                Connections::Stacked => "stacked".to_string(),
                Connections::Lower => "lower".to_string(),
                Connections::Upper => "upper".to_string(),
                Connections::All => "all".to_string(),
                Connections::List(pairs) => {
                    format!("list({})", list(pairs.iter().map(|(i, j)| format!("{i}-{j}")), ","))
                }
            };
            let start = match blocks.start_state() {
                StartState::Held => "held",
                StartState::Solved => "solved",
                StartState::Free => "free",
            };
            format!("{}:{connections}:{start}", list(blocks.widths(), ","))
        });
        let (units, delay) = (list(&self.units, ","), self.delay);
        let (version, projection) = match self.projection {
            None => (1, String::new()),
            Some(p) => (2, format!(" projection={p}")),
        };
        format!(
            "drnn-spec/{version} cell={cell} input={input} units={units} direction={direction} \
             delay={delay} padding={padding} outputs={outputs} blocks={blocks}{projection}"
        )
    }

    /// The `Debug` text of version 0.1.0, which its snapshots hash.
    pub(crate) fn debug_of_0_1(&self) -> String {
        let cell = match self.cell {
            Cell::RnnTanh => "RnnTanh",
            Cell::RnnRelu => "RnnRelu",
            Cell::Lstm => "Lstm",
            Cell::Gru => "Gru",
            Cell::GruResetBefore => "GruResetBefore", // not in 0.1.0
        };
        let input = match self.input {
            InputSpec::Dense(q) => format!("Dense({q})"),
            InputSpec::Tokens { symbols, embedding } => {
                format!("Tokens {{ symbols: {symbols}, embedding: {embedding} }}")
            }
        };
        let direction = match self.direction {
            Direction::Forward => "Forward",
            Direction::Bidirectional => "Bidirectional",
        };
        let padding = match self.padding {
            Padding::Null => "Null".to_string(),
            Padding::Symbol(id) => format!("Symbol({id})"),
            Padding::LookAhead => "LookAhead".to_string(),
        };
        let outputs = self.outputs.map_or("None".into(), |m| format!("Some({m})"));
        let blocks = self.blocks.as_ref().map_or("None".to_string(), |blocks| {
            let connections = match blocks.connected() {
                Connections::Stacked => "Stacked".to_string(),
                Connections::Lower => "Lower".to_string(),
                Connections::Upper => "Upper".to_string(),
                Connections::All => "All".to_string(),
                Connections::List(pairs) => {
                    let pairs = list(pairs.iter().map(|(i, j)| format!("({i}, {j})")), ", ");
                    format!("List([{pairs}])")
                }
            };
            let start = match blocks.start_state() {
                StartState::Held => "Held",
                StartState::Solved => "Solved",
                StartState::Free => "Free",
            };
            let widths = list(blocks.widths(), ", ");
            format!(
                "Some(Blocks {{ widths: [{widths}], connections: {connections}, start: {start} }})"
            )
        });
        let (units, delay) = (list(&self.units, ", "), self.delay);
        let (parameters, free) = (self.parameters, self.free);
        format!(
            "NetSpec {{ cell: {cell}, input: {input}, units: [{units}], direction: {direction}, \
             delay: {delay}, padding: {padding}, outputs: {outputs}, blocks: {blocks}, \
             parameters: {parameters}, free: {free} }}"
        )
    }

    /// The `Display` text of version 0.1.0, which its checkpoints hold.
    #[doc(hidden)]
    pub fn display_of_0_1(&self) -> String {
        let prefix = match (self.direction, self.delay) {
            (Direction::Bidirectional, _) => "bi",
            (Direction::Forward, 0) => "",
            (Direction::Forward, _) => "d",
        };
        let cell = match self.cell {
            Cell::RnnTanh | Cell::RnnRelu => "rnn",
            Cell::Lstm => "lstm",
            Cell::Gru | Cell::GruResetBefore => "gru",
        };
        let widths = self.blocks.as_ref().map_or(self.units.as_slice(), |b| b.widths());
        let units = match widths {
            [n] => n.to_string(),
            all if all.iter().all(|n| *n == all[0]) => format!("{} x {}", all.len(), all[0]),
            all => list(all, " + "),
        };
        let mut text = format!("{prefix}{cell}({units} units");
        if self.direction == Direction::Bidirectional {
            text += " per direction";
        }
        if let Some(blocks) = &self.blocks {
            text += match blocks.connected() {
                Connections::Stacked => " in stacked blocks",
                Connections::Lower => " in lower blocks",
                Connections::Upper => " in upper blocks",
                Connections::All => " in all blocks",
                Connections::List(_) => " in listed blocks",
            };
            text += match blocks.start_state() {
                StartState::Held => "",
                StartState::Solved => ", start solved",
                StartState::Free => ", start free",
            };
        }
        if self.cell == Cell::RnnRelu {
            text += ", relu";
        }
        if self.cell == Cell::GruResetBefore {
            text += ", reset before"; // not in 0.1.0
        }
        if let Some(p) = self.projection {
            text += &format!(", projected to {p}"); // not in 0.1.0
        }
        if self.delay > 0 {
            text += &format!(", delay {}", self.delay);
        }
        text += &match (self.direction, self.delay) {
            (Direction::Bidirectional, _) => "): answers when the sequence has ended".to_string(),
            (_, 0) => "): answers at once".to_string(),
            (_, 1) => "): answers 1 step late".to_string(),
            (_, d) => format!("): answers {d} steps late"),
        };
        text += &match self.input {
            InputSpec::Dense(q) => format!("; {q}"),
            InputSpec::Tokens { symbols, embedding } => {
                format!("; {symbols} symbols -> {embedding}")
            }
        };
        for n in &self.hidden {
            text += &format!(" -> {}", n * self.direction.count());
        }
        if let Some(m) = self.outputs {
            text += &format!(" -> {m}");
        }
        text += &format!("; {} parameters", grouped(self.parameters));
        if self.free < self.parameters {
            text += &format!(", {} of them free", grouped(self.free));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Blocks, NetSpecBuilder};
    use alloc::collections::BTreeSet;

    fn specs() -> Vec<NetSpec> {
        let mut specs = Vec::new();
        let build = |b: NetSpecBuilder| b.build().unwrap();
        for cell in Cell::ALL {
            let net = NetSpec::builder(cell);
            let dense = net.clone().dense(2).units([3]);
            let tokens = net.clone().tokens(1000, 20).units([30, 30]);
            specs.push(build(dense.clone()));
            specs.push(build(dense.clone().delay(1, Padding::Null).outputs(2)));
            specs.push(build(dense.clone().bidirectional().outputs(4)));
            specs.push(build(dense.units([3, 12]).delay(2, Padding::LookAhead)));
            specs.push(build(tokens.clone().delay(7, Padding::Symbol(999)).outputs(1000)));
            specs.push(build(tokens.bidirectional()));
            let pairs = vec![(0, 0), (1, 0), (1, 1)];
            for connections in [
                Connections::Stacked,
                Connections::Lower,
                Connections::Upper,
                Connections::All,
                Connections::List(pairs),
            ] {
                for start in [StartState::Held, StartState::Free] {
                    let blocks = Blocks::new([3, 2]).connections(connections.clone()).start(start);
                    let net = net.clone().dense(1).blocks(blocks).outputs(1);
                    specs.push(build(net.delay(1, Padding::Null)));
                }
            }
        }
        let solved = Blocks::new([4, 4]).start(StartState::Solved);
        let solved = NetSpec::builder(Cell::Lstm).dense(1).blocks(solved);
        specs.push(build(solved.delay(3, Padding::Null)));
        let projected = NetSpec::builder(Cell::Lstm).dense(2).units([7, 5]).projection(3);
        specs.push(build(projected.clone()));
        specs.push(build(projected.delay(1, Padding::Null).outputs(2)));
        specs
    }

    /// `Display` is what it was in 0.1.0, but for how it says when outputs come; `Debug` is no longer. Where
    /// it changes on purpose this goes away; the fixtures in `tests/` stay.
    #[test]
    fn the_text_of_0_1_is_that_of_display() {
        for spec in specs() {
            let words = [
                ("): outputs ", "): answers "),
                ("): no delay", "): answers at once"),
                ("): needs the whole sequence", "): answers when the sequence has ended"),
            ];
            let then =
                words.iter().fold(spec.to_string(), |text, (now, then)| text.replace(now, then));
            assert_eq!(spec.display_of_0_1(), then);
        }
    }

    #[test]
    fn different_specs_have_different_canonical_texts() {
        let specs = specs();
        let texts: BTreeSet<String> = specs.iter().map(NetSpec::canonical).collect();
        assert_eq!(texts.len(), specs.len());
        assert_eq!(
            specs.iter().rev().map(NetSpec::canonical).find(|text| text.contains("list")).unwrap(),
            "drnn-spec/1 cell=gru-reset-before input=dense:1 units=5 direction=forward delay=1 padding=null \
             outputs=1 blocks=3,2:list(0-0,1-0,1-1):free"
        );
        assert_eq!(
            specs.last().unwrap().canonical(),
            "drnn-spec/2 cell=lstm input=dense:2 units=7,5 direction=forward delay=1 padding=null \
             outputs=2 blocks=none projection=3"
        );
    }
}
