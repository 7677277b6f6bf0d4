//! `drnn reproduce all`: the whole paper as one campaign.
//!
//! | file | what |
//! |---|---|
//! | `select` | the tasks to run: by id, by a task array's number, or all |
//! | `data` | data sets in a folder, and those that are missing |
//! | `batches` | tasks that run side by side |
//! | `execute` | tasks run by the functions of the single experiments |
//! | `list` | the plan as a table or as JSON |
//!
//! [`crate::campaign`] has the plan and the results files.

mod batches;
mod data;
mod execute;
mod list;
mod select;

use crate::Failure;
use crate::campaign::{Campaign, Known, Merged, Plan, Protocol, Task, import};
use crate::console::{note, progress, warning};
use crate::files::paths::same_file;
use crate::memory::Force;
use crate::training::place::{Place, PlaceArguments};
use crate::training::stop::Stop;
use crate::training::{self, Running};
use clap::Args;
use drnn::text::counted;
use drnn_train::sine::results::MAX_RESULTS;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The whole paper: every table and figure, with repetitions, as a campaign of tasks
///
/// Each finished task has a file in the folder tasks of --out; tasks in progress have checkpoints in the folder
/// work. However the program ends, the same command continues. Tasks can be run anywhere, one by one or by task
/// arrays of Slurm (SLURM_ARRAY_TASK_ID) or HyperQueue (HQ_TASK_ID), which select a task by its number, and merged
/// afterwards; docs/CAMPAIGN.md has recipes. `drnn report DIR` makes the page.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Folder with text8, the treebanks and GloVe's vectors, also in sub-folders
    #[arg(long, value_name = "DIR", env = "DRNN_DATA")]
    data: Option<PathBuf>,
    /// Folder of the campaign
    #[arg(long, value_name = "DIR", default_value = "out/paper")]
    out: PathBuf,
    /// Trainings of each network of the character table and of the taggers; reversal and sine have 5
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MAX_SEEDS))]
    seeds: u64,
    /// A shrunken campaign, to try everything out in minutes. Its results are marked as such and are never mixed
    /// with the paper's
    #[arg(long)]
    quick: bool,
    /// Run only this task, or all whose ids begin with it: mlm, mlm/small-dlstm-8, mlm/small-dlstm-8/seed-1
    #[arg(long = "task", value_name = "ID")]
    tasks: Vec<String>,
    /// Print the tasks, with the minutes that they are expected to take here and whether they are done
    #[arg(long, conflicts_with_all = ["merge", "import"])]
    list: bool,
    /// With --list: only tasks that are not done
    #[arg(long, requires = "list")]
    pending: bool,
    /// With --list: a JSON object for each task, one per line
    #[arg(long, requires = "list")]
    json: bool,
    /// Run nothing, but merge the results of these campaigns into --out. A task that was run twice is recognised;
    /// if the outcomes differ, the first one stays and the exit code is 1
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["tasks", "import"])]
    merge: Vec<PathBuf>,
    /// Run nothing, but take over results of `drnn reproduce mlm`, `reversal`, `pos`, `sine` (its results.jsonl) or
    /// of bench/paper_runtime.py where they follow the paper's protocol
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["tasks", "quick"])]
    import: Vec<PathBuf>,
    /// With --import: wall-clock seconds of the imported run, where the file does not have them
    #[arg(long, value_name = "SECONDS", requires = "import", value_parser = seconds)]
    took: Option<f64>,
    /// With --import: what else is known of the imported run, for its provenance
    #[arg(long, value_name = "TEXT", requires = "import")]
    note: Option<String>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Minutes between checkpoints within an epoch; there is always one at its end
    #[arg(long, value_name = "MINUTES", default_value_t = 2.0, value_parser = training::minutes)]
    checkpoint_every: f64,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    force: Force,
}

/// The maximum of `--seeds`.
const MAX_SEEDS: u64 = 100;

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if (0.0..=1e9).contains(&seconds) { Ok(seconds) } else { Err("expected seconds".into()) }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { out, list, merge, import, .. } = arguments;
    let mut campaign = Campaign::open(out, Some(arguments.protocol()))?;
    if !merge.is_empty() {
        return arguments.merge(&mut campaign);
    }
    if !import.is_empty() {
        return arguments.import(&mut campaign);
    }
    let plan = Plan::new(arguments.protocol(), arguments.seeds);
    if *list {
        let tasks = select::by_id(&plan, arguments.protocol(), &arguments.tasks)?;
        let text = arguments.listed(&plan, &tasks, &campaign)?;
        return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
    }
    let tasks = select::tasks(&plan, arguments.protocol(), &arguments.tasks)?;
    arguments.execute(&tasks, &mut campaign)
}

impl Arguments {
    fn protocol(&self) -> Protocol {
        if self.quick { Protocol::Quick } else { Protocol::Paper }
    }

