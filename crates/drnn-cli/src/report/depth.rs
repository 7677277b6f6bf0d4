//! Results of `drnn reproduce depth`: the file, its table and its plot.

use super::Head;
use crate::plot::{Line, Plot, Scale, Style};
use drnn::Direction;
use drnn::text::grouped;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The contents of depth.json.
#[derive(Debug, Serialize)]
pub struct DepthResults {
    #[serde(flatten)]
    pub head: Head,
    /// Checked pairs of input and output.
    pub pairs_checked: usize,
    pub offsets: Vec<i16>,
    pub nets: Vec<CountedNetwork>,
}

/// A network, and for each offset its non-linearities; null where the output does not depend on the input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedNetwork {
    pub name: String,
    pub layers: usize,
    pub direction: Direction,
    pub delay: usize,
    pub longest: Vec<Option<usize>>,
    pub shortest: Vec<Option<usize>>,
}

impl DepthResults {
    pub fn table(&self) -> String {
        let mut rows =
            vec![("offset dt".into(), self.offsets.iter().map(i16::to_string).collect())];
        let cells = |numbers: &[Option<usize>]| -> Vec<String> {
            numbers.iter().map(|n| n.map_or(".".into(), |n| n.to_string())).collect()
        };
        let mut detour = false;
        for net in &self.nets {
            rows.push((net.name.clone(), cells(&net.longest)));
            if net.longest != net.shortest {
                rows.push(("  shortest way".into(), cells(&net.shortest)));
                detour = true;
            }
        }
        let names = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let width = rows.iter().flat_map(|(_, cells)| cells).map(String::len).max().unwrap_or(0);
        let mut out = String::from("non-linearities between input x_{t+dt} and output y_t\n\n");
        for (name, cells) in &rows {
            let _ = write!(out, "{name:names$} ");
            cells.iter().for_each(|cell| {
                let _ = write!(out, " {cell:>width$}");
            });
            out.push('\n');
        }
        out.push_str("\n. the output does not depend on that input\n");
        if detour {
            out.push_str(
                "Bi-RNN of several layers: the longest path turns round at the ends of the sequence, \
                 here the first and last offset\n",
            );
        }
        let pairs = grouped(self.pairs_checked);
        let _ = writeln!(
            out,
            "checked against the equations, {pairs} pairs of input and output: same counts, and a \
             derivative exactly where there is a path"
        );
        out
    }

    pub fn csv(&self) -> String {
        let mut out = String::from("net,layers,direction,delay,offset,longest,shortest\n");
        let cell = |n: Option<usize>| n.map_or(String::new(), |n| n.to_string());
        for net in &self.nets {
            let direction = match net.direction {
                Direction::Forward => "forward",
                Direction::Bidirectional => "bidirectional",
            };
            let numbers = net.longest.iter().zip(&net.shortest);
            for (offset, (&longest, &shortest)) in self.offsets.iter().zip(numbers) {
                let CountedNetwork { name, layers, delay, .. } = net;
                let (longest, shortest) = (cell(longest), cell(shortest));
                let _ = writeln!(
                    out,
                    "\"{name}\",{layers},{direction},{delay},{offset},{longest},{shortest}"
                );
            }
        }
        out
    }

    pub fn plot(&self) -> Plot {
        plot(&self.offsets, &self.nets)
    }
}

/// The paper's figure.
pub fn plot(offsets: &[i16], nets: &[CountedNetwork]) -> Plot {
    let mut lines = Vec::new();
    for (colour, net) in nets.iter().enumerate() {
        let points = |numbers: &[Option<usize>]| {
            let pairs = offsets.iter().zip(numbers);
            pairs.filter_map(|(&dt, &n)| Some((dt.into(), n? as f64))).collect()
        };
        // Up to dt = 0 an RNN and a Bi-RNN are equal: dashes show both.
        let causal = net.direction == Direction::Forward && net.delay == 0;
        let style = if causal { Style::Dashed } else { Style::Solid };
        lines.push(Line {
            name: net.name.clone(),
            style,
            colour,
            points: points(&net.longest),
            strength: 1.0,
            bars: Vec::new(),
        });
        if net.longest != net.shortest {
            let (name, points) = ("its shortest way".into(), points(&net.shortest));
            let (strength, bars) = (1.0, Vec::new());
            lines.push(Line { name, style: Style::Dotted, colour, strength, points, bars });
        }
    }
    Plot {
        title: "Non-linearities between an input and the output at \u{394}t = 0".into(),
        x: "offset \u{394}t of the input: past < 0 < future".into(),
        y: "non-linearities that can be applied".into(),
        scale: Scale::FromZero,
        guide: Some(0.0),
        lines,
    }
}
