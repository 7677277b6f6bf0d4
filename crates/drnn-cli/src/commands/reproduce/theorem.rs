//! `drnn reproduce theorem`: compares stacks with their flattened forms, and counts how often the
//! paper's Lemma 1 gives a start state.

use super::{ANOTHER, Head, check_unused};
use crate::Failure;
use crate::console;
use crate::files::paths::make_folder;
use crate::files::paths::write_files;
use crate::memory::{Force, Needs};
use crate::training;
use clap::Args;
use drnn::flatten::{flat_params, flat_spec};
use drnn::random::Rng;
use drnn::reference::{self, RefRun, RefState, Sequence};
use drnn::{
    Batch, Cell, Cpu, Error, InstructionSet, Model, NetSpec, Rows, StartState, States, Steps,
    compare, solve_start,
};
use drnn_train::seed;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum accepted differences.
const F32_TOLERANCE: f64 = 1e-5;
const F64_TOLERANCE: f64 = 1e-12;
/// Inputs and outputs of the networks.
const Q: usize = 8;
const M: usize = 8;
/// Networks per entry of the second table, and their units per layer.
const DRAWN: usize = 200;
const DRAWN_UNITS: usize = 8;

/// A stack of k layers is one layer with delay k - 1: Theorem 1, for every cell, in both precisions
///
/// Random networks from random states, held starts: the largest difference of outputs and of every layer's
/// states, shifted in time. Then how often a solved start (Lemma 1) exists. Exit code 1 if a difference is
/// above 1e-5 (single precision) or 1e-12 (double).
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Folder for theorem.csv, solved.csv and theorem.json
    #[arg(long, value_name = "DIR", default_value = "out/theorem")]
    out: PathBuf,
    /// Maximum number of layers, k
    #[arg(long, value_name = "K", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=10))]
    layers: u8,
    /// Units per layer, n; `mixed` widths are added
    #[arg(long, value_delimiter = ',', default_value = "4,32,256", value_parser = clap::value_parser!(u16).range(1..=1024))]
    units: Vec<u16>,
    /// Elements per sequence, T
    #[arg(long, value_name = "T", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    steps: u16,
    #[arg(long, default_value_t = 1)]
    /// Random seed of networks, states and sequences
    seed: u64,
    /// Print the contents of theorem.json instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    force: Force,
}

/// The contents of theorem.json.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    head: Head,
    f32_tolerance: f64,
    f64_tolerance: f64,
    theorem: Vec<Entry>,
    solved: Vec<Solved>,
}

/// One network: largest differences between the stack and its flattened form.
#[derive(Debug, Clone, Serialize)]
struct Entry {
    cell: &'static str,
    units: Vec<usize>,
    layers: usize,
    /// A column of the table.
    widths: String,
    f32_answers: f64,
    f32_states: f64,
    f64_answers: f64,
    f64_states: f64,
}

/// How many networks of a kind have a solved start.
#[derive(Debug, Serialize)]
struct Solved {
    cell: &'static str,
    layers: usize,
    networks: usize,
    /// From zero states.
    from_zeros: usize,
    /// From states that the network reaches on random input.
    from_states: usize,
    /// The reason of the first failure.
    reason: Option<String>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.check_memory()?;
    check_unused(&arguments.out, &["theorem.csv", "solved.csv", "theorem.json"], ANOTHER)?;
    make_folder(&arguments.out)?;
    let report = arguments.report()?;
    let json = serde_json::to_string(&report).map_err(std::io::Error::from)? + "\n";
    let (theorem, solved) = (report.theorem_csv(), report.solved_csv());
    let checked = report.check();
    if checked.is_ok() {
        let files =
            [("theorem.csv", &*theorem), ("solved.csv", &*solved), ("theorem.json", &*json)];
        write_files(&arguments.out, &files)?;
    }
    let text = if arguments.json { json } else { report.table() };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    checked
}

/// The cells that the paper has.
const CELLS: [Cell; 4] = [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm, Cell::Gru];

/// Names as the tables have them.
fn name(cell: Cell) -> &'static str {
    match cell {
        Cell::RnnTanh => "rnn-tanh",
        Cell::RnnRelu => "rnn-relu",
        Cell::Lstm => "lstm",
        Cell::Gru => "gru",
        Cell::GruResetBefore => "gru-reset-before",
    }
}

