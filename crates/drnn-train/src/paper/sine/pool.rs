//! Training the cells of a campaign: on threads of this machine, or as lanes of a device.

use super::campaign::{GridCell, Protocol};
use super::results::{Record, Results};
use super::{Sine, SinePart};
use crate::checkpoint;
use crate::data::Dataset;
use crate::error::Result;
use crate::machine::machine;
use crate::optim::Reason;
use crate::training::lanes::Control;
use crate::training::{
    Advance, Engine, Learner, Options, Queue, Resumed, SavePolicy, Saver, Scheduler, Stint,
    Trainer, Turn,
};
use drnn::{Cpu, NetSpec};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What trains a cell.
pub type CellEngine = Box<dyn Engine<Data = dyn Dataset>>;
/// Makes it, with parameters from the options' seed.
pub type MakeEngine<'a> = Box<dyn Fn(&NetSpec, &Options) -> Result<CellEngine> + Sync + 'a>;

/// Cells that are trained by engines of the same type, some at a time.
pub struct Pool<'a> {
    /// The cells, in the order in which they are started.
    pub cells: Vec<GridCell>,
    /// Maximum number trained at the same time, each on a thread of its own.
    pub at_once: usize,
    /// Makes the engine of a cell.
    pub make: MakeEngine<'a>,
    /// Name of the machine, for the results.
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

/// Checkpoints of the trainings in progress: a program that is killed loses only what came after them.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    /// The folder.
    pub folder: PathBuf,
    /// Minimum time between two of one training; they are written at an epoch's end.
    pub every: Duration,
}

impl Checkpoints {
    fn of(&self, cell: &GridCell) -> PathBuf {
        let GridCell { set, gamma, ahead, net } = cell;
        self.folder.join(format!("{net}-gamma-{gamma}-a-{ahead}-set-{set}.ckpt"))
    }
}

/// What a campaign reports while it runs.
pub enum Event<'a> {
    /// A batch, or as many as the engine takes at once, or an epoch of a cell.
    Step(&'a GridCell, &'a Trainer<'a, CellEngine>, Advance),
    /// A checkpoint is damaged or missing, and another is used instead.
    Note(&'a str),
    /// A cell's result, which is on disk.
    Done(&'a Record),
}

impl Protocol {
    /// Trains one cell. `observe` is called after every batch; None where it stopped the training.
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
        let train = task.generated(train, set_seed, SinePart::Train)?;
        let valid = task.generated(valid, set_seed, SinePart::Valid)?;
        let seed = SinePart::Training.seed(set_seed);
        let (spec, options) = (cell.net.spec(1, 1)?, Options { seed, ..self.training });
        let engine = (pool.make)(&spec, &options)?;
        let mut trainer = Trainer::with_engine(engine, options, "sine", &train as _, &valid as _)?;
        let checkpoint = checkpoints.map(|c| (c.of(cell), c.every));
        if let Some((path, _)) = &checkpoint
            && let Resumed::Previous(note) = trainer.resume(path)?
        {
            observe(Event::Note(&note));
        }
        let earlier = trainer.progress().seconds;
        let (path, every) = checkpoint.unzip();
        let mut saver = Saver::new(path, every.unwrap_or_default(), SavePolicy::Interval);
        let reason = loop {
            let stint = trainer.epoch(&mut saver, &mut |trainer, done| {
                Ok(observe(Event::Step(cell, trainer, done)))
            })?;
            match stint {
                Stint::Epoch => {}
                Stint::Ended(reason) => break reason,
                Stint::Stopped => return Ok(None),
            }
        };
        let test_mse = match reason {
            Reason::NotFinite => None,
            _ => {
                let test = task.generated(test, set_seed, SinePart::Test)?;
                Some(trainer.engine().loss(&test, 0, 500)?.mean())
            }
        };
        let history = &trainer.progress().history;
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

/// Trains the cells that `results` does not have yet, one on each thread of `cpu`: [`run_pools`]
/// without checkpoints.
pub fn run(
    cells: &[GridCell],
    cpu: &Cpu,
    results: &mut Results,
    observe: &(dyn Fn(Event) -> Control + Sync),
) -> Result<bool> {
    run_pools(&[Pool::on_cpu(cells, cpu)], None, results, observe)
}

/// Trains the cells that `results` does not have yet, all pools at the same time. Within a pool the
/// next cell starts as soon as one ends. `observe` may stop them all; returns whether all cells were
/// trained.
pub fn run_pools(
    pools: &[Pool],
    checkpoints: Option<&Checkpoints>,
    results: &mut Results,
    observe: &(dyn Fn(Event) -> Control + Sync),
) -> Result<bool> {
    let queue = |pool: &Pool| {
        let left = |cell: &&GridCell| !results.records().contains_key(cell);
        let jobs = pool.cells.iter().filter(left).copied().collect();
        Queue { jobs, workers: pool.at_once }
    };
    let queues: Vec<Queue<GridCell>> = pools.iter().map(queue).collect();
    let (protocol, scheduler) = (*results.protocol(), Scheduler::default());
    let results = Mutex::new(results);
    let go_on = |event: Event| {
        if observe(event) == Control::Stop {
            scheduler.stop();
        }
        if scheduler.is_stopped() { Control::Stop } else { Control::Continue }
    };
    scheduler.run(queues, &|| (), &|(), cell, seat| {
        let pool = &pools[seat.queue];
        let Some(record) = protocol.train(cell, pool, checkpoints, &go_on)? else {
            return Ok(Turn::Stop);
        };
        results.lock().unwrap_or_else(|p| p.into_inner()).append(record.clone())?;
        if let Some(checkpoints) = checkpoints {
            checkpoint::remove(&checkpoints.of(cell));
        }
        go_on(Event::Done(&record));
        Ok(Turn::Done)
    })?;
    Ok(!scheduler.is_stopped())
}