    /// The command that runs a task, with everything that changes its result.
    fn command(&self, task: &Task) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let place = match (task.only_cpu(), task.only_gpu() && !self.place.may_be_gpu()) {
            (true, _) => String::new(),
            (_, true) => " --device cuda".into(),
            _ => self.place.command(),
        };
        format!("drnn reproduce all --data DIR --out DIR{quick} --task {task}{place}")
    }

    fn listed(&self, plan: &Plan, tasks: &[Task], campaign: &Campaign) -> Result<String, Failure> {
        let machine = list::Machine {
            gpu: self.place.may_be_gpu(),
            cores: training::cpu(self.threads)?.threads(),
        };
        let listed =
            tasks.iter().filter(|task| !(self.pending && campaign.is_done(task))).map(|task| {
                list::Listed {
                    number: plan.number(task).unwrap_or(0),
                    task: *task,
                    done: campaign.is_done(task),
                    command: self.command(task),
                }
            });
        let listed: Vec<_> = listed.collect();
        Ok(if self.json { list::json(&listed, machine)? } else { list::table(&listed, machine) })
    }

    /// Runs the tasks that are not done.
    fn execute(&self, tasks: &[Task], campaign: &mut Campaign) -> Result<(), Failure> {
        let gpu = self.place.may_be_gpu();
        let mut pending: Vec<Task> =
            tasks.iter().filter(|task| !campaign.is_done(task)).copied().collect();
        let (all, out) = (counted(tasks.len(), "task"), self.out.display().to_string());
        progress!("{all} in {out}, {} of them done already", tasks.len() - pending.len());
        for task in pending.iter().filter(|task| task.only_gpu() && !gpu) {
            note!("{task}: is left out, because it needs --device cuda");
        }
        pending.retain(|task| gpu || !task.only_gpu());
        let cores = training::cpu(self.threads)?.threads();
        let mut taggers = cores;
        if gpu && pending.iter().any(|task| !task.only_cpu()) {
            // No GPU is an error before work begins.
            if let Place::Cuda(device, ..) = self.place.find()? {
                taggers = batches::taggers_on_gpu(device.free_memory().unwrap_or(0));
            }
        }
        let data = data::Sources::find(&pending, self.data.as_deref())?;
        let stop = Stop::on_ctrl_c()?;
        let batches = batches::of(&pending, gpu, taggers);
        let count = batches.len();
        for (i, batch) in batches.into_iter().enumerate() {
            let batch = batch.without(|task| campaign.is_done_now(task));
            if batch.tasks.is_empty() {
                continue; // another program has done it
            }
            let minutes = batch.minutes(gpu, cores);
            progress!("step {} of {count}: {batch}, about {minutes:.1} minutes", i + 1);
            let outcome = self.execute_batch(&batch, &data, campaign);
            if stop.pressed() || matches!(outcome, Err(Failure::Interrupted(_))) {
                return Err(Failure::Interrupted(format!(
                    "stopped; what is done is in {out}, and the same command continues"
                )));
            }
            outcome?;
        }
        progress!("{all} done; `drnn report {out}` makes the page");
        Ok(())
    }

    /// Threads, device and checkpoints of a task's training in `folder`.
    fn running(&self, only_cpu: bool, folder: &Path) -> Running {
        Running {
            threads: self.threads,
            checkpoint_every: self.checkpoint_every,
            resume: folder.exists(),
            place: if only_cpu { self.place.on_cpu() } else { self.place },
            force: self.force,
        }
    }

    fn merge(&self, campaign: &mut Campaign) -> Result<(), Failure> {
        let mut conflicts = Vec::new();
        for folder in &self.merge {
            if same_file(folder, &self.out) {
                let folder = folder.display();
                return Err(Failure::Input(format!("--merge {folder}: is the folder of --out")));
            }
            if !folder.join("tasks").is_dir() {
                let folder = folder.display();
                return Err(Failure::Input(format!(
                    "--merge {folder}: has no folder tasks, so it is not of a campaign"
                )));
            }
            let other = Campaign::open(folder, Some(self.protocol()))?;
            let merged = campaign.merge(other.records.into_values().collect())?;
            self.report_merge(&folder.display().to_string(), &merged);
            conflicts.extend(merged.conflicts);
        }
        check_conflicts(&conflicts)
    }

    fn import(&self, campaign: &mut Campaign) -> Result<(), Failure> {
        let mut conflicts = Vec::new();
        for path in &self.import {
            let shown = path.display().to_string();
            let refuse = |why: String| Failure::Input(format!("{shown}: {why}"));
            let bytes = drnn::io::read_file(path, MAX_RESULTS)
                .map_err(|e| refuse(format!("cannot be read: {e}")))?;
            let imported =
                import(path, &bytes, Known { took: self.took, note: self.note.as_deref() })
                    .map_err(refuse)?;
            imported.left_out.iter().for_each(|line| note!("{shown}: left out {line}"));
            let merged = campaign.merge(imported.records)?;
            self.report_merge(&shown, &merged);
            conflicts.extend(merged.conflicts);
        }
        check_conflicts(&conflicts)
    }

    fn report_merge(&self, from: &str, merged: &Merged) {
        let (added, same) = (counted(merged.added, "task"), merged.same);
        progress!("{from}: {added} added to {}, {same} there already", self.out.display());
        merged.conflicts.iter().for_each(|line| warning!("{from}: {line}"));
    }
}

fn check_conflicts(conflicts: &[String]) -> Result<(), Failure> {
    match conflicts.len() {
        0 => Ok(()),
        n => Err(Failure::Check(format!(
            "{} with different outcomes; everything else is merged. Delete the file of one of the two \
             and merge again to choose the other",
            counted(n, "task")
        ))),
    }
}
