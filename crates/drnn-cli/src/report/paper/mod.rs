//! The report on a campaign: every table and figure of the paper next to ours.
//!
//! | file | what |
//! |---|---|
//! | `statistics` | repetitions of a network, paired differences over seeds |
//! | `claims` | claims of the paper, and verdicts |
//! | `mlm`, `runtime`, `sine`, `reversal`, `pos`, `theory` | an experiment each: its tables, figures and claims |
//! | `speed` | what depth costs; BPC at equal time per character |
//! | `relax` | a trained stack, flattened and trained on: beyond the paper |
//! | `corrections` | where the printed text or numbers mislead |
//! | `absent` | what has not been trained yet |
//!
//! A report is a function of the records: nothing in it is written by hand that could be computed.

mod absent;
mod claims;
mod corrections;
mod mlm;
mod pos;
mod relax;
mod reversal;
mod runtime;
mod sine;
mod speed;
mod statistics;
mod theory;

pub use claims::{Claim, Verdict};

use super::kinds::{Files, Report};
use super::page::{Page, Part, Table, duration};
use super::{html, markdown};
use crate::campaign::{Outcome, Protocol, TaskRecord};
use crate::report::relax::Arm;
use crate::report::training::commit_text;
use drnn::text::{counted, grouped};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Seeds of the plan that "missing" refers to.
const SEEDS: u64 = 3;

/// A part of the page under a heading.
struct Section {
    heading: &'static str,
    parts: Vec<Part>,
}

/// The report on the records of a campaign.
pub fn report(records: &[&TaskRecord]) -> Result<Report, String> {
    if records.is_empty() {
        return Err("contains no results of tasks".into());
    }
    let quick = records.iter().any(|record| record.protocol == Protocol::Quick);
    let claims = if quick { Vec::new() } else { claims(records) };
    let page = if quick { trial(records) } else { paper(records, &claims) };
    let mut files: Files = vec![("tasks.csv", csv(records).into_bytes())];
    for part in &page.parts {
        if let Part::Figure(figure) = part {
            let svg = figure.picture.svg().into_bytes();
            files.extend(svg_name(figure.name).map(|name| (name, svg)));
        }
    }
    files.insert(0, ("report.md", markdown::page(&page).into_bytes()));
    files.insert(0, ("index.html", html::page(&page).into_bytes()));
    Ok(Report { files, table: table(records, &claims) })
}

/// The file of a figure.
fn svg_name(figure: &str) -> Option<&'static str> {
    let names = [
        "bpc-large.svg",
        "bpc-small.svg",
        "speed-depth.svg",
        "time-bpc-gpu.svg",
        "time-bpc-cpu.svg",
        "sine.svg",
        "sine-sd.svg",
        "reversal.svg",
        "depth.svg",
    ];
    names.into_iter().find(|name| name.strip_suffix(".svg") == Some(figure))
}

fn claims(records: &[&TaskRecord]) -> Vec<Claim> {
    let mut claims = theory::claims(records);
    claims.extend(reversal::claims(&reversal::Accuracies::of(records)));
    claims.extend(sine::claims(&sine::Maps::of(records)));
    claims.extend(mlm::claims(&mlm::Bits::of(records)));
    claims.extend(runtime::claims(&runtime::Times::of(records)));
    claims.extend(pos::claims(&pos::Taggers::of(records)));
    claims
}