impl Arguments {
    fn report(&self) -> Result<Report, Failure> {
        let units: Vec<String> = self.units.iter().map(u16::to_string).collect();
        let command = format!(
            "drnn reproduce theorem --layers {} --units {} --steps {} --seed {}",
            self.layers,
            units.join(","),
            self.steps,
            self.seed
        );
        let cpu = training::cpu(None)?;
        let nets = self.nets();
        // The largest first, so that threads finish at about the same time.
        let cost = |i: &usize| nets[*i].1.units().iter().sum::<usize>() * nets[*i].1.cell().gates();
        let mut order: Vec<usize> = (0..nets.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(cost(i)));
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![None; nets.len()]));
        let bar = bar(nets.len(), "networks flattened and compared");
        let work = || {
            while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let seed = self.seed.wrapping_add(i as u64);
                let entry = compare_forms(&cpu.with_threads(1), &nets[i], self.steps.into(), seed);
                found.lock().unwrap_or_else(|p| p.into_inner())[i] = Some(entry);
                bar.inc(1);
            }
        };
        std::thread::scope(|scope| {
            (1..cpu.threads()).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        bar.finish_and_clear();
        let found = found.into_inner().unwrap_or_else(|p| p.into_inner());
        let theorem = found.into_iter().flatten().collect::<Result<_, Error>>()?;
        Ok(Report {
            head: Head::new("theorem", command),
            f32_tolerance: F32_TOLERANCE,
            f64_tolerance: F64_TOLERANCE,
            theorem,
            solved: self.solved()?,
        })
    }

    /// Checks that a flattened network on each thread fits into memory, as f32, as a packed copy, and
    /// as f64, before a folder is created.
    fn check_memory(&self) -> Result<(), Failure> {
        let flat = |(_, spec): &(String, NetSpec)| flat_spec(spec, StartState::Held).ok();
        let sizes = self.nets().iter().filter_map(flat).map(|flat| flat.parameters()).max();
        let bytes = sizes.unwrap_or(0).saturating_mul(2 * size_of::<f32>() + size_of::<f64>());
        let needs = Needs::new("flattened networks", bytes).times(training::cpu(None)?.threads());
        needs.check(self.force, "fewer --units or --layers")
    }

    /// All cells, depths and widths: (column of the table, network).
    fn nets(&self) -> Vec<(String, NetSpec)> {
        let mut nets = Vec::new();
        for cell in CELLS {
            for k in 1..=self.layers.into() {
                let equal = self.units.iter().map(|&n| (format!("n = {n}"), vec![n.into(); k]));
                let mixed = (0..k).map(|i| [24, 7, 16, 33, 5][i % 5]).collect();
                for (widths, units) in equal.chain([("mixed".into(), mixed)]) {
                    let spec = NetSpec::builder(cell).dense(Q).units(units).outputs(M).build();
                    nets.extend(spec.map(|spec| (widths, spec)));
                }
            }
        }
        nets
    }

    fn solved(&self) -> Result<Vec<Solved>, Failure> {
        let cells = [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm];
        let bar = bar(cells.len() * usize::from(self.layers), "kinds of solved starts");
        let mut table = Vec::new();
        for cell in cells {
            for k in 1..=self.layers.into() {
                table.push(how_often(cell, k, self.seed)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(table)
    }
}

/// A progress bar, drawn on a terminal only.
fn bar(items: usize, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} [{elapsed}]");
    let bar = match console::draws_bars() {
        true => ProgressBar::new(items as u64).with_message(what),
        false => ProgressBar::hidden(),
    };
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The largest differences of one network, in both precisions.
fn compare_forms(
    cpu: &Cpu,
    (widths, spec): &(String, NetSpec),
    steps: usize,
    seed: u64,
) -> Result<Entry, Error> {
    let mut rng = Rng::new(seed);
    let stack = Model::init(spec, seed)?.on(cpu);
    let flat = stack.flatten(StartState::Held)?;
    let x: Vec<f32> = (0..steps * Q).map(|_| rng.symmetric(1.0)).collect();
    let mut start = States::zeros(spec, 1);
    start.h.iter_mut().chain(&mut start.c).for_each(|x| *x = rng.symmetric(1.0));
    let found = compare(&stack, &flat, &Batch::dense(&x, Steps(steps), Rows(1)), Some(&start))?;
    let states = found.h.iter().chain(&found.c).chain([&found.last]).fold(0.0f32, |a, b| a.max(*b));
    let [f64_answers, f64_states] = compare_f64(spec, stack.params(), &x, &start)?;
    Ok(Entry {
        cell: name(spec.cell()),
        units: spec.units().to_vec(),
        layers: spec.layers(),
        widths: widths.clone(),
        f32_answers: found.outputs.into(),
        f32_states: states.into(),
        f64_answers,
        f64_states,
    })
}

/// Outputs and states by the equations, in double precision.
fn compare_f64(
    spec: &NetSpec,
    params: &[f32],
    x: &[f32],
    start: &States,
) -> Result<[f64; 2], Error> {
    let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let flat = flat_spec(spec, StartState::Held)?;
    let params = wide(params);
    let flat_params = flat_params(spec, &flat, &params);
    let by_layer = |values: &[f32]| {
        let mut rest = values;
        let mut take = |n: usize| {
            let (first, others) = rest.split_at(n.min(rest.len()));
            rest = others;
            wide(first)
        };
        spec.units().iter().map(|&n| take(n)).filter(|v| !v.is_empty()).collect()
    };
    let start = RefState { h: by_layer(&start.h), c: by_layer(&start.c) };
    let x = Sequence::Dense(x.chunks_exact(Q).map(wide).collect());
    let a = reference::run(spec, &params, &x, &start);
    let b = reference::run(&flat, &flat_params, &x, &start);
    let states = |r: &RefRun<f64>| {
        let steps = r.steps.h.iter().chain(&r.steps.c).flatten();
        steps.chain(r.last.h.iter().chain(&r.last.c)).cloned().collect::<Vec<_>>()
    };
    Ok([largest(&a.outputs, &b.outputs), largest(&states(&a), &states(&b))])
}

/// Largest absolute difference; infinite if the shapes differ or a value is NaN.
fn largest(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.len() != b.len()) {
        return f64::INFINITY;
    }
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    let differences = pairs.map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |worst, d| if d.is_nan() { f64::INFINITY } else { d.max(worst) })
}

/// How many of some random networks have a solved start.
fn how_often(cell: Cell, layers: usize, seed: u64) -> Result<Solved, Failure> {
    let spec = NetSpec::builder(cell).dense(Q).units(vec![DRAWN_UNITS; layers]).build()?;
    let mut table = Solved {
        cell: name(cell),
        layers,
        networks: DRAWN,
        from_zeros: 0,
        from_states: 0,
        reason: None,
    };
    for i in 0..DRAWN as u64 {
        // On the portable kernels, so that every machine gets the same counts.
        let cpu = Cpu::with_instruction_set(InstructionSet::Portable, 1)?;
        let stack = Model::init(&spec, seed::of_repetition(seed, i as usize))?.on(&cpu);
        let flat = stack.flatten(StartState::Solved)?;
        let mut rng = Rng::new(i);
        let x: Vec<f32> = (0..20 * Q).map(|_| rng.symmetric(1.0)).collect();
        let been = stack.run(&Batch::dense(&x, Steps(20), Rows(1)), None)?.last;
        for (start, count) in
            [(&States::zeros(&spec, 1), &mut table.from_zeros), (&been, &mut table.from_states)]
        {
            match solve_start(&flat, start, 1) {
                Ok(_) => *count += 1,
                Err(error) => {
                    table.reason.get_or_insert(error.to_string());
                }
            }
        }
    }
    Ok(table)
}

impl Entry {
    fn passes(&self) -> bool {
        self.f32_answers.max(self.f32_states) <= F32_TOLERANCE
            && self.f64_answers.max(self.f64_states) <= F64_TOLERANCE
    }
}

impl Report {
    fn check(&self) -> Result<(), Failure> {
        let failed: Vec<_> = self.theorem.iter().filter(|entry| !entry.passes()).collect();
        let Some(first) = failed.first() else { return Ok(()) };
        Err(Failure::Check(format!(
            "{} of {} networks differ from their flattened form, the first a {} of {:?} units",
            failed.len(),
            self.theorem.len(),
            first.cell,
            first.units
        )))
    }

    fn theorem_csv(&self) -> String {
        let mut csv =
            String::from("cell,layers,units,f32_answers,f32_states,f64_answers,f64_states\n");
        for e in &self.theorem {
            let units: Vec<_> = e.units.iter().map(usize::to_string).collect();
            let _ = writeln!(
                csv,
                "{},{},{},{:e},{:e},{:e},{:e}",
                e.cell,
                e.layers,
                units.join("+"),
                e.f32_answers,
                e.f32_states,
                e.f64_answers,
                e.f64_states
            );
        }
        csv
    }

    fn solved_csv(&self) -> String {
        let mut csv = String::from("cell,layers,networks,from_zeros,from_states\n");
        for s in &self.solved {
            let _ = writeln!(
                csv,
                "{},{},{},{},{}",
                s.cell, s.layers, s.networks, s.from_zeros, s.from_states
            );
        }
        csv
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "largest difference between a stack and its flattened form: outputs and all layers' states at \
             their shift\nsingle precision / double precision\n\n",
        );
        let mut columns: Vec<&str> = Vec::new();
        for entry in &self.theorem {
            if !columns.contains(&entry.widths.as_str()) {
                columns.push(&entry.widths);
            }
        }
        let _ = write!(text, "{:10}{:>3}", "cell", "k");
        for column in &columns {
            let _ = write!(text, "{column:>18}");
        }
        for row in self.theorem.chunk_by(|a, b| (a.cell, a.layers) == (b.cell, b.layers)) {
            let _ = write!(text, "\n{:10}{:>3}", row[0].cell, row[0].layers);
            for e in row {
                let (single, double) =
                    (e.f32_answers.max(e.f32_states), e.f64_answers.max(e.f64_states));
                let shown = format!("{single:.0e} / {double:.0e}");
                let _ = write!(text, "{shown:>17}{}", if e.passes() { " " } else { "!" });
            }
        }
        let _ = write!(
            text,
            "\n\nhow many of {DRAWN} random networks, n = {DRAWN_UNITS}, have a solved start (Lemma 1): \
             from zeros / from states they have been in\n\n{:10}",
            "k"
        );
        let layers = self.solved.iter().map(|s| s.layers).max().unwrap_or(0);
        for k in 1..=layers {
            let _ = write!(text, "{k:>14}");
        }
        for row in self.solved.chunk_by(|a, b| a.cell == b.cell) {
            let _ = write!(text, "\n{:10}", row[0].cell);
            for s in row {
                let shown = format!("{} / {}", s.from_zeros, s.from_states);
                let _ = write!(text, "{shown:>14}");
            }
        }
        text.push_str("\ngru        never: its step cannot be inverted in closed form\n");
        let reason = self.solved.iter().find_map(|s| Some((s, s.reason.as_ref()?)));
        if let Some((s, reason)) = reason {
            let _ = writeln!(text, "\nfor example, {} of {} layers: {reason}", s.cell, s.layers);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_above_its_tolerance_fails() {
        let entry = |f32_states: f64, f64_answers: f64| Entry {
            cell: "lstm",
            units: vec![4, 4],
            layers: 2,
            widths: "n = 4".into(),
            f32_answers: 0.0,
            f32_states,
            f64_answers,
            f64_states: 0.0,
        };
        let report = |entries: Vec<Entry>| Report {
            head: Head::new("theorem", String::new()),
            f32_tolerance: F32_TOLERANCE,
            f64_tolerance: F64_TOLERANCE,
            theorem: entries,
            solved: Vec::new(),
        };
        assert!(report(vec![entry(1e-5, 1e-12)]).check().is_ok());
        for bad in [entry(1.1e-5, 0.0), entry(0.0, 1.1e-12), entry(f64::INFINITY, 0.0)] {
            let report = report(vec![entry(0.0, 0.0), bad]);
            assert!(matches!(report.check(), Err(Failure::Check(text)) if text.contains("1 of 2")));
            assert!(report.table().contains('!'));
        }
    }
}
