//! Cells in training: on threads of this machine, or as lanes of a device.

use super::{GridCell, Protocol};
use crate::checkpoint;
use crate::data::Source;
use crate::error::{Error, Result};
use crate::machine::machine;
use crate::optim::Reason;
use crate::paper::sine::{Part, Sine};
use crate::results::{Record, Results};
use crate::training::lanes::Control;
use crate::training::{Advance, Engine, Fit, Learner, Options, Resumed};
use drnn::{Cpu, NetSpec};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What trains a cell.
pub type CellEngine = Box<dyn Engine<Data = dyn Source>>;
/// Makes it, with parameters from the options' seed.
pub type MakeEngine<'a> = Box<dyn Fn(&NetSpec, &Options) -> Result<CellEngine> + Sync + 'a>;

/// Cells that are trained by engines of one kind, some at a time.
pub struct Pool<'a> {
    /// Which.
    pub cells: Vec<GridCell>,
    /// How many at a time, each on a thread of its own.
    pub at_once: usize,
    /// By what.
    pub make: MakeEngine<'a>,
    /// On what, as results tell it.
    pub machine: String,
}

impl Pool<'_> {
    /// One on each thread of `cpu`.
    pub fn on_cpu(cells: &[GridCell], cpu: &Cpu) -> Pool<'static> {
        let one = cpu.with_threads(1);
        let (at_once, machine, cells) = (cpu.threads(), machine(cpu), cells.to_vec());
        let make = move |spec: &NetSpec, options: &Options| {
            let learner = Learner::new(&one, spec, options.adam, options.seed);
            Ok(Box::new(learner) as CellEngine)
        };
        Pool { cells, at_once, make: Box::new(make), machine }
    }
}

/// Where trainings in flight are kept, and how often: whoever is killed loses what was done since.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    /// The folder.
    pub folder: PathBuf,
    /// The least time between two of a training; they are written at an epoch's end.
    pub every: Duration,
}

impl Checkpoints {
    fn of(&self, cell: &GridCell) -> PathBuf {
        let GridCell { set, gamma, ahead, net } = cell;
        self.folder.join(format!("{net}-gamma-{gamma}-a-{ahead}-set-{set}.ckpt"))
    }
}