fn paper(records: &[&TaskRecord], claims: &[Claim]) -> Page {
    let (bits, times) = (mlm::Bits::of(records), runtime::Times::of(records));
    let mut sections = vec![mlm::section(&bits), runtime::section(&times)];
    sections.extend(speed::section(&times, &bits));
    sections.extend([
        sine::section(&sine::Maps::of(records)),
        reversal::section(records, &reversal::Accuracies::of(records)),
        pos::section(&pos::Taggers::of(records)),
        theory::section(records),
        beyond(records, &bits),
        corrections::section(),
        deviations(records),
        absent::section(records, SEEDS),
        provenance(records),
    ]);
    let mut parts = vec![
        Part::Lead(
            "J. S. Turek, S. Jain, V. Vo, M. Capotă, A. G. Huth, T. L. Willke: Approximating Stacked and Bidirectional \
             Recurrent Architectures with the Delayed Recurrent Neural Network, ICML 2020. Every table and figure next to \
             what drnn finds, with spread, corrections, and the command that makes each number."
                .into(),
        ),
        Part::Facts(facts(records)),
        Part::Contents(
            ["Claims"].into_iter().chain(sections.iter().map(|section| section.heading)).collect(),
        ),
        Part::Heading("Claims"),
        Part::Claims(claims.to_vec()),
        Part::Text(claims::RULE.into()),
        Part::Text(format!(
            "In the tables below, the last column names the task that makes a row: drnn reproduce all --data DIR --out DIR \
             --device cuda --task ID, with /seed-N or /set-N for one repetition. {}",
            absent::MINUTES
        )),
    ];
    for section in sections {
        parts.push(Part::Heading(section.heading));
        parts.extend(section.parts);
    }
    Page { title: "The delayed recurrent network, reproduced".into(), parts }
}

/// What the paper does not have.
fn beyond(records: &[&TaskRecord], bits: &mlm::Bits) -> Section {
    let mut parts = vec![Part::Table(mlm::beyond(bits))];
    parts.extend(relax::parts(records));
    Section { heading: "Beyond the paper", parts }
}

/// The page of a shrunken campaign, which says nothing about the paper.
fn trial(records: &[&TaskRecord]) -> Page {
    let row = |record: &&TaskRecord| {
        let made = &record.provenance;
        vec![record.task.clone(), duration(made.seconds), made.machine.clone()]
    };
    let table = Table {
        caption: "Tasks that are done.".into(),
        head: ["task", "time", "machine"].map(String::from).into(),
        rows: records.iter().map(row).collect(),
    };
    let alarm = "A shrunken campaign (--quick), to try out the program: its trainings are far too short to say anything \
                 about the paper.";
    let mut parts =
        vec![Part::Alarm(alarm.into()), Part::Facts(facts(records)), Part::Table(table)];
    let Section { heading, parts: more } = provenance(records);
    parts.push(Part::Heading(heading));
    parts.extend(more);
    Page { title: "Trial of a campaign".into(), parts }
}

/// Seconds on GPUs and on CPUs.
fn times(records: &[&TaskRecord]) -> [f64; 2] {
    let sum = |gpu: bool| {
        let of_kind = records.iter().filter(|record| record.provenance.gpu == gpu);
        of_kind.map(|record| record.provenance.seconds).fold(0.0, |sum, seconds| sum + seconds)
    };
    [sum(true), sum(false)]
}

fn trainings(record: &TaskRecord) -> usize {
    match &record.outcome {
        Outcome::Sine { records, .. } => records.len(),
        Outcome::Theorem { .. } | Outcome::Depth { .. } | Outcome::Runtime { .. } => 0,
        Outcome::Mlm { .. } | Outcome::Pos { .. } | Outcome::Reversal { .. } => 1,
        // The stack, and the four that are trained on.
        Outcome::Relax { .. } => 5,
    }
}

fn facts(records: &[&TaskRecord]) -> Vec<(&'static str, String)> {
    let [gpu, cpu] = times(records);
    vec![
        ("Tasks done", grouped(records.len())),
        ("Trainings", grouped(records.iter().map(|record| trainings(record)).sum())),
        ("Time on GPUs", duration(gpu)),
        ("Time on CPUs", duration(cpu)),
    ]
}

