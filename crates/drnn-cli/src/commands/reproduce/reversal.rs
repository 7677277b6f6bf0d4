//! `drnn reproduce reversal`: trains networks of several delays to reverse a sequence.

use super::Job;
use crate::Failure;
use crate::console::progress;
use crate::files::training_folder::TrainingFolder;
use crate::memory::Needs;
use crate::report::reversal::{ReversalResults, ReversalTask, Run};
use crate::report::{Provenance, Reported, publish};
use crate::training::place::{Network, Place};
use crate::training::{self, Running, Watch};
use clap::Args;
use drnn::Cpu;
use drnn::text::counted;
use drnn_train::lanes::Lane;
use drnn_train::reversal::{Accuracy, Reversal};
use drnn_train::{
    Dataset, Engine, Examples, Metric, Options, PaperNet, Reason, Schedule, Stopping, Trainer, seed,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Sequence reversal: LSTM, d-LSTMs and Bi-LSTM, compared with the best possible accuracy
///
/// A network reads 20 symbols and outputs them in reverse order. Without delay it can predict only the
/// second half; with delay d it reads d more elements before each output, and a Bi-LSTM reads all. The
/// default run takes about 3 minutes on 2 cores. If it was interrupted with Ctrl-C or killed, --resume
/// continues it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Folder for results, plot and checkpoints
    #[arg(long, value_name = "DIR", default_value = "out/reversal")]
    out: PathBuf,
    /// The paper's protocol: delays 0 to 19, 5 repetitions, learning rate 0.001, up to 1,000 epochs
    #[arg(long)]
    full: bool,
    /// Delays of the d-LSTMs [default: 5,10,19; with --full 1 to 19]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=19))]
    delays: Option<Vec<u16>>,
    /// Only these networks, without LSTM and Bi-LSTM if they are not named: lstm, bilstm, dlstm-D
    #[arg(long, value_name = "NET,..", value_delimiter = ',', conflicts_with = "delays")]
    nets: Option<Vec<PaperNet>>,
    /// Trainings of each network, from different seeds [default: 1; with --full 5]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: Option<u16>,
    /// Maximum number of epochs [default: 60; with --full 1000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    epochs: Option<u32>,
    /// Learning rate of the first epoch [default: 0.01, cosine schedule; with --full 0.001, constant]
    #[arg(long, value_parser = training::rate)]
    rate: Option<f32>,
    /// Training sequences; validation and test set have a fifth as many each
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    sequences: u32,
    /// Random seed of data, parameters and batch order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    running: Running,
    /// Print the contents of reversal.json instead of text
    #[arg(long)]
    json: bool,
}

/// A network and the number of its repetition.
type Which = (PaperNet, usize);

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let results = arguments.results(arguments.command())?;
    publish(&results, &arguments.out, arguments.json)?;
    let ran_away = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
    let names: Vec<_> = ran_away.map(|run| format!("{}-{}", run.net, run.repetition)).collect();
    training::check_finite(names.iter().map(String::as_str))
}

/// Accuracy on sequences that were not trained on.
fn measure(
    trainer: &mut Trainer<Network>,
    net: PaperNet,
    repetition: usize,
    task: &Reversal,
    test: &Examples,
) -> Result<Run, Failure> {
    let mut accuracy = Accuracy::new(trainer.options().seed);
    let progress = trainer.progress().clone();
    let ended = progress.ended.unwrap_or(Reason::Epochs);
    let learner = trainer.engine();
    let (m, parameters) = (task.symbols, learner.spec().parameters());
    let [mut sampled, mut likeliest, mut test_loss] = [f64::NAN; 3];
    if ended != Reason::NotFinite {
        let loss = learner.evaluate(test, 0, 500, &mut |y, t| accuracy.add(y, m, t))?;
        (sampled, likeliest, test_loss) = (accuracy.drawn(), accuracy.likeliest(), loss.mean());
    }
    Ok(Run {
        net: net.to_string(),
        repetition,
        delay: match net {
            PaperNet::Lstm => Some(0),
            PaperNet::BiLstm => None,
            PaperNet::DLstm(delay) => Some(delay),
        },
        parameters,
        bound: task.bound(net.ahead(task.steps)),
        sampled,
        likeliest,
        test_loss,
        epochs: progress.history.len(),
        ended,
        seconds: progress.seconds,
        history: progress.history,
    })
}

