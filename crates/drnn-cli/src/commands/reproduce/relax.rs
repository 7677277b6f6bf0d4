//! A task of the campaign: a trained stack is flattened, and trained on with all connections between
//! its blocks. [`crate::report::relax`] has the networks that are compared.
//!
//! Both halves are trainings of their own, with the same options, other masks and another order; Adam
//! and the schedule begin anew in the second, for every network.

use super::Job;
use super::mlm::Text8;
use crate::Failure;
use crate::console::progress;
use crate::memory::Needs;
use crate::report::Provenance;
use crate::report::mlm::Text;
use crate::report::relax::{Arm, Run, Stack, Trained};
use crate::training::place::{Network, Place};
use crate::training::{self, Running, Watch};
use drnn::{Cpu, NetSpec};
use drnn_train::chars::Masked;
use drnn_train::{Dataset, Engine, Metric, Options, Reason, State, Trainer, seed};
use std::time::SystemTime;

/// Derives the seed of the second half's masks and orders.
const SECOND: u64 = 2;

/// A stack to relax, with a seed.
pub struct Relaxing {
    pub stack: Stack,
    /// Of each half.
    pub options: Options,
    /// Training characters; None for all.
    pub first: Option<usize>,
    pub job: Job,
}

/// What was found.
pub struct Found {
    pub provenance: Provenance,
    pub text: Text,
    pub run: Run,
}

/// A network, before or after a half of its training.
struct Net {
    spec: NetSpec,
    /// None for random ones.
    params: Option<Vec<f32>>,
    /// What is known of it.
    so_far: Trained,
}

impl Net {
    fn new(arm: Arm, spec: NetSpec) -> Net {
        let so_far = Trained {
            arm,
            parameters: spec.parameters(),
            epochs: 0,
            valid_bpc: None,
            test_bpc: None,
            ended: Reason::Epochs,
            seconds: 0.0,
            history: Vec::new(),
        };
        Net { spec, params: None, so_far }
    }

    /// Another network that continues this one.
    fn becomes(&self, arm: Arm, spec: NetSpec, params: Option<Vec<f32>>) -> Net {
        let so_far = Trained { arm, parameters: spec.parameters(), ..self.so_far.clone() };
        Net { spec, params, so_far }
    }
}

/// Data, threads and device.
struct Bench<'a> {
    text: &'a Text8,
    cpu: Cpu,
    place: Place,
    command: &'a str,
}

impl Relaxing {
    pub fn results(&self, command: String) -> Result<Found, Failure> {
        let (started, stack) = (SystemTime::now(), self.stack);
        let cpu = training::cpu(self.job.running.threads)?;
        let place = self.job.running.place.find()?;
        let seeds = [self.options.seed, seed::derive(self.options.seed, &[SECOND])];
        let open = |seed| Text8::open(Some(&self.job.data), self.first, seed);
        let (text, other) = (open(seeds[0])?, open(seeds[1])?);
        let bench =
            Bench { text: &text, cpu: cpu.clone(), place: place.clone(), command: &command };
        let log =
            |half: &str| training::logged_seconds(&self.job.folder.join(half).join("log.jsonl"));
        let earlier = log("first") + log("second");

        let mut nets = vec![
            Net::new(Arm::Stack, stack.spec(0)?),
            Net::new(Arm::Delayed, stack.delayed()?),
            Net::new(Arm::DelayedStack, stack.spec(stack.layers - 1)?),
        ];
        self.train("first", &mut nets, &text.train, self.options, &bench)?;
        let trained = nets.remove(0);
        let params = trained.params.clone().unwrap_or_default();
        let flat = stack.flatten(params.clone())?.params().to_vec();
        let mut flattened = trained.becomes(Arm::Flattened, stack.relaxed()?, Some(flat));
        self.score(&mut flattened, &bench)?;

        let longer = trained.becomes(Arm::Longer, stack.spec(0)?, Some(params));
        let free = (stack.relaxed()?, flattened.params.clone());
        let mut second = vec![longer, flattened.becomes(Arm::Relaxed, free.0, free.1)];
        second.append(&mut nets);
        let options = Options { seed: seeds[1], ..self.options };
        self.train("second", &mut second, &other.train, options, &bench)?;

        let all = [trained, flattened].into_iter().chain(second);
        let run = Run { stack: stack.to_string(), arms: all.map(|net| net.so_far).collect() };
        let seed = self.options.seed;
        let provenance = Provenance::new(command.clone(), seed, &cpu, &place, started, earlier);
        Ok(Found { provenance, text: text.about, run })
    }