/// Differences in data and protocol, and how many tasks have each.
fn deviations(records: &[&TaskRecord]) -> Section {
    let all: BTreeSet<(&str, &str)> = records
        .iter()
        .flat_map(|record| {
            let experiment = record.task.split('/').next().unwrap_or_default();
            record.deviations.iter().map(move |text| (experiment, text.as_str()))
        })
        .collect();
    let mut items: Vec<String> = all
        .iter()
        .map(|(experiment, text)| {
            let has = |record: &&&TaskRecord| {
                record.task.starts_with(experiment) && record.deviations.iter().any(|d| d == text)
            };
            let count = records.iter().filter(has).count();
            format!("{experiment}: {text} ({})", counted(count, "task"))
        })
        .collect();
    items.extend([
        "On GPUs matrix products are computed in f16 with sums, states and parameters in f32, unless the machine of a task \
         says otherwise; the paper trained in f32."
            .to_string(),
        "reversal: every seed has its own data sets; the paper does not say whether its repetitions share them.".into(),
        "sine: 11 values of gamma; the paper does not print its step.".into(),
        "mlm and pos: 3 seeds are planned; the paper has 5 repetitions.".into(),
    ]);
    Section { heading: "What differs from the paper", parts: vec![Part::List(items)] }
}

fn provenance(records: &[&TaskRecord]) -> Section {
    let mut machines: BTreeSet<&str> = BTreeSet::new();
    let mut commits: BTreeSet<String> = BTreeSet::new();
    for record in records {
        let made = &record.provenance;
        machines.insert(&made.machine);
        let noted = made.note.as_deref().filter(|_| made.commit.is_none());
        commits.insert(match noted {
            Some(note) => note.rsplit("; ").next().unwrap_or(note).to_string(),
            None => commit_text(made.commit.as_deref(), made.modified),
        });
    }
    let list = |items: Vec<String>| Part::List(items);
    let [gpu, cpu] = times(records);
    let text = format!(
        "Total device time: {} on GPUs, {} on CPUs, for what is shown here. Each task's file names its command, seed, commit, \
         data, machine and time; tasks.csv lists them.",
        duration(gpu),
        duration(cpu)
    );
    Section {
        heading: "Provenance",
        parts: vec![
            Part::Text(text),
            list(machines.into_iter().map(|machine| format!("Machine: {machine}")).collect()),
            list(commits.into_iter().map(|commit| format!("Commit: {commit}")).collect()),
            Part::Code(
                "drnn reproduce all --data DIR --out DIR [--device cuda]\ndrnn report DIR".into(),
            ),
        ],
    }
}

/// For the terminal: verdicts, or the number of tasks.
fn table(records: &[&TaskRecord], claims: &[Claim]) -> String {
    let rows = claims.iter().map(|claim| vec![claim.claim.clone(), claim.verdict.text().into()]);
    let head = ["claim", "verdict"].map(String::from).into();
    let table = Table { caption: String::new(), head, rows: rows.collect() };
    let [gpu, cpu] = times(records);
    let mut out = if claims.is_empty() { String::new() } else { table.text() + "\n" };
    let (tasks, gpu, cpu) = (counted(records.len(), "task"), duration(gpu), duration(cpu));
    let _ = writeln!(out, "{tasks}; {gpu} on GPUs, {cpu} on CPUs");
    out
}

/// A line for each task.
fn csv(records: &[&TaskRecord]) -> String {
    let mut out =
        String::from("task,protocol,seed,measure,value,trainings,seconds,gpu,machine,commit\n");
    for record in records {
        let (measure, value) = match &record.outcome {
            Outcome::Mlm { run, .. } => ("test_bpc", run.test_bpc),
            Outcome::Reversal { run, .. } => ("sampled_accuracy", Some(run.sampled)),
            Outcome::Pos { run, .. } => ("test_paper_acc", run.test.map(|test| test.paper_acc)),
            Outcome::Relax { run, .. } => ("relaxed_test_bpc", run.test_bpc(Arm::Relaxed)),
            Outcome::Sine { .. }
            | Outcome::Runtime { .. }
            | Outcome::Theorem { .. }
            | Outcome::Depth { .. } => ("", None),
        };
        let value = value.filter(|value| value.is_finite());
        let made = &record.provenance;
        let _ = writeln!(
            out,
            "{},{},{},{measure},{},{},{},{},\"{}\",{}",
            record.task,
            if record.protocol == Protocol::Paper { "paper" } else { "quick" },
            made.seed,
            value.map_or(String::new(), |value| value.to_string()),
            trainings(record),
            made.seconds,
            made.gpu,
            made.machine.replace('"', "\"\""),
            made.commit.as_deref().unwrap_or_default()
        );
    }
    out
}
