//! Runtime: the last column of the paper's table of masked characters.

use super::Section;
use super::absent::task_cell;
use super::claims::{Claim, Verdict};
use crate::campaign::{Device, Experiment, Outcome, Protocol, Task, TaskRecord};
use crate::report::mlm::title;
use crate::report::page::{Part, Table};
use crate::report::runtime::{ForwardTime, Peer};
use drnn_train::chars::paper::{Architecture, ROWS, Row, Size};

/// How much faster the paper says a d-LSTM is.
const CLAIMED: f64 = 4.0;

/// Forward passes on a device.
pub struct Measured {
    pub gpu: bool,
    machine: String,
    times: Vec<ForwardTime>,
    pub peer: Option<Peer>,
}

impl Measured {
    /// Of [`Row`]s, ours or of other software.
    fn find<'a>(times: &'a [ForwardTime], row: &Row) -> Option<&'a ForwardTime> {
        let name = row.to_string();
        times.iter().find(|time| time.row == name)
    }

    /// Milliseconds of a pass: the median.
    pub fn ms(&self, row: &Row) -> Option<f64> {
        Measured::find(&self.times, row).map(|time| 1e3 * time.median())
    }

    /// The same in other software; and how many times as long as ours.
    fn peer_ms(&self, row: &Row) -> Option<(f64, f64)> {
        let peer = Measured::find(&self.peer.as_ref()?.times, row)?;
        let ratio = peer.ratio(Measured::find(&self.times, row)?);
        Some((1e3 * peer.median(), ratio))
    }

    /// How many times as long as `other` a network takes in other software.
    pub fn peer_ratio(&self, row: &Row, other: &Row) -> Option<f64> {
        Some(self.peer_ms(row)?.0 / self.peer_ms(other)?.0)
    }

    pub fn name(&self) -> &'static str {
        if self.gpu { "GPU" } else { "CPU" }
    }
}

/// What was measured, on a GPU first.
pub struct Times(pub Vec<Measured>);

impl Times {
    pub fn of(records: &[&TaskRecord]) -> Times {
        let mut found = Vec::new();
        for record in records {
            let Outcome::Runtime { times, peer } = &record.outcome else { continue };
            let made = &record.provenance;
            let threads = made.threads.filter(|_| !made.gpu);
            let threads = threads.map_or(String::new(), |n| format!(", {n} threads"));
            found.push(Measured {
                gpu: made.gpu,
                machine: format!("{}{threads}", made.machine),
                times: times.clone(),
                peer: peer.clone(),
            });
        }
        found.sort_by_key(|measured| !measured.gpu);
        Times(found)
    }

    fn on(&self, gpu: bool) -> Option<&Measured> {
        self.0.iter().find(|measured| measured.gpu == gpu)
    }
}

/// The d-LSTM of delay 8 and the Bi-LSTM of two layers of a size: those of the claim.
pub fn compared(size: Size) -> Option<[&'static Row; 2]> {
    let find = |net: Architecture, delay, layers| {
        ROWS.iter()
            .find(|row| (row.size, row.net, row.delay, row.layers) == (size, net, delay, layers))
    };
    Some([find(Architecture::DLstm, 8, 1)?, find(Architecture::BiLstm, 0, 2)?])
}

pub fn section(times: &Times) -> Section {
    let mut text = String::from(
        "A forward pass of one batch, 128 windows of 180 characters: by events on the GPU, or wall-clock time on the CPU; \
         medians, all networks in turn. The paper's times do not wait for the GPU (see Corrections).",
    );
    for measured in &times.0 {
        let mut scatter: Vec<f64> = measured.times.iter().map(ForwardTime::scatter).collect();
        scatter.sort_by(f64::total_cmp);
        let middle = scatter.get(scatter.len() / 2).map_or(f64::NAN, |scatter| 100.0 * scatter);
        text += &format!(
            " {}: {}; the middle half of a network's passes differs by {middle:.0} %.",
            measured.name(),
            measured.machine
        );
        if let Some(Peer { name, .. }) = &measured.peer {
            text += &format!(
                " {name} runs the same networks, pass by pass in turn with ours; in brackets: how many times as long as \
                 ours it takes, the median over passes."
            );
        }
    }
    let ours = |gpu: bool, row: &Row| {
        let ms = times.on(gpu).and_then(|measured| measured.ms(row));
        ms.map_or("not measured yet".into(), |ms| format!("{ms:.2}"))
    };
    let peer = |gpu: bool, row: &Row| {
        let found = times.on(gpu).and_then(|measured| measured.peer_ms(row));
        found.map_or("not measured yet".into(), |(ms, ratio)| format!("{ms:.2} ({ratio:.2}\u{d7})"))
    };
    let row = |row: &Row| {
        let printed =
            row.printed.map_or(String::new(), |printed| format!("{:.2}", printed.runtime[0]));
        let cells = [ours(true, row), peer(true, row), ours(false, row), peer(false, row)];
        [title(row)].into_iter().chain(cells).chain([printed]).collect()
    };
    let task = |device, id: &str| {
        let experiment = Experiment::Runtime(device);
        let task = Task { protocol: Protocol::Paper, experiment, repetition: 1 };
        task_cell(id.into(), &task, times.on(device == Device::Cuda).is_some())
    };
    let table = Table {
        caption: format!(
            "Milliseconds. Ours alone: drnn reproduce all --out DIR --task {} and --device cuda --task {}. With PyTorch: \
             python bench/paper_runtime.py [--device cuda] --json FILE, then drnn reproduce all --out DIR --import FILE.",
            task(Device::Cpu, "runtime/cpu"),
            task(Device::Cuda, "runtime/cuda")
        ),
        head: ["network", "GPU", "PyTorch", "CPU", "PyTorch", "paper, printed"]
            .map(String::from)
            .into(),
        rows: ROWS.iter().map(row).collect(),
    };
    Section { heading: "Runtime: Table mlm", parts: vec![Part::Text(text), Part::Table(table)] }
}

