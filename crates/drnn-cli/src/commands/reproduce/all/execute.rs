//! Runs a batch of tasks by the function of its experiment, and writes their records.

use super::super::{Job, depth, mlm, pos, relax, reversal, runtime, sine, theorem};
use super::Arguments;
use super::batches::Batch;
use super::data::Sources;
use crate::Failure;
use crate::campaign::{
    Campaign, DataFile, Experiment, Outcome, Protocol, SINE_AHEADS, Task, TaskProvenance,
    TaskRecord, Vectors,
};
use crate::report::Provenance;
use crate::report::pos::Language;
use crate::report::relax::Stack;
use crate::training;
use crate::training::place::Place;
use drnn_train::chars::paper::Row;
use drnn_train::sine::campaign::Gamma;
use drnn_train::{Options, PaperNet};
use std::path::Path;
use std::time::SystemTime;

/// Training characters, sequences' epochs and sentences of a shrunken campaign.
const QUICK_CHARACTERS: u64 = 8_000;
const QUICK_EPOCHS: u32 = 2;
const QUICK_SENTENCES: usize = 40;
const QUICK_AHEADS: [u8; 2] = [5, 6];

impl Arguments {
    /// Runs the tasks of a batch side by side and adds their records to the campaign.
    pub fn execute_batch(
        &self,
        batch: &Batch,
        data: &Sources,
        campaign: &mut Campaign,
    ) -> Result<(), Failure> {
        let Some(first) = batch.tasks.first() else { return Ok(()) };
        let folder = campaign.work(&batch.folder());
        let running = self.running(first.only_cpu(), &folder);
        let job = Job { data: data.folder.clone(), folder: folder.clone(), running };
        let seed = first.repetition;
        let records = match first.experiment {
            Experiment::Theorem => vec![self.theorem(first)?],
            Experiment::Depth => vec![self.depth(first)?],
            Experiment::Runtime(_) => vec![self.runtime(first)?],
            Experiment::Mlm(row) => vec![self.mlm(first, row, job)?],
            Experiment::Relax(stack) => vec![self.relax(first, stack, job)?],
            Experiment::Reversal(_) => self.reversal(&batch.tasks, seed, job)?,
            Experiment::Sine(_) => self.sine(&batch.tasks, seed, job)?,
            Experiment::Pos(lang, _, vectors) => {
                self.pos(&batch.tasks, (lang, vectors, seed), data, job)?
            }
        };
        for record in records {
            campaign.add(record)?;
        }
        clear(&folder, &campaign.work(""));
        Ok(())
    }

    fn is_quick(&self) -> bool {
        self.protocol() == Protocol::Quick
    }

    /// The provenance of an experiment that runs on the CPU in one piece.
    fn counted(&self, task: &Task, started: SystemTime) -> Result<TaskProvenance, Failure> {
        let cpu = training::cpu(self.threads)?;
        let made = Provenance::new(self.command(task), 1, &cpu, &Place::Cpu, started, 0.0);
        Ok(TaskProvenance::of_run(&made, 1))
    }

    fn theorem(&self, task: &Task) -> Result<TaskRecord, Failure> {
        let started = SystemTime::now();
        let found = theorem::Arguments::for_campaign(self.is_quick(), self.force).results()?;
        found.check()?;
        let outcome = Outcome::Theorem { networks: found.theorem, solved: found.solved };
        Ok(TaskRecord::new(task, self.counted(task, started)?, outcome))
    }

    fn depth(&self, task: &Task) -> Result<TaskRecord, Failure> {
        let started = SystemTime::now();
        let found = depth::Arguments::for_campaign().results()?;
        let (pairs_checked, offsets, nets) = (found.pairs_checked, found.offsets, found.nets);
        let outcome = Outcome::Depth { pairs_checked, offsets, nets };
        Ok(TaskRecord::new(task, self.counted(task, started)?, outcome))
    }

    fn runtime(&self, task: &Task) -> Result<TaskRecord, Failure> {
        let place = if task.only_cpu() { self.place.on_cpu() } else { self.place };
        let arguments = runtime::Arguments::for_campaign(self.is_quick(), self.threads, place);
        let found = arguments.results(self.command(task))?;
        let made = TaskProvenance::of_run(&found.provenance, 1);
        Ok(TaskRecord::new(task, made, Outcome::Runtime { times: found.times, peer: None }))
    }

