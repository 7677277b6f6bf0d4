//! Runtime: the last column of the paper's table of masked characters.

use super::Section;
use super::absent::task_cell;
use super::claims::{Claim, Verdict};
use crate::campaign::{Device, Experiment, Outcome, Protocol, Task, TaskRecord};
use crate::report::mlm::title;
use crate::report::page::{Part, Table};
use drnn_train::chars::paper::{Architecture, ROWS, Row, Size};
use std::collections::BTreeMap;

/// How much faster the paper says a d-LSTM is.
const CLAIMED: f64 = 4.0;

/// Milliseconds of a forward pass by row, on a GPU and on a CPU.
pub struct Times {
    gpu: BTreeMap<String, f64>,
    cpu: BTreeMap<String, f64>,
    machines: Vec<String>,
}

impl Times {
    pub fn of(records: &[&TaskRecord]) -> Times {
        let mut found = Times { gpu: BTreeMap::new(), cpu: BTreeMap::new(), machines: Vec::new() };
        for record in records {
            let Outcome::Runtime { times } = &record.outcome else { continue };
            let made = &record.provenance;
            let threads = made.threads.filter(|_| !made.gpu);
            let threads = threads.map_or(String::new(), |n| format!(", {n} threads"));
            found.machines.push(format!("{}{threads}", made.machine));
            let device = if made.gpu { &mut found.gpu } else { &mut found.cpu };
            device.extend(times.iter().map(|time| (time.row.clone(), 1e3 * time.median())));
        }
        found
    }
}

/// The d-LSTM of delay 8 and the Bi-LSTM of two layers of a size: those of the claim.
fn compared(size: Size) -> Option<[&'static Row; 2]> {
    let find = |net: Architecture, delay, layers| {
        ROWS.iter()
            .find(|row| (row.size, row.net, row.delay, row.layers) == (size, net, delay, layers))
    };
    Some([find(Architecture::DLstm, 8, 1)?, find(Architecture::BiLstm, 0, 2)?])
}

pub fn section(times: &Times) -> Section {
    let measured = match times.machines.as_slice() {
        [] => String::new(),
        machines => format!(" Measured on {}.", machines.join("; ")),
    };
    let text = format!(
        "A forward pass of one batch, 128 windows of 180 characters: by events on the GPU, or wall-clock time on the CPU; \
         medians of 10 passes, all networks in turn. The paper's times do not wait for the GPU (see Corrections).{measured}"
    );
    let cell = |found: &BTreeMap<String, f64>, row: &Row| {
        found.get(&row.to_string()).map_or("not measured yet".into(), |ms| format!("{ms:.2}"))
    };
    let row = |row: &Row| {
        let printed =
            row.printed.map_or(String::new(), |printed| format!("{:.2}", printed.runtime[0]));
        vec![title(row), cell(&times.gpu, row), cell(&times.cpu, row), printed]
    };
    let task = |device, id: &str, is_done| {
        let experiment = Experiment::Runtime(device);
        let task = Task { protocol: Protocol::Paper, experiment, repetition: 1 };
        task_cell(id.into(), &task, is_done)
    };
    let table = Table {
        caption: format!(
            "Milliseconds. Made by drnn reproduce all --out DIR --task {} and --device cuda --task {}.",
            task(Device::Cpu, "runtime/cpu", !times.cpu.is_empty()),
            task(Device::Cuda, "runtime/cuda", !times.gpu.is_empty())
        ),
        head: ["network", "GPU", "CPU", "paper, printed"].map(String::from).into(),
        rows: ROWS.iter().map(row).collect(),
    };
    Section { heading: "Runtime: Table mlm", parts: vec![Part::Text(text), Part::Table(table)] }
}

pub fn claims(times: &Times) -> Vec<Claim> {
    vec![faster(times), constant(times)]
}

fn faster(times: &Times) -> Claim {
    let claim = "d-LSTMs run at least four times faster than the Bi-LSTM of two layers";
    let (mut cases, mut evidence) = (Vec::new(), Vec::new());
    for (name, device) in [("On the GPU", &times.gpu), ("On the CPU", &times.cpu)] {
        for [delayed, both] in [Size::Large, Size::Small].into_iter().filter_map(compared) {
            let ms = |row: &Row| device.get(&row.to_string());
            let (Some(fast), Some(slow)) = (ms(delayed), ms(both)) else { continue };
            let ratio = slow / fast;
            if std::ptr::eq(device, &times.gpu) {
                cases.push(if ratio >= CLAIMED { Verdict::Holds } else { Verdict::DoesNot });
            }
            let (delayed, both) = (title(delayed), title(both));
            evidence.push(format!("{name} {both} takes {ratio:.2} times as long as {delayed}"));
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

fn constant(times: &Times) -> Claim {
    let claim = "The runtime of d-LSTMs remains constant as the delay increases";
    let (mut cases, mut evidence) = (Vec::new(), Vec::new());
    for (name, device) in [("GPU", &times.gpu), ("CPU", &times.cpu)] {
        for size in [Size::Large, Size::Small] {
            let delayed =
                ROWS.iter().filter(|row| row.size == size && row.net == Architecture::DLstm);
            let measured = delayed.filter_map(|row| Some((row, *device.get(&row.to_string())?)));
            let measured: Vec<(&Row, f64)> = measured.collect();
            let [(first, least), .., (last, most)] = measured.as_slice() else { continue };
            // A pass has T + d steps.
            let steps = (180 + last.delay) as f64 / (180 + first.delay) as f64;
            let ratio = most / least;
            cases.push(if ratio <= steps * 1.05 { Verdict::Holds } else { Verdict::DoesNot });
            evidence.push(format!(
                "{name}: {} takes {ratio:.2} times as long as d = {}, with {steps:.2} times the steps",
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