pub fn claims(times: &Times) -> Vec<Claim> {
    vec![faster(times), in_proportion(times), constant(times)]
}

/// Decided by PyTorch's times as well as by drnn's: the paper's networks ran in PyTorch, and what only
/// holds there is a matter of software rather than of networks.
fn faster(times: &Times) -> Claim {
    let claim = "d-LSTMs run at least four times faster than the Bi-LSTM of two layers";
    let (mut cases, mut evidence) = (Vec::new(), Vec::new());
    for measured in &times.0 {
        for [delayed, both] in [Size::Large, Size::Small].into_iter().filter_map(compared) {
            let (Some(fast), Some(slow)) = (measured.ms(delayed), measured.ms(both)) else {
                continue;
            };
            let (ratio, peer) = (slow / fast, measured.peer_ratio(both, delayed));
            if measured.gpu {
                let found = [Some(ratio), peer].into_iter().flatten();
                cases.extend(found.map(|ratio| Verdict::of(ratio >= CLAIMED)));
            }
            let peer = peer.map_or(String::new(), |ratio| format!(" ({ratio:.2} in PyTorch)"));
            let (name, delayed, both) = (measured.name(), title(delayed), title(both));
            evidence.push(format!(
                "On the {name} {both} takes {ratio:.2} times as long as {delayed}{peer}"
            ));
        }
    }
    if cases.is_empty() {
        let cpu = evidence.join(". ");
        let cpu = if cpu.is_empty() { String::new() } else { format!(" {cpu}.") };
        let text = format!(
            "The claim is about GPUs, on which task runtime/cuda has not been run yet.{cpu}"
        );
        return Claim::new(claim, Verdict::NotYet, text);
    }
    Claim::new(claim, Verdict::of_all(&cases), format!("{}.", evidence.join(". ")))
}

/// What the paper expects of hardware that computes in parallel. As above, PyTorch's times count too.
fn in_proportion(times: &Times) -> Claim {
    let claim = "On CPUs and GPUs a Bi-RNN of k layers is at least k times slower than a d-RNN";
    let (mut cases, mut evidence) = (Vec::new(), Vec::new());
    for measured in &times.0 {
        for size in [Size::Large, Size::Small] {
            let Some([delayed, _]) = compared(size) else { continue };
            let stacks = ROWS.iter().filter(|row| {
                row.size == size && row.net == Architecture::BiLstm && row.layers > 1
            });
            for stack in stacks {
                let (Some(fast), Some(slow)) = (measured.ms(delayed), measured.ms(stack)) else {
                    continue;
                };
                let (ratio, peer) = (slow / fast, measured.peer_ratio(stack, delayed));
                let found = [Some(ratio), peer].into_iter().flatten();
                cases.extend(found.map(|ratio| Verdict::of(ratio >= stack.layers as f64)));
                let peer = peer.map_or(String::new(), |ratio| format!(" ({ratio:.2} in PyTorch)"));
                let (name, stack) = (measured.name(), title(stack));
                evidence.push(format!("{name}, {stack}: {ratio:.2} times{peer}"));
            }
        }
    }
    if cases.is_empty() {
        return Claim::open(claim, "runtime/cpu, runtime/cuda");
    }
    let evidence = format!(
        "At as many parameters, against the d-LSTM of delay 8 of the same size. {}.",
        evidence.join("; ")
    );
    Claim::new(claim, Verdict::of_all(&cases), evidence)
}

fn constant(times: &Times) -> Claim {
    let claim = "The runtime of d-LSTMs remains constant as the delay increases";
    let (mut cases, mut evidence) = (Vec::new(), Vec::new());
    for measured in &times.0 {
        for size in [Size::Large, Size::Small] {
            let delayed =
                ROWS.iter().filter(|row| row.size == size && row.net == Architecture::DLstm);
            let found = delayed.filter_map(|row| Some((row, measured.ms(row)?)));
            let found: Vec<(&Row, f64)> = found.collect();
            let [(first, least), .., (last, most)] = found.as_slice() else { continue };
            // A pass has T + d steps.
            let steps = (180 + last.delay) as f64 / (180 + first.delay) as f64;
            let ratio = most / least;
            cases.push(Verdict::of(ratio <= steps * 1.05));
            evidence.push(format!(
                "{}: {} takes {ratio:.2} times as long as d = {}, with {steps:.2} times the steps",
                measured.name(),
                title(last),
                first.delay
            ));
        }
    }
    if cases.is_empty() {
        return Claim::open(claim, "runtime/cpu, runtime/cuda");
    }
    Claim::new(claim, Verdict::of_all(&cases), format!("{}.", evidence.join(". ")))
}