    /// Trains some networks side by side, and scores them.
    fn train(
        &self,
        half: &str,
        nets: &mut [Net],
        data: &Masked,
        options: Options,
        bench: &Bench,
    ) -> Result<(), Failure> {
        let Bench { text, cpu, place, command } = bench;
        let out = self.job.folder.join(half);
        let running = Running { resume: out.exists(), ..self.job.running.clone() };
        self.check_memory(nets, data, bench)?;
        let folder = running.folder(&out, &[], training::EARLIER)?;
        let (mut lanes, mut names) = (Vec::new(), Vec::new());
        for net in nets.iter() {
            let name = format!("{:?}", net.so_far.arm).to_lowercase();
            let what = format!("relax {} {half} half of {:?} {name}", self.stack, text.about.used);
            let engine = network(net, &options, &cpu.with_threads(1), place)?;
            let trainer =
                Trainer::with_engine(engine, options, &what, data as &dyn Dataset, &text.valid)?;
            lanes.push(running.lane(trainer, &folder, &name)?);
            names.push(name);
        }
        let (count, epochs, threads) = (lanes.len(), options.epochs, cpu.threads());
        progress!("{half} half: {count} trainings, {epochs} epochs each, {threads} threads");
        let watch = Watch::new(names, Metric::Bits, &out.join("log.jsonl"))?;
        running.run(cpu, place, &mut lanes, &watch, command, &|_, _| Ok(()))?;
        for (lane, net) in lanes.iter_mut().zip(nets) {
            let progress = lane.trainer.progress().clone();
            net.params = Some(lane.trainer.engine().params()?);
            let so_far = &mut net.so_far;
            so_far.ended = progress.ended.unwrap_or(Reason::Epochs);
            so_far.epochs += progress.history.len();
            so_far.seconds += progress.seconds;
            so_far.history.extend(progress.history);
            self.score(net, bench)?;
        }
        Ok(())
    }

    /// Bits per masked target of a network as it is.
    fn score(&self, net: &mut Net, bench: &Bench) -> Result<(), Failure> {
        let Bench { text, cpu, place, .. } = bench;
        (net.so_far.valid_bpc, net.so_far.test_bpc) = (None, None);
        if net.so_far.ended == Reason::NotFinite {
            return Ok(());
        }
        let mut network = network(net, &self.options, cpu, place)?;
        let mut bits = |data: &Masked| -> Result<Option<f64>, Failure> {
            Ok(Some(Metric::Bits.of(&network.loss(data, 0, self.options.batch)?)))
        };
        (net.so_far.valid_bpc, net.so_far.test_bpc) = (bits(&text.valid)?, bits(&text.test)?);
        Ok(())
    }

    fn check_memory(&self, nets: &[Net], train: &Masked, bench: &Bench) -> Result<(), Failure> {
        let Bench { text, cpu, place, .. } = bench;
        let data = [train, &text.valid, &text.test].map(|part| part as &dyn Dataset);
        let threads = cpu.threads().div_ceil(nets.len());
        let needs = nets.iter().map(|net| place.needs(&net.spec, &data, &self.options, threads));
        let needs = Needs::side_by_side(needs.collect::<Result<Vec<_>, _>>()?, cpu.threads());
        needs.check_at(self.job.running.force, place, "fewer --threads")
    }
}

/// A network to be trained or scored.
fn network(net: &Net, options: &Options, cpu: &Cpu, place: &Place) -> Result<Network, Failure> {
    let mut network = place.network(cpu, &net.spec, options)?;
    if let Some(params) = &net.params {
        let State { adam, .. } = network.state()?;
        network.set_state(State { params: params.clone(), adam })?;
    }
    Ok(network)
}