/// What a campaign tells while it runs.
pub enum Event<'a> {
    /// A batch, or as many as the engine takes at once, or an epoch of a cell.
    Step(&'a GridCell, &'a Fit<'a, CellEngine>, Advance),
    /// A checkpoint is damaged or missing, and another is used instead.
    Note(&'a str),
    /// A cell's result, which is on disk.
    Done(&'a Record),
}

impl Protocol {
    /// Trains one cell. `observe` is asked after every advance whether to go on; None where it said no.
    fn train(
        &self,
        cell: &GridCell,
        pool: &Pool,
        checkpoints: Option<&Checkpoints>,
        observe: &dyn Fn(Event) -> Control,
    ) -> Result<Option<Record>> {
        let begun = Instant::now();
        let task = Sine::new(cell.gamma.into(), cell.ahead);
        let set_seed = self.set_seed(cell);
        let [train, valid, test] = self.sequences;
        let train = task.made(train, set_seed, Part::Train)?;
        let valid = task.made(valid, set_seed, Part::Valid)?;
        let seed = Part::Training.seed(set_seed);
        let (spec, options) = (cell.net.spec(1, 1)?, Options { seed, ..self.training });
        let engine = (pool.make)(&spec, &options)?;
        let mut fit = Fit::with_engine(engine, options, "sine", &train as _, &valid as _)?;
        let checkpoint = checkpoints.map(|c| (c.of(cell), c.every));
        if let Some((path, _)) = &checkpoint
            && let Resumed::Previous(note) = fit.resume(path)?
        {
            observe(Event::Note(&note));
        }
        let earlier = fit.progress().seconds;
        let mut saved = Instant::now();
        let reason = loop {
            let done = fit.advance()?;
            let stop = observe(Event::Step(cell, &fit, done)) == Control::Stop;
            if let Advance::Ended(reason) = done {
                break reason;
            }
            if let Some((path, every)) = &checkpoint
                && (stop || (done == Advance::Epoch && saved.elapsed() >= *every))
            {
                fit.save(path)?;
                saved = Instant::now();
            }
            if stop {
                return Ok(None);
            }
        };
        let test_mse = match reason {
            Reason::NotFinite => None,
            _ => {
                let test = task.made(test, set_seed, Part::Test)?;
                Some(fit.engine().loss(&test, 0, 500)?.mean())
            }
        };
        let history = &fit.progress().history;
        let seconds = earlier + begun.elapsed().as_secs_f64();
        Ok(Some(Record {
            cell: *cell,
            test_mse: test_mse.filter(|mse| mse.is_finite()),
            valid_mse: history.last().map(|epoch| epoch.valid_loss).filter(|mse| mse.is_finite()),
            epochs: history.len(),
            reason,
            parameters: spec.parameters(),
            set_seed,
            training_seed: seed,
            seconds: (seconds * 1e3).round() / 1e3,
            machine: Some(pool.machine.clone()),
        }))
    }
}

/// Trains the cells that `results` does not have yet, one on each thread of `cpu`: as [`run_pools`], without checkpoints.
pub fn run(
    cells: &[GridCell],
    cpu: &Cpu,
    results: &mut Results,
    observe: &(dyn Fn(Event) -> Control + Sync),
) -> Result<bool> {
    run_pools(&[Pool::on_cpu(cells, cpu)], None, results, observe)
}

/// Trains the cells that `results` does not have yet, all pools at once, in each the next as soon as one ends. `observe`
/// may stop them all; says whether they came to their end.
pub fn run_pools(
    pools: &[Pool],
    checkpoints: Option<&Checkpoints>,
    results: &mut Results,
    observe: &(dyn Fn(Event) -> Control + Sync),
) -> Result<bool> {
    let left = |pool: &Pool| -> Vec<GridCell> {
        let done = |cell: &&GridCell| !results.records().contains_key(cell);
        pool.cells.iter().filter(done).copied().collect()
    };
    let left: Vec<(Vec<GridCell>, AtomicUsize)> =
        pools.iter().map(|pool| (left(pool), AtomicUsize::new(0))).collect();
    let (protocol, stop) = (*results.protocol(), AtomicBool::new(false));
    let (results, failed) = (Mutex::new(results), Mutex::new(None::<Error>));
    let go_on = |event: Event| {
        if observe(event) == Control::Stop {
            stop.store(true, Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
    };
    let one = |cell: &GridCell, pool: &Pool| -> Result<()> {
        if let Some(record) = protocol.train(cell, pool, checkpoints, &go_on)? {
            results.lock().unwrap_or_else(|p| p.into_inner()).append(record.clone())?;
            if let Some(checkpoints) = checkpoints {
                checkpoint::remove(&checkpoints.of(cell));
            }
            go_on(Event::Done(&record));
        }
        Ok(())
    };
    let work = |pool: &Pool, (cells, next): &(Vec<GridCell>, AtomicUsize)| {
        while !stop.load(Ordering::Relaxed) {
            let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(error) = one(cell, pool) {
                stop.store(true, Ordering::Relaxed);
                failed.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        for (pool, cells) in pools.iter().zip(&left) {
            for i in 0..pool.at_once.min(cells.0.len()) {
                let thread = std::thread::Builder::new();
                if thread.spawn_scoped(scope, move || work(pool, cells)).is_ok() {
                    continue;
                }
                // The system gives no more threads: those that are there do it all, or this one.
                if i == 0 {
                    work(pool, cells);
                }
                break;
            }
        }
    });
    match failed.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some(error) => Err(error),
        None => Ok(!stop.into_inner()),
    }
}