    fn mlm(&self, task: &Task, row: Row, job: Job) -> Result<TaskRecord, Failure> {
        let first = self.is_quick().then_some(QUICK_CHARACTERS);
        let arguments = mlm::Arguments::for_campaign(vec![row], task.repetition, first, job);
        let mut found = arguments.results(self.command(task))?;
        let run = found.runs.pop().ok_or_else(|| nothing(task))?;
        let made = TaskProvenance::of_run(&found.provenance, 1);
        let bytes = found.text.characters as u64;
        let outcome = Outcome::Mlm { text: found.text, options: found.options, run };
        let mut record = TaskRecord::new(task, made, outcome);
        record.data = vec![DataFile { name: "text8".into(), bytes }];
        record.deviations = without_repetitions(found.deviations);
        Ok(record)
    }

    fn relax(&self, task: &Task, stack: Stack, job: Job) -> Result<TaskRecord, Failure> {
        let paper = Options { seed: task.repetition, ..stack.options() };
        let (first, options) = match self.is_quick() {
            true => (Some(QUICK_CHARACTERS as usize), Options { epochs: 1, ..paper }),
            false => (stack.first(), paper),
        };
        let found = relax::Relaxing { stack, options, first, job }.results(self.command(task))?;
        let made = TaskProvenance::of_run(&found.provenance, 1);
        let bytes = found.text.characters as u64;
        let outcome = Outcome::Relax { text: found.text, options, run: found.run };
        let mut record = TaskRecord::new(task, made, outcome);
        record.data = vec![DataFile { name: "text8".into(), bytes }];
        Ok(record)
    }

    fn reversal(&self, tasks: &[Task], seed: u64, job: Job) -> Result<Vec<TaskRecord>, Failure> {
        let nets: Vec<PaperNet> = tasks
            .iter()
            .filter_map(|task| match task.experiment {
                Experiment::Reversal(net) => Some(net),
                _ => None,
            })
            .rev() // the longest delays first
            .collect();
        let epochs = self.is_quick().then_some(QUICK_EPOCHS);
        let arguments = reversal::Arguments::for_campaign(nets, seed, epochs, job);
        let found = arguments.results(self.command(&tasks[0]))?;
        let record = |task: &Task| {
            let Experiment::Reversal(net) = task.experiment else { return Err(nothing(task)) };
            let run = found.runs.iter().find(|run| run.net == net.to_string());
            let run = run.cloned().ok_or_else(|| nothing(task))?;
            let mut made = TaskProvenance::of_run(&found.provenance, tasks.len());
            made.command = self.command(task);
            let outcome = Outcome::Reversal { setting: found.task, options: found.options, run };
            let mut record = TaskRecord::new(task, made, outcome);
            record.deviations = without_repetitions(found.deviations.clone());
            Ok(record)
        };
        tasks.iter().map(record).collect()
    }

    fn sine(&self, tasks: &[Task], set: u64, job: Job) -> Result<Vec<TaskRecord>, Failure> {
        let (started, cpu) = (SystemTime::now(), training::cpu(self.threads)?);
        let gamma = |task: &Task| match task.experiment {
            Experiment::Sine(gamma) => Some(gamma),
            _ => None,
        };
        let gammas: Vec<Gamma> = tasks.iter().filter_map(gamma).collect();
        let aheads = if self.is_quick() { QUICK_AHEADS.to_vec() } else { SINE_AHEADS.to_vec() };
        let epochs = self.is_quick().then_some(QUICK_EPOCHS);
        let arguments = sine::Arguments::for_campaign(gammas, aheads, set, epochs, job);
        let (_lock, found) = arguments.train()?;
        let place = self.place.find()?;
        let record = |task: &Task| {
            let of_task = found.records().values().filter(|record| {
                Some(record.cell.gamma) == gamma(task) && record.cell.set == task.repetition
            });
            let records: Vec<_> = of_task.cloned().collect();
            let seed = found.protocol().training.seed;
            let made = Provenance::new(self.command(task), seed, &cpu, &place, started, 0.0);
            let made = TaskProvenance::of_run(&made, tasks.len());
            let outcome = Outcome::Sine { protocol: *found.protocol(), records };
            TaskRecord::new(task, made, outcome)
        };
        Ok(tasks.iter().map(record).collect())
    }

