//! `drnn reproduce depth`: the paper's figure of non-linearities, from the unrolled networks.
//!
//! [`drnn::depth`] says what is counted and what the paper leaves out.

use super::{ANOTHER, check_unused};
use crate::Failure;
use crate::files::paths::write_files;
use crate::plot::Picture;
use crate::report::Head;
use crate::report::depth::{CountedNetwork, DepthResults};
use clap::Args;
use drnn::depth::{Depth, check, depths};
use drnn::{Cell, Direction, NetSpec, Padding};
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

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_unused(&arguments.out, &["depth.svg", "depth.csv", "depth.json"], ANOTHER)?;
    let report = arguments.results()?;
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
    /// The paper's figure, for a campaign.
    pub fn for_campaign() -> Arguments {
        Arguments { out: PathBuf::new(), layers: 1, delay: 5, from: -8, to: 8, json: false }
    }

    /// Counts and checks all networks.
    pub fn results(&self) -> Result<DepthResults, Failure> {
        let Arguments { layers, delay, from, to, .. } = self;
        let command = format!(
            "drnn reproduce depth --layers {layers} --delay {delay} --from {from} --to {to}"
        );
        let offsets: Vec<i16> = (*from..=*to).collect();
        let mut report = DepthResults {
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
