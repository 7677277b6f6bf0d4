//! `drnn reproduce depth`: the paper's figure of non-linearities, from the unrolled networks.
//!
//! [`drnn::depth`] says what is counted and what the paper leaves out.

use super::{ANOTHER, Head, check_unused};
use crate::Failure;
use crate::files::paths::write_files;
use crate::plot::{Line, Picture, Plot, Scale, Style};
use clap::Args;
use drnn::depth::{Depth, check, depths};
use drnn::text::grouped;
use drnn::{Cell, Direction, NetSpec, Padding};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// Non-linearities between the input at offset dt and the output, for each network
///
/// The paper's figure: an RNN, a Bi-RNN and a d-RNN; with --layers K also stacks of K layers. Counted in
/// the unrolled network and checked against the equations: for every input and every output of the
/// sequence the count is the same, and the derivative is non-zero exactly where there is a path.
/// The offsets span the whole sequence. Exit code 1 if the check fails.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Folder for depth.svg, depth.csv and depth.json
    #[arg(long, value_name = "DIR", default_value = "out/depth")]
    out: PathBuf,
    /// Also count stacks of k layers; 1 for none
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=10))]
    layers: u8,
    /// Delay of the delayed networks, d
    #[arg(long, value_name = "D", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    delay: u8,
    /// First offset: the sequence begins there
    #[arg(long, value_name = "DT", default_value_t = -8, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-100..=0))]
    from: i16,
    /// Last offset: the sequence ends there
    #[arg(long, value_name = "DT", default_value_t = 8, value_parser = clap::value_parser!(i16).range(0..=100))]
    to: i16,
    /// Print the contents of depth.json instead of text
    #[arg(long)]
    json: bool,
}

/// The contents of depth.json.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    head: Head,
    /// Checked pairs of input and output.
    pairs_checked: usize,
    offsets: Vec<i16>,
    nets: Vec<CountedNetwork>,
}

/// A network, and for each offset its non-linearities; null where the output does not depend on the input.
#[derive(Debug, Serialize)]
struct CountedNetwork {
    name: String,
    layers: usize,
    direction: Direction,
    delay: usize,
    longest: Vec<Option<usize>>,
    shortest: Vec<Option<usize>>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_unused(&arguments.out, &["depth.svg", "depth.csv", "depth.json"], ANOTHER)?;
    let report = arguments.report()?;
    let json = serde_json::to_string(&report).map_err(std::io::Error::from)? + "\n";
    let files = [
        ("depth.svg", report.plot().svg()),
        ("depth.csv", report.csv()),
        ("depth.json", json.clone()),
    ];
    write_files(&arguments.out, &files.each_ref().map(|(name, text)| (*name, text.as_str())))?;
    let text = if arguments.json { json } else { report.table() };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

impl Arguments {
    fn report(&self) -> Result<Report, Failure> {
        let Arguments { layers, delay, from, to, .. } = self;
        let command = format!(
            "drnn reproduce depth --layers {layers} --delay {delay} --from {from} --to {to}"
        );
        let offsets: Vec<i16> = (*from..=*to).collect();
        let mut report = Report {
            head: Head::new("depth", command),
            pairs_checked: 0,
            offsets,
            nets: Vec::new(),
        };
        let (elements, answer) = (report.offsets.len(), from.unsigned_abs().into());
        for spec in self.specs()? {
            let name = name(&spec);
            report.pairs_checked += check(&spec, elements)
                .map_err(|mismatch| Failure::Check(format!("{name}: {mismatch}")))?;
            let found = depths(&spec, elements, answer);
            let each = |part: fn(Depth) -> usize| found.iter().map(|d| d.map(part)).collect();
            report.nets.push(CountedNetwork {
                name,
                layers: spec.layers(),
                direction: spec.direction(),
                delay: spec.delay(),
                longest: each(|d| d.longest),
                shortest: each(|d| d.shortest),
            });
        }
        Ok(report)
    }

    /// The networks of the paper's figure, then stacks of them.
    fn specs(&self) -> Result<Vec<NetSpec>, Failure> {
        let mut specs = Vec::new();
        let stacks = Some(self.layers).filter(|&k| k > 1);
        for k in [1].into_iter().chain(stacks) {
            let net = || NetSpec::builder(Cell::RnnTanh).dense(1).units(vec![1; k.into()]);
            specs.push(net().build()?);
            specs.push(net().bidirectional().build()?);
            specs.push(net().delay(self.delay.into(), Padding::Null).build()?);
        }
        Ok(specs)
    }
}

/// As the paper has it: `d-RNN, 2 layers, delay 5`.
fn name(spec: &NetSpec) -> String {
    let mut name = String::from(match (spec.direction(), spec.delay()) {
        (Direction::Bidirectional, _) => "Bi-RNN",
        (_, 0) => "RNN",
        _ => "d-RNN",
    });
    if spec.layers() > 1 {
        let _ = write!(name, ", {} layers", spec.layers());
    }
    if spec.delay() > 0 {
        let _ = write!(name, ", delay {}", spec.delay());
    }
    name
}

impl Report {
    fn table(&self) -> String {
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

    fn csv(&self) -> String {
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

    fn plot(&self) -> Plot {
        let mut lines = Vec::new();
        for (colour, net) in self.nets.iter().enumerate() {
            let points = |numbers: &[Option<usize>]| {
                let pairs = self.offsets.iter().zip(numbers);
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
}