impl Arguments {
    /// One training of each of these networks with `seed`, for a campaign: by the paper's protocol, or
    /// with few sequences and at most `epochs` epochs for a trial.
    pub fn for_campaign(
        nets: Vec<PaperNet>,
        seed: u64,
        epochs: Option<u32>,
        job: Job,
    ) -> Arguments {
        Arguments {
            out: job.folder,
            full: true,
            delays: None,
            nets: Some(nets),
            repeats: Some(1),
            epochs,
            rate: None,
            sequences: if epochs.is_some() { 200 } else { 10_000 },
            seed,
            running: job.running,
            json: false,
        }
    }

    /// Trains and tests all networks. Checkpoints are in the folder `out`.
    pub fn results(&self, command: String) -> Result<ReversalResults, Failure> {
        let started = SystemTime::now();
        let cpu = training::cpu(self.running.threads)?; // before a folder is created
        let place = self.running.place.find()?;
        let which = self.which()?;
        self.check_memory(&which, &place, &cpu)?;
        let folder = self.running.folder(&self.out, &["reversal.json"], training::EARLIER)?;
        let task = Reversal::default();
        let n = self.sequences as usize;
        // Each set has its own random numbers.
        let part = |part: u64, count: usize| task.examples(count, seed::of_part(self.seed, part));
        let sets = [part(1, n)?, part(2, n / 5)?, part(3, n / 5)?];
        let mut lanes = self.lanes(&which, &sets, &folder, (&cpu, &place))?;
        self.announce(&which, &cpu);
        let names: Vec<String> = which.iter().map(|(net, i)| format!("{net}-{i}")).collect();
        let watch = Watch::new(names, Metric::Accuracy, &self.out.join("log.jsonl"))?;
        self.running.run(&cpu, &place, &mut lanes, &watch, &command, &|_, _| Ok(()))?;
        let mut runs = Vec::new();
        for (lane, &(net, repetition)) in lanes.iter_mut().zip(&which) {
            runs.push(measure(&mut lane.trainer, net, repetition, &task, &sets[2])?);
        }
        runs.sort_by_key(|run| (run.delay.unwrap_or(usize::MAX), run.repetition));
        let [train, valid, test] = sets.each_ref().map(Dataset::len);
        let Reversal { steps, symbols } = task;
        let provenance =
            Provenance::new(command, self.seed, &cpu, &place, started, watch.earlier());
        Ok(ReversalResults {
            kind: ReversalResults::KIND.into(),
            format: ReversalResults::FORMAT,
            provenance,
            task: ReversalTask { steps, symbols, train, valid, test },
            options: self.options(),
            deviations: self.deviations(),
            runs,
        })
    }