    fn pos(
        &self,
        tasks: &[Task],
        (lang, vectors, seed): (Language, Vectors, u64),
        data: &Sources,
        job: Job,
    ) -> Result<Vec<TaskRecord>, Failure> {
        let pair = |task: &Task| match task.experiment {
            Experiment::Pos(_, pair, _) => Some(pair),
            _ => None,
        };
        let pairs: Vec<[PaperNet; 2]> = tasks.iter().filter_map(pair).collect();
        let sentences = self.is_quick().then_some(QUICK_SENTENCES);
        let more = (data.vectors(vectors), sentences);
        let arguments = pos::Arguments::for_campaign(lang, pairs, seed, more, job);
        let found = arguments.results(self.command(&tasks[0]))?;
        let files = data.tagger_files(lang, vectors)?;
        let record = |task: &Task| {
            let run = found.runs.iter().find(|run| Some([run.chars, run.words]) == pair(task));
            let run = run.cloned().ok_or_else(|| nothing(task))?;
            let mut made = TaskProvenance::of_run(&found.provenance, tasks.len());
            made.command = self.command(task);
            let outcome = Outcome::Pos {
                lang,
                described: found.what.clone(),
                options: found.options,
                notes: found.notes.clone(),
                run,
            };
            let mut record = TaskRecord::new(task, made, outcome);
            record.data = files.clone();
            record.deviations = without_repetitions(found.deviations.clone());
            Ok(record)
        };
        tasks.iter().map(record).collect()
    }
}

/// A task is one repetition; how many there are shows in the report.
fn without_repetitions(deviations: Vec<String>) -> Vec<String> {
    deviations.into_iter().filter(|text| !text.contains("repetition")).collect()
}

fn nothing(task: &Task) -> Failure {
    Failure::Check(format!("{task}: the experiment gave no result"))
}

/// Removes a task's checkpoints, and folders above them that are empty then. If that fails, only disk
/// space is lost.
fn clear(folder: &Path, work: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    let above = folder.ancestors().skip(1).take_while(|path| path.starts_with(work));
    for path in above {
        if std::fs::remove_dir(path).is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::paper_options;
    use crate::memory::Force;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        force: Force,
        #[command(flatten)]
        place: crate::training::place::PlaceArguments,
    }

    fn job() -> Job {
        let Line { force, place } = Line::parse_from(["drnn"]);
        let (threads, checkpoint_every, resume) = (None, 2.0, true);
        let running = training::Running { threads, checkpoint_every, resume, place, force };
        Job { data: "data".into(), folder: "work".into(), running }
    }

    /// What is trained is what records are checked for.
    #[test]
    fn tasks_follow_the_papers_protocol() {
        let task = |id: &str| id.parse::<Task>().unwrap();
        let check = |id: &str, found: Options| {
            let paper = paper_options(&task(id).experiment);
            assert_eq!(Options { seed: paper.seed, ..found }, paper, "{id}");
        };
        let Experiment::Mlm(row) = task("mlm/small-dlstm-8/seed-1").experiment else { panic!() };
        let mlm = mlm::Arguments::for_campaign(vec![row], 1, None, job());
        check("mlm/small-dlstm-8/seed-1", mlm.options());
        let reversal = reversal::Arguments::for_campaign(vec![PaperNet::Lstm], 1, None, job());
        check("reversal/lstm/seed-1", reversal.options());
        let gammas = Gamma::tenths(5).into_iter().collect();
        let sine = sine::Arguments::for_campaign(gammas, SINE_AHEADS.to_vec(), 0, None, job());
        check("sine/gamma-0.5/set-0", sine.protocol().unwrap().training);
        let pairs = vec![[PaperNet::Lstm; 2]];
        let pos = pos::Arguments::for_campaign(Language::En, pairs, 1, (None, None), job());
        check("pos/en/lstm_lstm/seed-1", pos.options());
    }
}
