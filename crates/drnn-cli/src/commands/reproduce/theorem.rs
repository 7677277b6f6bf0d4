//! `drnn reproduce theorem`: compares stacks with their flattened forms, and counts how often the
//! paper's Lemma 1 gives a start state.

use super::{ANOTHER, check_unused};
use crate::Failure;
use crate::console;
use crate::files::paths::make_folder;
use crate::files::paths::write_files;
use crate::memory::{Force, Needs};
use crate::report::Head;
use crate::report::theorem::{
    DRAWN, DRAWN_UNITS, Entry, F32_TOLERANCE, F64_TOLERANCE, Solved, TheoremResults,
};
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
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Inputs and outputs of the networks.
const Q: usize = 8;
const M: usize = 8;

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

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.check_memory()?;
    check_unused(&arguments.out, &["theorem.csv", "solved.csv", "theorem.json"], ANOTHER)?;
    make_folder(&arguments.out)?;
    let report = arguments.results()?;
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
    /// The networks of the documentation, or few small ones for a trial of a campaign.
    pub fn for_campaign(quick: bool, force: Force) -> Arguments {
        let (layers, units) = if quick { (2, vec![4]) } else { (6, vec![4, 32, 256]) };
        let (out, steps) = (PathBuf::new(), if quick { 20 } else { 200 });
        Arguments { out, layers, units, steps, seed: 1, json: false, force }
    }

    /// Compares all networks with their flattened forms.
    pub fn results(&self) -> Result<TheoremResults, Failure> {
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
        Ok(TheoremResults {
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
        cell: name(spec.cell()).into(),
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
        cell: name(cell).into(),
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