    /// A lane for each training.
    fn lanes<'a>(
        &self,
        which: &[Which],
        [train, valid, _]: &'a [Examples; 3],
        folder: &TrainingFolder,
        (cpu, place): (&Cpu, &Place),
    ) -> Result<Vec<Lane<'a, Network>>, Failure> {
        let (one, symbols) = (cpu.with_threads(1), Reversal::default().symbols);
        let mut lanes = Vec::new();
        for &(net, repetition) in which {
            let seed = seed::of_repetition(self.seed, repetition);
            let options = Options { seed, ..self.options() };
            let name = format!("reversal seed {} {net} {repetition}", self.seed);
            let engine = place.network(&one, &net.spec(symbols, symbols)?, &options)?;
            let data = [train, valid].map(|examples| examples as &dyn Dataset);
            let trainer = Trainer::with_engine(engine, options, &name, data[0], data[1])?;
            lanes.push(self.running.lane(trainer, folder, &format!("{net}-{repetition}"))?);
        }
        Ok(lanes)
    }

    /// Checks that data and all networks fit into memory, before a folder is created.
    fn check_memory(&self, which: &[Which], place: &Place, cpu: &Cpu) -> Result<(), Failure> {
        let (task, n) = (Reversal::default(), self.sequences as usize);
        let part = |count| task.generated(count, 0);
        let data = [part(n)?, part(n / 5)?, part(n / 5)?];
        let bytes = (n + 2 * (n / 5)) * task.steps * (task.symbols + 1) * size_of::<f32>();
        let mut needs = Vec::new();
        for (net, _) in which {
            let spec = net.spec(task.symbols, task.symbols)?;
            let parts = data.each_ref().map(|part| part as &dyn Dataset);
            let threads = cpu.threads().div_ceil(which.len());
            needs.push(place.needs(&spec, &parts, &self.options(), threads)?);
        }
        let needs = Needs::side_by_side(needs, place.threads(cpu, which.len()));
        needs.and("data", bytes).check_at(
            self.running.force,
            place,
            "fewer --sequences, --delays or --repeats",
        )
    }

    pub fn options(&self) -> Options {
        let paper = Options {
            stopping: Stopping { patience: Some(10), min_delta: 1e-3, at_value: None },
            ..Options::default()
        };
        let (epochs, rate, schedule) = match self.full {
            true => (1000, 1e-3, Schedule::Constant),
            false => (60, 1e-2, Schedule::Cosine),
        };
        Options {
            epochs: self.epochs.map_or(epochs, |epochs| epochs as usize),
            rate: self.rate.unwrap_or(rate),
            schedule,
            stopping: if self.full { paper.stopping } else { Stopping::default() },
            ..paper
        }
    }

    /// All trainings, the longest first, so that threads finish at about the same time.
    fn which(&self) -> Result<Vec<Which>, Failure> {
        let repeats = self.repeats.unwrap_or(if self.full { 5 } else { 1 });
        let nets = self.networks()?;
        let each = |i: usize| nets.iter().map(move |&net| (net, i)).collect::<Vec<_>>();
        Ok((0..repeats.into()).flat_map(each).collect())
    }

    fn networks(&self) -> Result<Vec<PaperNet>, Failure> {
        let refuse = |what: String| Err(Failure::Input(what));
        if let Some(nets) = &self.nets {
            if let Some(i) = (1..nets.len()).find(|&i| nets[..i].contains(&nets[i])) {
                return refuse(format!("--nets: {} is given twice", nets[i]));
            }
            let bad = |net: &&PaperNet| matches!(net, PaperNet::DLstm(d) if !(1..=19).contains(d));
            return match nets.iter().find(bad) {
                Some(net) => refuse(format!("--nets: {net}: expected delays from 1 to 19")),
                None => Ok(nets.clone()),
            };
        }
        let delays = self.delays.clone().unwrap_or_else(|| match self.full {
            true => (1..20).collect(),
            false => vec![5, 10, 19],
        });
        let twice = delays.iter().enumerate().find(|(i, d)| delays[..*i].contains(d));
        if let Some((_, twice)) = twice {
            return refuse(format!("--delays: {twice} is given twice"));
        }
        let mut nets: Vec<PaperNet> =
            delays.iter().rev().map(|&d| PaperNet::DLstm(d.into())).collect();
        nets.extend([PaperNet::BiLstm, PaperNet::Lstm]);
        Ok(nets)
    }

    /// The command line, with every option that changes the result.
    fn command(&self) -> String {
        let mut command = String::from("drnn reproduce reversal");
        if self.full {
            command += " --full";
        }
        if let Some(delays) = &self.delays {
            let delays: Vec<_> = delays.iter().map(u16::to_string).collect();
            let _ = write!(command, " --delays {}", delays.join(","));
        }
        if let Some(nets) = &self.nets {
            let nets: Vec<_> = nets.iter().map(PaperNet::to_string).collect();
            let _ = write!(command, " --nets {}", nets.join(","));
        }
        for (name, value) in [
            ("repeats", self.repeats.map(|n| n.to_string())),
            ("epochs", self.epochs.map(|n| n.to_string())),
            ("rate", self.rate.map(|rate| rate.to_string())),
        ] {
            if let Some(value) = value {
                let _ = write!(command, " --{name} {value}");
            }
        }
        let _ = write!(command, " --sequences {} --seed {}", self.sequences, self.seed);
        if self.out != Path::new("out/reversal") {
            let _ = write!(command, " --out {}", self.out.display());
        }
        command
    }

    fn deviations(&self) -> Vec<String> {
        let (mine, paper) = (self.options(), Options::default());
        let mut found = Vec::new();
        if mine.rate != paper.rate {
            found.push(format!("learning rate {} instead of {}", mine.rate, paper.rate));
        }
        if mine.schedule != Schedule::Constant {
            found.push("learning rate falls to zero along a cosine instead of staying".into());
        }
        if mine.epochs != paper.epochs {
            found.push(format!("{} epochs instead of up to {}", mine.epochs, paper.epochs));
        }
        if !self.full {
            found.push("no early stopping (the paper: patience 10, min delta 0.001)".into());
        }
        if self.sequences != 10_000 {
            found.push(format!("{} training sequences instead of 10,000", self.sequences));
        }
        let repeats = self.repeats.unwrap_or(if self.full { 5 } else { 1 });
        if repeats != 5 {
            found.push(format!("{} instead of 5", counted(repeats.into(), "repetition")));
        }
        found
    }

    fn announce(&self, which: &[Which], cpu: &Cpu) {
        let epochs = self.options().epochs;
        progress!(
            "training {} networks to reverse 20 symbols of 4: {} sequences, up to {epochs} epochs, {} threads",
            which.len(),
            self.sequences,
            cpu.threads()
        );
        let deviations = self.deviations();
        if !deviations.is_empty() {
            progress!("differs from the paper (--full): {}", deviations.join("; "));
        }
    }
}
